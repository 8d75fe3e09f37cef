// Owns the walk through texts with JSON in them; see key_walk.h.
#include "backends/key_walk.h"

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <utility>

#include "json_text.h"

namespace specguide {

using KeyMode = KeyState::Mode;

bool KeyFrame::has_come(const std::string& key) const {
  const size_t number = place->number(key);
  if (number < place->num_names()) return seen.has(number);
  for (const SeenKey* one = others.get(); one != nullptr; one = one->before.get()) {
    if (one->text == key) return true;
  }
  return false;
}

bool KeyFrame::may_repeat(std::string_view start) const {
  const auto [first, last] = place->beginning_with(start);
  if (seen.has_any(first, last)) return true;
  for (const SeenKey* one = others.get(); one != nullptr; one = one->before.get()) {
    if (begins_with(one->text, start)) return true;
  }
  return false;
}

KeyStarts::KeyStarts(const std::vector<std::pair<std::string, int>>& starts) : nodes_(1) {
  for (const auto& [text, place] : starts) {
    if (text.empty()) throw std::invalid_argument("a text behind which JSON begins must not be empty");
    int node = 0;
    for (const char byte : text) {
      int found = child(node, byte);
      if (found < 0) {
        found = static_cast<int>(nodes_.size());
        nodes_[static_cast<size_t>(node)].next.emplace_back(byte, found);
        nodes_.emplace_back();
      }
      node = found;
    }
    nodes_[static_cast<size_t>(node)].place = place;
  }
  std::queue<int> todo({0});
  for (; !todo.empty(); todo.pop()) {
    const int node = todo.front();
    const int shorter = nodes_[static_cast<size_t>(node)].shorter;
    for (const auto& [byte, found] : nodes_[static_cast<size_t>(node)].next) {
      Node& one = nodes_[static_cast<size_t>(found)];
      one.shorter = node == 0 ? 0 : next(shorter, byte);
      if (one.place < 0) one.place = place(one.shorter);
      todo.push(found);
    }
  }
}

int KeyStarts::child(int node, char byte) const {
  for (const auto& [known, found] : nodes_[static_cast<size_t>(node)].next) {
    if (known == byte) return found;
  }
  return -1;
}

int KeyStarts::next(int node, char byte) const {
  int found = child(node, byte);
  while (found < 0 && node != 0) {
    node = nodes_[static_cast<size_t>(node)].shorter;
    found = child(node, byte);
  }
  return std::max(found, 0);
}

std::vector<size_t> KeyStarts::least_left() const {
  std::vector<size_t> left(nodes_.size(), kNoText);
  // A node comes before the nodes that continue it, but its fallback, which is shorter, may come before or behind it.
  for (size_t node = nodes_.size(); node-- > 0;) {
    if (nodes_[node].place >= 0) left[node] = 0;
    for (const auto& [byte, found] : nodes_[node].next) {
      const bool is_text = static_cast<unsigned char>(byte) < static_cast<unsigned char>(kArgumentsStart);
      if (is_text) left[node] = std::min(left[node], left[static_cast<size_t>(found)] + 1);
    }
  }
  std::vector<size_t> least = left;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    for (int one = static_cast<int>(node); one != 0; one = nodes_[static_cast<size_t>(one)].shorter) {
      least[node] = std::min(least[node], left[static_cast<size_t>(nodes_[static_cast<size_t>(one)].shorter)]);
    }
    least[node] = std::min(least[node], kNoText);
  }
  return least;
}

bool KeyStarts::step(Search& search, bool may_begin, char byte) const {
  search.node = next(search.node, byte);
  const int found = place(search.node);
  if (found >= 0) search.place = found;
  return found >= 0 || (may_begin && is_space(byte));
}

KeyWalk::KeyWalk(std::shared_ptr<const KeyPlaces> places, std::shared_ptr<const KeyStarts> starts)
    : places_(std::move(places)), starts_(std::move(starts)) {
  if (!places_ || !starts_) throw std::invalid_argument("keys in any order need places, and starts");
}

KeyState KeyWalk::start() const {
  KeyState state;
  if (!starts_->empty()) step_outside(state, KeyStarts::kTextStart);
  return state;
}

void KeyWalk::take_special(KeyState& state, int32_t token) const {
  if (starts_->empty() || state.top != nullptr || state.is_in_string()) return;
  for (const char byte : KeyStarts::of_special(token)) step_outside(state, byte);
}

// Takes a byte behind which JSON may begin.
void KeyWalk::step_outside(KeyState& state, char byte) const {
  state.mode = starts_->step(state.search, state.mode == KeyMode::kValue, byte) ? KeyMode::kValue : KeyMode::kOutside;
}

KeyVerdict KeyWalk::take(KeyState& state, std::string_view bytes) const {
  for (const char byte : bytes) {
    if (!step(state, byte)) return KeyVerdict::kNo;
  }
  return state.is_in_key() ? may_go_on(state) : KeyVerdict::kYes;
}

