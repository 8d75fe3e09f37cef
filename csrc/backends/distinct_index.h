// Owns the items that an array whose items must differ holds, and the quick answer whether one is among them.
#pragma once

#include <bitset>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "chain.h"

namespace specguide {

// An item of an array whose items must differ, and those before it.
//
// text:               as it was written, but for whitespace between values
// raw_start, raw_end: where it stands in the text; the end of strings, arrays and objects is their last byte
// end:                where it ends, in the text without whitespace
// is_even:            whether those behind it are of its kind; else it was told by its place
// is_settled:         whether `dead` is known, or does not matter
// dead:               how an item must not begin any more, since each that begins so is there; as DistinctWalk::noted
//                     has beginnings. The last item that is told by its place has this of all that are told so.
struct DistinctItem {
  std::shared_ptr<DistinctItem> before;
  std::string text, canonical;
  size_t raw_start = 0, raw_end = 0, end = 0;
  bool is_even = true, is_settled = false;
  std::vector<std::string> dead;

  ~DistinctItem() { release_chain(before, &DistinctItem::before); }
};

// Knows the items up to one by their texts; each item behind that one is looked at. The last ones stay behind it, since
// drafts that are taken back end at one of them.
class DistinctIndex {
 public:
  // Puts in all up to `last`, which are settled, but for some of the last.
  void put(const std::shared_ptr<DistinctItem>& last);
  // Whether one of the items up to `last` is equal to one, by its canonical text.
  bool holds(const DistinctItem* last, const std::string& canonical) const;
  // Whether an item must not begin so.
  bool rules_out(const DistinctItem* last, std::string_view start) const;

  using Bytes = std::bitset<256>;
  // The bytes by which such a beginning goes on to be an item's canonical text.
  Bytes repeating(const DistinctItem* last, std::string_view start) const;
  // The bytes by which it goes on so as an item must not begin.
  Bytes going_wrong(const DistinctItem* last, std::string_view start) const;

 private:
  using Texts = std::set<std::string, std::less<>>;

  static void add_next(const Texts& texts, std::string_view start, Bytes& found);

  // What is known of the items of one array, as far as it went once.
  struct Known {
    std::shared_ptr<DistinctItem> last;
    Texts canonical, dead;
    std::set<size_t> dead_lengths;

    void add(const DistinctItem& item);
    bool rules_out(std::string_view start) const;
  };
  static constexpr size_t kMostArrays = 4, kFewestBehind = 16;

  const Known* find(const DistinctItem* last) const;

  std::vector<std::unique_ptr<Known>> known_;
  size_t next_ = 0;  // the next one to be given up for another array
};

}  // namespace specguide
