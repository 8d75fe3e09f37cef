// Owns the walk through a JSON text that finds arrays whose items must differ, and items that are already there.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/distinct_index.h"
#include "backends/key_walk.h"

namespace specguide {

// What is known about the values at a place of a schema.
//
// is_distinct: an array's items must differ
// room:        how many values its items may have
// prefix, rest, properties, other: numbers of the places of an array's items and of an object's values; -1: nothing
//                                  inside must differ. Properties are keyed by their names as canonical JSON.
// is_even:     whether the items behind the prefix are all of one kind; otherwise what may follow depends on the items
//              before
// endless:     the quotes and brackets that begin infinitely many of the items behind the prefix
struct DistinctPlace {
  // kFree: whatever was begun can be ended in infinitely many ways; kEndless: there are always more values, but one
  // that was begun may be there already; kFew: the values may be used up.
  enum class Room { kFree, kEndless, kFew };

  bool is_distinct = false;
  Room room = Room::kFew;
  std::vector<int> prefix;
  int rest = -1;
  std::unordered_map<std::string, int> properties;
  int other = -1;
  bool is_even = true;
  std::string endless;

  // Whether infinitely many items begin like this.
  bool has_endless(std::string_view start) const {
    return (start.size() == 1 || start == "{\"") && endless.find(start[0]) != std::string::npos;
  }
};

// All places of a text's schemas; the first one is the whole text's if that is JSON. Shared and immutable.
class DistinctPlaces {
 public:
  // Throws std::invalid_argument for numbers of places that do not exist. Names of properties are JSON strings.
  explicit DistinctPlaces(std::vector<DistinctPlace> places);

  // The place with this number; null for -1.
  const DistinctPlace* at(int place) const { return place < 0 ? nullptr : &places_[static_cast<size_t>(place)]; }
  const DistinctPlace* item(const DistinctPlace* array, size_t index) const;
  const DistinctPlace* property(const DistinctPlace* object, const std::string& canonical_name) const;

 private:
  std::vector<DistinctPlace> places_;
};

// A completed member of an object, or item of an array, as canonical JSON, and those before it.
struct DistinctPart {
  std::shared_ptr<DistinctPart> before;
  std::string canonical;

  DistinctPart(std::shared_ptr<DistinctPart> those_before, std::string text)
      : before(std::move(those_before)), canonical(std::move(text)) {}
  ~DistinctPart() { release_chain(before, &DistinctPart::before); }
};

// An open array or object.
//
// place:     what is known about it; null: nothing
// inner:     what is known about the next value of an object
// start:     where its last item begins, in the text without whitespace
// is_within: whether it is part of an item of a tight array; only then are `parts` recorded, if keys may come in any
//            order
// opened:    where it begins, in the text without whitespace
// parts:     its completed parts
// behind:    where the last of `parts` ends, in that text
// is_tried:  whether its item is begun on trial; what follows that item does not matter then
// nested:    its depth inside items of the outermost array whose items must differ; 0 if it is in none
// depth:     number of tight arrays around it, from the one whose item is begun on trial; 0 if none is
struct DistinctFrame {
  DistinctFrame() = default;
  DistinctFrame(const DistinctFrame&) = default;
  DistinctFrame& operator=(const DistinctFrame&) = delete;
  ~DistinctFrame() { release_chain(parent, &DistinctFrame::parent); }

  std::shared_ptr<const DistinctFrame> parent;
  bool is_object = false;
  const DistinctPlace* place = nullptr;
  const DistinctPlace* inner = nullptr;
  size_t num_items = 0, start = 0, raw_start = 0;
  std::shared_ptr<DistinctItem> items{};
  bool is_within = false;
  size_t opened = 0, behind = 0;
  std::shared_ptr<DistinctPart> parts{};
  bool is_tried = false;
  size_t nested = 0;
  size_t depth = 0;

  // In an item on trial, items of deeper arrays are not settled: each level would take as long as the item itself.
  static constexpr size_t kMostDepth = 2;

  bool is_distinct() const { return place != nullptr && !is_object && place->is_distinct; }
  // Whether its items, or those of an array around it, must differ.
  bool is_guarded() const { return nested > 0 || is_distinct(); }
  // Whether the items from here on are all of one kind.
  bool is_even() const { return place->is_even && num_items >= place->prefix.size(); }
  // Whether values may be used up, or what was begun may be one that is there; then items are settled.
  bool is_tight() const { return is_distinct() && place->room != DistinctPlace::Room::kFree; }
  bool is_to_settle() const { return is_tight() && !is_tried && depth <= kMostDepth; }
};

// The innermost frame in or around which an array's items must differ; null if there is none.
inline const DistinctFrame* guarded(const std::shared_ptr<const DistinctFrame>& frame) {
  return frame != nullptr && frame->is_guarded() ? frame.get() : nullptr;
}

// The position in a text. size, raw_size: of its JSON without whitespace between values, and of the whole text
// start: where the open string or scalar begins
// kOutside: outside JSON, whose beginning is searched for
struct DistinctState {
  enum class Mode : unsigned char { kOutside, kValue, kKey, kAfter, kScalar, kString, kEscape };

