// Owns the walk through a message with tool calls; see call_walk.h.
#include "backends/call_walk.h"

#include <algorithm>
#include <utility>

#include "json_text.h"

namespace specguide {

using CallMode = CallState::Mode;

namespace {

bool goes_on_in_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
}

constexpr int kOfCalls = 0, kOfHeld = 1;  // numbers for what comes before names

CallWalk::Names all_of(const CallWalk::Texts& texts, const HeldTexts& held) {
  CallWalk::Names all;
  for (const std::string& text : texts) all.emplace_back(text, kOfCalls);
  for (const std::string& text : held.before) all.emplace_back(text, kOfHeld);
  return all;
}

KeyStarts only(const std::string& text) {
  return KeyStarts(text.empty() ? CallWalk::Names{} : CallWalk::Names{{text, 0}});
}

bool may_follow_string(char c) { return is_space(c) || c == ',' || c == ':' || c == ']' || c == '}'; }

}  // namespace

CallWalk::CallWalk(const Texts& before, const Names& names, const std::string& gate, int lead_len,
                   CallArguments arguments, HeldTexts held)
    : held_(std::move(held)),
      before_(all_of(before, held_)),
      names_(names),
      gate_(only(gate)),
      held_name_(only(held_.behind_name)),
      held_end_(only(held_.end + held_.after)),
      lead_len_(lead_len),
      arguments_(arguments),
      left_before_(before_.least_left()),
      left_of_name_(names_.least_left()),
      left_of_gate_(gate_.least_left()) {}

CallState CallWalk::start() const {
  CallState state;
  if (!gate_.empty()) state.mode = CallMode::kBefore;
  step(state, KeyStarts::kTextStart);
  return state;
}

std::vector<FoundCall> CallWalk::take(CallState& state, std::string_view bytes) const {
  std::vector<FoundCall> found;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!step(state, bytes[i])) continue;
    const size_t begin = i + 1 + static_cast<size_t>(std::max(lead_len_, 0));
    const size_t head_len = std::min(begin, bytes.size());
    found.push_back({state.call, head_len, begin - head_len});
  }
  return found;
}

std::vector<FoundCall> CallWalk::take_special(CallState& state, int32_t token) const {
  if (state.mode == CallMode::kScalar) enter_text(state, KeyStarts::kJsonEnd);
  std::vector<FoundCall> found = take(state, KeyStarts::of_special(token));
  if (lead_len_ < 0) {
    for (FoundCall& one : found) one.head_len = 0;
  }
  return found;
}

bool CallWalk::may_find(const CallState& state, size_t num_bytes) const {
  const auto node = static_cast<size_t>(state.node);
  switch (state.mode) {
    case CallMode::kBefore:
      return left_of_gate_[node] <= num_bytes;
    case CallMode::kText:
      return left_before_[node] + left_of_name_[0] <= num_bytes;
    default:
      return state.mode == CallMode::kName && left_of_name_[node] <= num_bytes;
  }
}

bool CallWalk::has_later(std::string_view bytes) const {
  for (size_t begin = 0; begin < bytes.size(); ++begin) {
    CallState state;
    enter_text(state, arguments_ == CallArguments::kSearched ? KeyStarts::kArgumentsStart : KeyStarts::kJsonEnd);
    for (size_t i = begin; i < bytes.size(); ++i) {
      if (step(state, bytes[i])) return true;
      if (state.mode == CallMode::kText && state.node == 0) break;
    }
  }
  return false;
}

bool CallWalk::step(CallState& state, char byte) const {
  switch (state.mode) {
    case CallMode::kBefore:
      state.node = gate_.next(state.node, byte);
      if (gate_.place(state.node) >= 0) enter_text(state, KeyStarts::kTextStart);
      return false;
    case CallMode::kText:
      state.node = before_.next(state.node, byte);
      if (before_.place(state.node) < 0) return false;
      state.mode = before_.place(state.node) == kOfCalls ? CallMode::kName : CallMode::kHeldName;
      state.node = 0;
      return false;
    case CallMode::kName:
      return step_name(state, byte);
    case CallMode::kLead:
      if (--state.num_left == 0) state.mode = CallMode::kValue;
      return false;
    case CallMode::kValue:
      return begin_arguments(state, byte);
    case CallMode::kHeldName:
    case CallMode::kHeldBegin:
    case CallMode::kHeld:
      return step_held(state, byte);
    default:
      return step_json(state, byte);
  }
}

