// Owns the items of an array whose items must differ, and a quick answer to whether it holds a given one.
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
// text:               as written, without whitespace between values
// raw_start, raw_end: its place in the text; strings, arrays and objects end with their last byte
// end:                where it ends, in the text without whitespace
// is_even:            whether the items behind it are of the same kind; otherwise its place determines it
// is_settled:         whether `dead` is known, or does not matter
// dead:               beginnings that a further item must not have, because every item that begins so is already there;
//                     in the form of DistinctWalk::noted. The last item that is determined by its place has these for
//                     all such items.
struct DistinctItem {
  std::shared_ptr<DistinctItem> before;
  std::string text, canonical;
  size_t raw_start = 0, raw_end = 0, end = 0;
  bool is_even = true, is_settled = false;
  std::vector<std::string> dead;

  ~DistinctItem() { release_chain(before, &DistinctItem::before); }
};

// Indexes the items up to a certain one by their texts; items behind that one are compared one by one. The last few
// items are not indexed, because drafts that are rolled back end among them.
class DistinctIndex {
 public:
  // Indexes all items up to `last`, which are settled, except some of the last ones.
  void put(const std::shared_ptr<DistinctItem>& last);
  // Whether one of the items up to `last` equals an item, given by its canonical text.
  bool holds(const DistinctItem* last, const std::string& canonical) const;
  // Whether an item must not begin with `start`.
  bool rules_out(const DistinctItem* last, std::string_view start) const;

  using Bytes = std::bitset<256>;
  // The bytes that continue such a beginning towards an item's canonical text.
  Bytes repeating(const DistinctItem* last, std::string_view start) const;
  // The bytes that continue it to a beginning that an item must not have.
  Bytes going_wrong(const DistinctItem* last, std::string_view start) const;

 private:
  using Texts = std::set<std::string, std::less<>>;

  static void add_next(const Texts& texts, std::string_view start, Bytes& found);

  // The items of one array that are indexed.
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
  size_t next_ = 0;  // the one that is replaced next by another array
};

}  // namespace specguide
