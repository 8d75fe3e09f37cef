// Owns the walk through a JSON text; see distinct_walk.h.
#include "backends/distinct_walk.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "json_canonical.h"
#include "json_text.h"

namespace specguide {

using DistinctMode = DistinctState::Mode;
using Room = DistinctPlace::Room;

namespace {

bool is_opener(std::string_view text) { return text == "\"" || text == "[" || text == "{"; }

}  // namespace

DistinctPlaces::DistinctPlaces(std::vector<DistinctPlace> places) : places_(std::move(places)) {
  if (places_.empty()) throw std::invalid_argument("there must be a place of the whole text");
  const auto check = [&](int place) {
    const bool is_known = place < static_cast<int>(places_.size());
    if (!is_known) throw std::invalid_argument("there is no place " + std::to_string(place));
  };
  for (DistinctPlace& place : places_) {
    std::unordered_map<std::string, int> properties;
    for (const auto& [name, inner] : place.properties) {
      check(inner);
      properties[canonical_json(name)] = inner;
    }
    place.properties = std::move(properties);
    for (const int inner : place.prefix) check(inner);
    check(place.rest);
    check(place.other);
  }
}

const DistinctPlace* DistinctPlaces::item(const DistinctPlace* array, size_t index) const {
  if (array == nullptr) return nullptr;
  return at(index < array->prefix.size() ? array->prefix[index] : array->rest);
}

const DistinctPlace* DistinctPlaces::property(const DistinctPlace* object, const std::string& canonical_name) const {
  if (object == nullptr) return nullptr;
  const auto found = object->properties.find(canonical_name);
  return at(found == object->properties.end() ? object->other : found->second);
}

DistinctWalk::DistinctWalk(std::shared_ptr<const DistinctPlaces> places, std::shared_ptr<const KeyStarts> starts,
                           bool any_order)
    : places_(std::move(places)), starts_(std::move(starts)), any_order_(any_order) {
  if (!places_ || !starts_) throw std::invalid_argument("distinct items need places, and starts");
}

DistinctState DistinctWalk::start() const {
  DistinctState state;
  if (!starts_->empty()) step_outside(state, KeyStarts::kTextStart);
  return state;
}

void DistinctWalk::take_special(DistinctState& state, int32_t token) const {
  if (starts_->empty() || state.top != nullptr || state.is_in_string()) return;
  for (const char byte : KeyStarts::of_special(token)) step_outside(state, byte);
}

// Takes a byte behind which JSON may begin.
void DistinctWalk::step_outside(DistinctState& state, char byte) const {
  const bool is_value = starts_->step(state.search, state.mode == DistinctMode::kValue, byte);
  state.mode = is_value ? DistinctMode::kValue : DistinctMode::kOutside;
}

bool DistinctWalk::take(DistinctState& state, std::string_view bytes) {
  unsettled_ = nullptr;
  for (const char byte : bytes) {
    if (!step(state, byte)) return false;
    ++state.raw_size;
  }
  return !is_dead(state);
}

bool DistinctWalk::step(DistinctState& state, char byte) {
  switch (state.mode) {
    case DistinctMode::kOutside:
      step_outside(state, byte);
      return true;
    case DistinctMode::kValue:
      if (state.top != nullptr || starts_->empty() || is_opener({&byte, 1})) return step_between(state, byte);
      step_outside(state, byte);
      return true;
    case DistinctMode::kEscape:
      append(state, byte);
      state.mode = DistinctMode::kString;
      return true;
    case DistinctMode::kString:
      append(state, byte);
      if (byte == '\\') state.mode = DistinctMode::kEscape;
      return byte != '"' || end_string(state);
    case DistinctMode::kScalar:
      if (!ends_scalar(byte)) {
        append(state, byte);
        return !is_power_of_zero(state);
      }
      return end_value(state) && step_between(state, byte);
    default:
      return step_between(state, byte);
  }
}

// Whether an item is a zero with an exponent: there are many spellings of it, and all are the same number.
bool DistinctWalk::is_power_of_zero(const DistinctState& state) const {
  if (state.top == nullptr || !state.top->is_distinct() || (text_.back() != 'e' && text_.back() != 'E')) return false;
  return std::string_view(text_).substr(state.start).find_first_not_of("-0.eE") == std::string_view::npos;
}

bool DistinctWalk::has_exponent(const DistinctState& state) const {
  if (state.mode != DistinctMode::kScalar || state.top == nullptr || !state.top->is_distinct()) return false;
  const std::string_view number = begun(state, *state.top);
  return (number[0] == '-' || is_digit(number[0])) && number.find_first_of("eE") != std::string_view::npos;
}

bool DistinctWalk::may_be_spent(const DistinctState& state) const {
  if (!has_exponent(state)) return false;
  const std::string_view number = begun(state, *state.top);
  return !is_digit(number.back()) || index_.holds(state.top->items.get(), canonical_json(number));
}

// Takes a byte that is in no string and no scalar.
bool DistinctWalk::step_between(DistinctState& state, char byte) {
  if (is_space(byte)) return true;
  const bool ends = byte == ']' || byte == '}';
  if (state.mode == DistinctMode::kValue && !ends) begin_value(state);
  if ((byte == '[' || byte == '{') && !open(state, byte == '{')) return false;
  append(state, byte);
  switch (byte) {
    case '[':
      state.mode = DistinctMode::kValue;
      return true;
    case '{':
      state.mode = DistinctMode::kKey;
      return true;
    case ']':
    case '}':
      if (state.top == nullptr) throw std::runtime_error("a text closes more than it opened");
      state.top = state.top->parent;
      return end_value(state);
    case ',':
      state.mode = state.top != nullptr && state.top->is_object ? DistinctMode::kKey : DistinctMode::kValue;
      return may_go_on(state);
    case ':':
      state.mode = DistinctMode::kValue;
      return true;
    default:
      state.is_key = state.mode == DistinctMode::kKey;
      state.start = state.size - 1;
      state.mode = byte == '"' ? DistinctMode::kString : DistinctMode::kScalar;
      return true;
  }
}

void DistinctWalk::begin_value(DistinctState& state) const {
  if (state.top == nullptr || !state.top->is_distinct()) return;
  auto frame = std::make_shared<DistinctFrame>(*state.top);
  frame->start = state.size;
  frame->raw_start = state.raw_size;
  state.top = std::move(frame);
}

// False if an item would be nested too deeply to be compared with others.
bool DistinctWalk::open(DistinctState& state, bool is_object) {
  const DistinctFrame* outer = state.top.get();
  const size_t nested = outer != nullptr && outer->is_guarded() ? outer->nested + 1 : 0;
  if (nested > kMostNestedValues) return false;
  const DistinctPlace* place = outer == nullptr    ? places_->at(state.search.place)
                               : outer->is_object ? outer->inner
                                                  : places_->item(outer->place, outer->num_items);
  auto frame = std::make_shared<DistinctFrame>();
  frame->parent = state.top;
  frame->is_object = is_object;
  frame->place = place;
  frame->is_within = outer != nullptr && (outer->is_within || outer->is_tight());
  if (outer != nullptr) {
    const bool is_on_trial = outer->is_tried || outer->depth > 0;
    frame->depth = outer->depth + (is_on_trial && outer->is_tight() ? 1 : 0);
  }
  frame->nested = nested;
  frame->opened = state.size;
  frame->behind = state.size + 1;
  state.top = std::move(frame);
  return true;
}

bool DistinctWalk::end_string(DistinctState& state) {
  if (!state.is_key) return end_value(state);
  state.mode = DistinctMode::kAfter;
  state.is_key = false;
  if (state.top->place == nullptr) return true;
  auto frame = std::make_shared<DistinctFrame>(*state.top);
  const auto name = std::string_view(text_).substr(state.start, state.size - state.start);
  frame->inner = places_->property(frame->place, canonical_json(name));
  state.top = std::move(frame);
  return true;
}

bool DistinctWalk::end_value(DistinctState& state) {
  state.mode = DistinctMode::kAfter;
  if (state.top == nullptr) {
    if (starts_->empty()) return true;
    state.search.node = 0;
    step_outside(state, KeyStarts::kJsonEnd);
    return true;
  }
  const bool counts = !state.top->is_object && state.top->place != nullptr;
  const bool has_parts = any_order_ && state.top->is_within;
  if (!counts && !has_parts) return true;
  auto frame = std::make_shared<DistinctFrame>(*state.top);
  if (frame->is_distinct()) {
    std::shared_ptr<DistinctItem> item = ended(state);
    if (index_.holds(frame->items.get(), item->canonical)) return false;
    frame->items = is_expected(*item) ? expected_ : std::move(item);
    unsettled_ = frame->items->is_settled ? nullptr : frame->items.get();
  }
  if (counts) ++frame->num_items;
  if (has_parts) end_part(state, *frame);
  state.top = std::move(frame);
  return true;
}

void DistinctWalk::end_part(const DistinctState& state, DistinctFrame& frame) const {
  std::string part = text_.substr(frame.behind, state.size - frame.behind);
  if (part[0] == ',') part.erase(0, 1);
  part = canonical_json(frame.is_object ? "{" + part + "}" : part);
  if (frame.is_object) part = part.substr(1, part.size() - 2);
  frame.parts = std::make_shared<DistinctPart>(frame.parts, std::move(part));
  frame.behind = state.size;
}

std::shared_ptr<DistinctItem> DistinctWalk::ended(const DistinctState& state) const {
  auto item = std::make_shared<DistinctItem>();
  item->before = state.top->items;
  item->text = begun(state, *state.top);
  item->canonical = canonical_json(item->text);
  item->raw_start = state.top->raw_start;
  item->raw_end = state.raw_size;
  item->end = state.size;
  item->is_even = state.top->is_even();
  item->is_settled = !state.top->is_tight() || state.top->num_items + 1 < state.top->place->prefix.size();
  return item;
}

bool DistinctWalk::is_expected(const DistinctItem& item) const {
  return expected_ != nullptr && expected_->before == item.before && expected_->raw_end == item.raw_end &&
         expected_->canonical == item.canonical;
}

// Whether another item may follow behind a comma.
bool DistinctWalk::may_go_on(const DistinctState& state) const {
  const DistinctFrame* frame = state.top.get();
  if (frame == nullptr || !frame->is_to_settle()) return true;
  const bool is_unsettled = unsettled_ != nullptr && unsettled_ == frame->items.get();
  if (is_unsettled && !may_go_on_unsettled_ && frame->place->room == Room::kFew) return false;
  return !index_.rules_out(frame->items.get(), "");
}

// Whether an open item has a beginning that it must not have.
bool DistinctWalk::is_dead(const DistinctState& state) {
  const bool is_open = state.mode == DistinctMode::kScalar || state.is_in_string();
  for (const DistinctFrame* frame = guarded(state.top); frame != nullptr; frame = guarded(frame->parent)) {
    if (!frame->is_tight() || frame->items == nullptr || (frame == state.top.get() && !is_open)) continue;
    if (index_.rules_out(frame->items.get(), noted(state, *frame))) return true;
    if (goes_on_unsettled(state, *frame)) return true;
  }
  return false;
}

// Whether the taken bytes ended an item of a frame and began another one that may repeat it.
bool DistinctWalk::goes_on_unsettled(const DistinctState& state, const DistinctFrame& frame) const {
  if (unsettled_ == nullptr || frame.items.get() != unsettled_) return false;
  std::string_view start = begun(state, frame);
  if (frame.place->has_endless(start)) return false;
  const size_t object = start.find('{');
  if (any_order_ && object != std::string_view::npos) start = start.substr(0, object + 1);
  return begins_with(unsettled_->text, start);
}

std::string_view DistinctWalk::beginning(const DistinctState& state, const DistinctFrame& frame) {
  if (!any_order_ || state.top.get() == &frame) return begun(state, frame);
  std::vector<const DistinctFrame*> open;
  for (const DistinctFrame* one = state.top.get(); one != &frame; one = one->parent.get()) open.push_back(one);
  beginning_.clear();
  std::vector<std::string_view> parts;
  for (size_t i = open.size(); i > 0; --i) {
    const DistinctFrame& one = *open[i - 1];
    parts.clear();
    for (const DistinctPart* part = one.parts.get(); part != nullptr; part = part->before.get()) {
      parts.push_back(part->canonical);
    }
    one.is_object ? std::sort(parts.begin(), parts.end()) : std::reverse(parts.begin(), parts.end());
    beginning_ += one.is_object ? '{' : '[';
    for (const std::string_view part : parts) (beginning_ += part) += '\0';
    const size_t end = i == 1 ? state.size : open[i - 2]->opened;
    beginning_.append(text_, one.behind, end - one.behind);
  }
  return beginning_;
}

std::string_view DistinctWalk::noted(const DistinctState& state, const DistinctFrame& frame) {
  const std::string_view found = beginning(state, frame);
  const bool ends_number = state.mode == DistinctMode::kAfter && is_digit(text_[state.size - 1]);
  if (any_order_ || !ends_number) return found;
  beginning_ = found;
  return beginning_ += ' ';
}

void DistinctWalk::append(DistinctState& state, char byte) {
  text_.resize(state.size);
  text_ += byte;
  ++state.size;
}

}  // namespace specguide