bool CallWalk::step_name(CallState& state, char byte) const {
  state.node = names_.child(state.node, byte);
  if (state.node < 0) {  // not a name
    state.mode = CallMode::kText;
    state.node = 0;
    return step(state, byte);
  }
  if (names_.place(state.node) < 0) return false;
  state.call = names_.place(state.node);
  state.num_left = static_cast<size_t>(std::max(lead_len_, 0));
  state.mode = state.num_left > 0 ? CallMode::kLead : CallMode::kValue;
  return true;
}

bool CallWalk::step_json(CallState& state, char byte) const {
  switch (state.mode) {
    case CallMode::kString:
      if (byte == '\\') state.mode = CallMode::kEscape;
      if (byte != '"') return false;
      if (state.depth > 0) {
        state.mode = CallMode::kNested;
      } else {
        enter_text(state, KeyStarts::kJsonEnd);
      }
      return false;
    case CallMode::kEscape:
      state.mode = CallMode::kString;
      return false;
    case CallMode::kQuoted:
      if (byte == '\'') state.mode = CallMode::kNested;
      return false;
    case CallMode::kScalar:
      if (goes_on_in_scalar(byte)) return false;
      enter_text(state, KeyStarts::kJsonEnd);
      return step(state, byte);
    default:
      return step_nested(state, byte);
  }
}

bool CallWalk::step_nested(CallState& state, char byte) const {
  const bool is_bracketed = arguments_ == CallArguments::kBracketed;
  if (byte == '"') state.mode = CallMode::kString;
  if (byte == '\'' && is_bracketed) state.mode = CallMode::kQuoted;
  if (byte == '{' || byte == '[') ++state.depth;
  const bool closes = byte == '}' || byte == ']' || (byte == ')' && is_bracketed);
  if (closes && --state.depth == 0) enter_text(state, KeyStarts::kJsonEnd);
  return false;
}

// What looks like the text before a name may be the end of a JSON string; no name begins like the text after that.
bool CallWalk::step_held(CallState& state, char byte) const {
  size_t num_again = 0;  // bytes of a mark that must be read again as text
  switch (state.mode) {
    case CallMode::kHeldName:
      state.node = held_name_.next(state.node, byte);
      if (held_name_.place(state.node) >= 0) {
        state.mode = CallMode::kHeldBegin;
        state.num_left = 0;
      }
      if (state.node != 0 || (byte != held_.after[0] && !may_follow_string(byte))) return false;
      break;
    case CallMode::kHeldBegin:
      if (byte != held_.begin[state.num_left]) {
        num_again = state.num_left;
        break;
      }
      if (++state.num_left < held_.begin.size()) return false;
      state.mode = CallMode::kHeld;
      state.node = 0;
      return false;
    default:
      state.node = held_end_.next(state.node, byte);
      if (held_end_.place(state.node) < 0) return false;
      state.mode = CallMode::kText;
      state.node = 0;
      for (const char one : held_.after) step(state, one);
      return false;
  }
  state.mode = CallMode::kText;
  state.node = 0;
  for (size_t i = 0; i < num_again; ++i) step(state, held_.begin[i]);
  return step(state, byte);
}

bool CallWalk::begin_arguments(CallState& state, char byte) const {
  switch (arguments_) {
    case CallArguments::kSearched:
      enter_text(state, KeyStarts::kArgumentsStart);
      return step(state, byte);
    case CallArguments::kBracketed:
      state.depth = 1;
      state.mode = CallMode::kNested;
      return step(state, byte);
    case CallArguments::kJson:
      state.depth = byte == '{' || byte == '[' ? 1 : 0;
      state.mode = state.depth > 0 ? CallMode::kNested : byte == '"' ? CallMode::kString : CallMode::kScalar;
  }
  return false;
}

// Text outside of arguments begins, after what the mark stands for.
void CallWalk::enter_text(CallState& state, char mark) const {
  state.mode = CallMode::kText;
  state.node = 0;
  step(state, mark);
}

}  // namespace specguide