// One known key that has not come yet is enough. If it is certain which object this is, its names decide; if every
// object that it may be accepts any key, there is always a new one.
KeyVerdict KeyWalk::may_go_on(const KeyState& state) const {
  const KeyFrame& frame = *state.top;
  const KeyDemand& demand = frame.demand;
  if (frame.num >= demand.most) return KeyVerdict::kNo;
  const bool is_full = frame.is_full();
  if (!is_full && demand.takes_any_unnamed) return KeyVerdict::kYes;
  if (!is_full && !frame.may_repeat(state.key)) return KeyVerdict::kYes;
  if (!demand.is_sure) return KeyVerdict::kPerhaps;
  const NameSet left = is_full ? demand.missing : demand.allowed.without(frame.seen);
  const auto [first, last] = frame.place->beginning_with(state.key);
  if (left.has_any(first, last)) return KeyVerdict::kYes;
  if (!is_full && demand.takes_unnamed) return KeyVerdict::kPerhaps;
  return KeyVerdict::kNo;
}

bool KeyWalk::step(KeyState& state, char byte) const {
  if (state.is_key && state.is_in_string()) state.key += byte;
  switch (state.mode) {
    case KeyMode::kOutside:
      step_outside(state, byte);
      return true;
    case KeyMode::kValue:
      if (state.top != nullptr || starts_->empty() || byte == '{' || byte == '[' || byte == '"') {
        return step_between(state, byte);
      }
      step_outside(state, byte);
      return true;
    case KeyMode::kEscape:
      state.mode = KeyMode::kString;
      return true;
    case KeyMode::kString:
      if (byte == '\\') state.mode = KeyMode::kEscape;
      if (byte != '"') return true;
      if (state.is_key) return end_key(state);
      end_value(state);
      return true;
    case KeyMode::kScalar:
      if (!ends_scalar(byte)) return true;
      end_value(state);
      return step_between(state, byte);
    default:
      return step_between(state, byte);
  }
}

// Takes a byte that is in no string and no scalar.
bool KeyWalk::step_between(KeyState& state, char byte) const {
  if (is_space(byte)) return true;
  switch (byte) {
    case '[':
    case '{':
      open(state, byte == '{');
      return true;
    case ']':
    case '}':
      return close(state);
    case ',':
      state.mode = state.top != nullptr && state.top->is_object ? KeyMode::kKey : KeyMode::kValue;
      state.key.clear();
      return true;
    case ':':
      state.mode = KeyMode::kValue;
      return true;
    case '"':
      return begin_string(state);
    default:
      state.mode = KeyMode::kScalar;
      return true;
  }
}

bool KeyWalk::begin_string(KeyState& state) const {
  state.is_key = state.is_before_key();
  state.mode = KeyMode::kString;
  if (!state.is_key) return true;
  state.key = "\"";
  return state.top->num < state.top->demand.most;
}

void KeyWalk::open(KeyState& state, bool is_object) const {
  const KeyFrame* outer = state.top.get();
  auto frame = std::make_shared<KeyFrame>();
  frame->parent = state.top;
  frame->is_object = is_object;
  frame->place = outer == nullptr     ? places_->at(state.search.place)
                 : outer->is_object ? outer->inner
                                    : places_->at(outer->place->item_place(outer->num));
  frame->object = is_object ? ++state.num_objects : outer == nullptr ? 0 : outer->object;
  if (is_object) {
    frame->seen = NameSet(frame->place->num_names());
    frame->options = frame->place->all_options();
    frame->demand = frame->place->demand(frame->options, frame->seen);
  }
  state.top = std::move(frame);
  state.mode = is_object ? KeyMode::kFirst : KeyMode::kValue;
}

bool KeyWalk::close(KeyState& state) const {
  if (state.top == nullptr) throw std::runtime_error("a text closes more than it opened");
  if (state.top->is_object && !state.top->may_close()) return false;
  state.top = state.top->parent;
  end_value(state);
  return true;
}

bool KeyWalk::end_key(KeyState& state) const {
  const KeyFrame& before = *state.top;
  if (before.has_come(state.key)) return false;
  const size_t number = before.place->number(state.key);
  const bool is_name = number < before.place->num_names();
  if (before.is_full() && !(is_name && before.demand.missing.has(number))) return false;
  auto frame = std::make_shared<KeyFrame>(before);
  if (is_name) {
    frame->seen.add(number);
  } else {
    frame->others = std::make_shared<SeenKey>();
    frame->others->before = before.others;
    frame->others->text = std::move(state.key);
  }
  frame->options = before.place->with_key(before.options, number);
  frame->demand = before.place->demand(frame->options, frame->seen);
  frame->inner = places_->at(before.place->value_place(number));
  ++frame->num;
  state.top = std::move(frame);
  state.key.clear();
  state.is_key = false;
  state.mode = KeyMode::kAfter;
  return true;
}

void KeyWalk::end_value(KeyState& state) const {
  state.mode = KeyMode::kAfter;
  if (state.top == nullptr) {
    if (starts_->empty()) return;
    state.search.node = 0;
    step_outside(state, KeyStarts::kJsonEnd);
    return;
  }
  if (state.top->is_object) return;
  auto frame = std::make_shared<KeyFrame>(*state.top);
  ++frame->num;
  state.top = std::move(frame);
}

}  // namespace specguide