  std::shared_ptr<const DistinctFrame> top;
  Mode mode = Mode::kValue;
  bool is_key = false;
  KeyStarts::Search search{};
  size_t size = 0, raw_size = 0, start = 0;

  bool is_in_string() const { return mode == Mode::kString || mode == Mode::kEscape; }
};

// Takes bytes of texts that a grammar with JSON in it allows, and refuses items that are already there.
class DistinctWalk {
 public:
  // starts:    the texts behind which JSON begins; none: the whole text is JSON
  // any_order: whether the grammar allows the members of objects in any order
  DistinctWalk(std::shared_ptr<const DistinctPlaces> places, std::shared_ptr<const KeyStarts> starts, bool any_order);

  DistinctState start() const;
  // Advances `state` by a token that is not text.
  void take_special(DistinctState& state, int32_t token) const;

  bool any_order() const { return any_order_; }

  // Advances `state` by `bytes`. False: an item would be repeated, or have a forbidden beginning; `state` is invalid
  // then.
  bool take(DistinctState& state, std::string_view bytes);

  // The text of a frame's open item so far.
  std::string_view begun(const DistinctState& state, const DistinctFrame& frame) const {
    return std::string_view(text_).substr(frame.start, state.size - frame.start);
  }
  // The same beginning, independent of the order of its objects' members: completed members come sorted before the open
  // one. Valid until the next call of this or of `noted`.
  std::string_view beginning(const DistinctState& state, const DistinctFrame& frame);
  // The same beginning, in a form that distinguishes a completed number from one that may go on: the form of
  // `DistinctItem::dead`.
  std::string_view noted(const DistinctState& state, const DistinctFrame& frame);

  // Whether an open item has an exponent.
  bool has_exponent(const DistinctState& state) const;
  // Whether it is also, so far, a number that is already there, or not a number yet.
  bool may_be_spent(const DistinctState& state) const;

  // A settled item that may end behind a text of this size.
  void expect(std::shared_ptr<DistinctItem> item, size_t raw_size) {
    expected_ = std::move(item);
    expected_at_ = raw_size;
  }
  size_t expected_at() const { return expected_at_; }
  // The items of open arrays; they are settled.
  DistinctIndex& index() { return index_; }
  // Whether an array may go on behind an item that is not settled yet, even if few values may be left.
  void go_on_unsettled(bool may) { may_go_on_unsettled_ = may; }
  // A part of the text without whitespace.
  std::string text_between(size_t start, size_t end) const { return text_.substr(start, end - start); }
  // The text behind a state. `take` overwrites it, and it can be put back; later states are then valid again.
  std::string text_behind(const DistinctState& state) const { return text_.substr(state.size); }
  void put_back(const DistinctState& state, const std::string& text) { text_.resize(state.size), text_ += text; }

 private:
  bool step(DistinctState& state, char byte);
  void step_outside(DistinctState& state, char byte) const;
  bool step_between(DistinctState& state, char byte);
  void begin_value(DistinctState& state) const;
  bool open(DistinctState& state, bool is_object);
  bool end_value(DistinctState& state);
  bool end_string(DistinctState& state);
  // The item that ends in `state`, linked to those before it.
  std::shared_ptr<DistinctItem> ended(const DistinctState& state) const;
  bool is_expected(const DistinctItem& item) const;
  void end_part(const DistinctState& state, DistinctFrame& frame) const;
  bool is_power_of_zero(const DistinctState& state) const;
  bool may_go_on(const DistinctState& state) const;
  bool is_dead(const DistinctState& state);
  bool goes_on_unsettled(const DistinctState& state, const DistinctFrame& frame) const;
  void append(DistinctState& state, char byte);

  const std::shared_ptr<const DistinctPlaces> places_;
  const std::shared_ptr<const KeyStarts> starts_;
  const bool any_order_;
  std::string text_;  // without whitespace between values, up to the state that last took a byte
  std::string beginning_;  // the last one asked for
  std::shared_ptr<DistinctItem> expected_;
  size_t expected_at_ = 0;
  bool may_go_on_unsettled_ = false;
  DistinctIndex index_;
  // The item that the taken bytes ended, before it was settled.
  const DistinctItem* unsettled_ = nullptr;
};

}  // namespace specguide
