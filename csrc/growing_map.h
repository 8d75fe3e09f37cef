// Owns a map that grows a little with each key (Litwin 1980, "Linear hashing"), so that no single insertion is slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace specguide {

// Keys are numbered from 0 in the order in which they are put in.
template <typename Value>
class GrowingMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The number of a key; kNone if it is missing.
  uint32_t find(uint64_t key) const {
    if (entries_.empty()) return kNone;
    uint32_t at = heads_[place(mix(key))];
    while (at != kNone && entries_[at].key != key) at = entries_[at].next;
    return at;
  }

  // The number of a key, which is put in if it is missing.
  uint32_t put(uint64_t key) {
    const uint32_t found = find(key);
    if (found != kNone) return found;
    grow();
    const auto number = static_cast<uint32_t>(entries_.size());
    uint32_t& head = heads_[place(mix(key))];
    entries_.push_back({key, {}, head});
    return head = number;
  }

  Value& operator[](uint32_t number) { return entries_[number].value; }
  const Value& operator[](uint32_t number) const { return entries_[number].value; }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t key;
    Value value;
    uint32_t next;  // next key in the same chain
  };

  static uint64_t mix(uint64_t key) {
    key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93ull;
    key = (key ^ (key >> 32)) * 0xd6e8feb86659fd93ull;
    return key ^ (key >> 32);
  }

  size_t place(uint64_t hash) const {
    const size_t place = hash & (2 * half_ - 1);
    return place < heads_.size() ? place : place - half_;
  }

  // Adds a chain, which takes its keys from the chain that had them so far.
  void grow() {
    heads_.push_back(kNone);
    const size_t added = heads_.size() - 1;
    if (added == 0) return;
    if (added == 2 * half_) half_ = added;
    uint32_t rest = heads_[added - half_];
    heads_[added - half_] = kNone;
    while (rest != kNone) {
      Entry& entry = entries_[rest];
      uint32_t& head = heads_[place(mix(entry.key))];
      const uint32_t next = entry.next;
      entry.next = head;
      head = rest;
      rest = next;
    }
  }

  std::deque<Entry> entries_;
  std::deque<uint32_t> heads_;
  size_t half_ = 1;  // the largest power of two below the number of chains, or 1
};

}  // namespace specguide
