// Owns the way through a JSON text that finds arrays whose items must differ, and items that are there already.
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

// What is known of the values at a place of a schema.
//
// is_distinct: an array's items must differ
// room:        how many values its items may have
// prefix, rest, properties, other: the places of an array's items and of an object's values, by number; -1: nothing
//              within must differ. Properties go by their names as canonical JSON.
// is_even:     whether the items behind the prefix are all of one kind; else what may follow depends on the items
//              before
struct DistinctPlace {
  // kFree: whatever was begun can be ended in endlessly many ways; kEndless: there are always more, but what was begun
  // may be one that is there already; kFew: they may be used up.
  enum class Room { kFree, kEndless, kFew };

  bool is_distinct = false;
  Room room = Room::kFew;
  std::vector<int> prefix;
  int rest = -1;
  std::unordered_map<std::string, int> properties;
  int other = -1;
  bool is_even = true;
};

// All places of a text's schemas, the first that of the whole text where it is JSON. Shared and immutable.
class DistinctPlaces {
 public:
  // Throws std::invalid_argument for numbers of places that do not exist. Names of properties are JSON strings.
  explicit DistinctPlaces(std::vector<DistinctPlace> places);

  // The place of this number; null for -1.
  const DistinctPlace* at(int place) const { return place < 0 ? nullptr : &places_[static_cast<size_t>(place)]; }
  const DistinctPlace* item(const DistinctPlace* array, size_t index) const;
  const DistinctPlace* property(const DistinctPlace* object, const std::string& canonical_name) const;

 private:
  std::vector<DistinctPlace> places_;
};

// A member of an object, or an item of an array, that has ended, as canonical JSON, and those before it.
struct DistinctPart {
  std::shared_ptr<DistinctPart> before;
  std::string canonical;

  DistinctPart(std::shared_ptr<DistinctPart> those_before, std::string text)
      : before(std::move(those_before)), canonical(std::move(text)) {}
  ~DistinctPart() { release_chain(before, &DistinctPart::before); }
};

// An array or object that is open.
//
// place:     what is known of it; null: nothing
// inner:     what is known of an object's value that follows
// start:     where the item that was begun last begins, in the text without whitespace
// is_within: whether it is part of an item of a tight array; only then are `parts` known, with keys in any order
// opened:    where it begins, in the text without whitespace
// parts:     what of it has ended
// behind:    where the last of `parts` ends, in that text
// is_tried:  whether its item is begun on trial; what comes behind that item does not matter then
// nested:    how deep it is within items of the outermost array whose items must differ; 0 where it is in none
// depth:     how many tight arrays it is within, from that on whose item is begun on trial; 0 where none is
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

  // Within an item on trial, items of deeper arrays are not settled: each depth takes as long as the item itself.
  static constexpr size_t kMostDepth = 2;

  bool is_distinct() const { return place != nullptr && !is_object && place->is_distinct; }
  // Whether there are such arrays: it, or some around it.
  bool is_guarded() const { return nested > 0 || is_distinct(); }
  // Whether the items from here on are all of one kind.
  bool is_even() const { return place->is_even && num_items >= place->prefix.size(); }
  // Whether items may be used up, or what was begun may be; then items are settled.
  bool is_tight() const { return is_distinct() && place->room != DistinctPlace::Room::kFree; }
  bool is_to_settle() const { return is_tight() && !is_tried && depth <= kMostDepth; }
};

// The next of the frames in which arrays' items must differ; null where there is no more of them.
inline const DistinctFrame* guarded(const std::shared_ptr<const DistinctFrame>& frame) {
  return frame != nullptr && frame->is_guarded() ? frame.get() : nullptr;
}

// Where a text has come to. size, raw_size: of the JSON in it without whitespace between values, and of the whole text
// start: where the string or scalar begins that is open
// kOutside: in no JSON, whose beginning is searched for
struct DistinctState {
  enum class Mode : unsigned char { kOutside, kValue, kKey, kAfter, kScalar, kString, kEscape };

  std::shared_ptr<const DistinctFrame> top;
  Mode mode = Mode::kValue;
  bool is_key = false;
  KeyStarts::Search search{};
  size_t size = 0, raw_size = 0, start = 0;

  bool is_in_string() const { return mode == Mode::kString || mode == Mode::kEscape; }
};

// Takes bytes of texts that a grammar with JSON in it allows, and refuses items that are there already.
class DistinctWalk {
 public:
  // starts:    the texts behind which JSON begins; none: the whole text is JSON
  // any_order: whether the grammar allows the members of objects in each order
  DistinctWalk(std::shared_ptr<const DistinctPlaces> places, std::shared_ptr<const KeyStarts> starts, bool any_order);

  DistinctState start() const;
  // Goes on from `state` by a token that is no text.
  void take_special(DistinctState& state, int32_t token) const;

  bool any_order() const { return any_order_; }

  // Goes on from `state` by `bytes`. False: an item would come twice, or begin as it must not; `state` is spoilt then.
  bool take(DistinctState& state, std::string_view bytes);

  // How the item of a frame begins, which is open in `state`.
  std::string_view begun(const DistinctState& state, const DistinctFrame& frame) const {
    return std::string_view(text_).substr(frame.start, state.size - frame.start);
  }
  // The same beginning, whatever the order in which the members of its objects came: those that have ended stand sorted
  // before the one that is open. Good until this or `noted` is asked for again.
  std::string_view beginning(const DistinctState& state, const DistinctFrame& frame);
  // The same beginning, in which a number that has ended is told from one that may go on: the form of
  // `DistinctItem::dead`.
  std::string_view noted(const DistinctState& state, const DistinctFrame& frame);

  // Whether an item that is open has an exponent.
  bool has_exponent(const DistinctState& state) const;
  // Whether it also is a number that is there, so far, or none yet.
  bool may_be_spent(const DistinctState& state) const;

  // An item that a scalar may end as, settled.
  void expect(std::shared_ptr<DistinctItem> item) { expected_ = std::move(item); }
  size_t expected_end() const { return expected_ == nullptr ? 0 : expected_->raw_end; }
  // The items of open arrays; they are settled.
  DistinctIndex& index() { return index_; }
  // Whether an array may go on behind an item of which nothing is known yet, also where few may be left.
  void go_on_unsettled(bool may) { may_go_on_unsettled_ = may; }
  // A part of the text without whitespace.
  std::string text_between(size_t start, size_t end) const { return text_.substr(start, end - start); }
  // The text behind a state, over which `take` writes, to be put back: states behind that one are of use again then.
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
  // The item that ends in `state`, as it would be put behind those before it.
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
  std::string text_;  // of the state that took a byte last, without whitespace between values
  std::string beginning_;  // asked for last
  std::shared_ptr<DistinctItem> expected_;
  bool may_go_on_unsettled_ = false;
  DistinctIndex index_;
  // The item that the bytes taken ended, before it was settled.
  const DistinctItem* unsettled_ = nullptr;
};

}  // namespace specguide
