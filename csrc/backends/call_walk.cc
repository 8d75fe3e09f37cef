// Owns the way through a message with tool calls; see call_walk.h.
#include "backends/call_walk.h"

namespace specguide {

using CallMode = CallState::Mode;

namespace {

bool goes_on_in_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
}

}  // namespace

CallWalk::CallWalk(const std::vector<std::pair<std::string, int>>& starts, size_t lead_len, bool are_json)
    : starts_(starts), lead_len_(lead_len), are_json_(are_json) {}

CallState CallWalk::start() const {
  CallState state;
  step(state, KeyStarts::kTextStart);
  return state;
}

bool CallWalk::take(CallState& state, std::string_view bytes) const {
  bool is_found = false;
  for (const char byte : bytes) is_found |= step(state, byte);
  return is_found;
}

bool CallWalk::take_special(CallState& state, int32_t token) const {
  if (state.mode == CallMode::kScalar) end_arguments(state);
  return take(state, KeyStarts::of_special(token));
}

bool CallWalk::step(CallState& state, char byte) const {
  switch (state.mode) {
    case CallMode::kText:
      state.node = starts_.next(state.node, byte);
      if (starts_.place(state.node) < 0) return false;
      state.call = starts_.place(state.node);
      state.num_left = lead_len_;
      state.mode = lead_len_ > 0 ? CallMode::kLead : CallMode::kValue;
      return true;
    case CallMode::kLead:
      if (--state.num_left == 0) state.mode = CallMode::kValue;
      return false;
    case CallMode::kValue:
      if (!are_json_) {
        state.mode = CallMode::kText;
        state.node = 0;
        return step(state, byte);
      }
      state.depth = byte == '{' || byte == '[' ? 1 : 0;
      state.mode = state.depth > 0 ? CallMode::kNested : byte == '"' ? CallMode::kString : CallMode::kScalar;
      return false;
    case CallMode::kNested:
      if (byte == '"') state.mode = CallMode::kString;
      if (byte == '{' || byte == '[') ++state.depth;
      if ((byte == '}' || byte == ']') && --state.depth == 0) end_arguments(state);
      return false;
    case CallMode::kString:
      if (byte == '\\') state.mode = CallMode::kEscape;
      if (byte != '"') return false;
      if (state.depth > 0) {
        state.mode = CallMode::kNested;
      } else {
        end_arguments(state);
      }
      return false;
    case CallMode::kEscape:
      state.mode = CallMode::kString;
      return false;
    case CallMode::kScalar:
      if (goes_on_in_scalar(byte)) return false;
      end_arguments(state);
      return step(state, byte);
  }
  return false;
}

void CallWalk::end_arguments(CallState& state) const {
  state.mode = CallMode::kText;
  state.node = 0;
  step(state, KeyStarts::kJsonEnd);
}

}  // namespace specguide
