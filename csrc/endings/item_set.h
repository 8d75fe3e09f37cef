// Owns the set of places that a step of an automaton visits: it is filled and discarded a thousand times a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace specguide {

// A set by open addressing, with room for twice as many items as it has. An Item has a `node` >= 0, `hash()` and
// equality.
template <typename Item>
class ItemSet {
 public:
  // Adds an item; false if it is there already.
  bool insert(const Item& item) {
    if (2 * items_.size() >= slots_.size()) grow();
    int32_t& slot = slot_of(item);
    if (slot >= 0) return false;
    slot = static_cast<int32_t>(items_.size());
    items_.push_back(item);
    return true;
  }

  // The items in the order in which they were added.
  const std::vector<Item>& items() const { return items_; }
  size_t size() const { return items_.size(); }

 private:
  // The slot where the item is, or would be.
  int32_t& slot_of(const Item& item) {
    size_t at = item.hash();
    for (;; ++at) {
      int32_t& slot = slots_[at & (slots_.size() - 1)];
      if (slot < 0 || items_[static_cast<size_t>(slot)] == item) return slot;
    }
  }

  void grow() {
    slots_.assign(slots_.size() * 4, -1);
    for (size_t i = 0; i < items_.size(); ++i) slot_of(items_[i]) = static_cast<int32_t>(i);
  }

  std::vector<Item> items_;
  std::vector<int32_t> slots_ = std::vector<int32_t>(64, -1);  // their number is a power of two
};

}  // namespace specguide
