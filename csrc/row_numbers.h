// Owns the numbers by which a device knows rows. Rows that are known to be equal have the same number, so the device
// can reuse a row that it has kept when the host fills an equal one.
//
// A device keeps the last rows with positive numbers. With room for R rows, number n is at place n modulo R.
// All numbers that it is given at once must lie within R consecutive numbers, so that no two of them share a place. So
// a number that is older than R / 2 is replaced by a new one, and at most R / 2 new numbers are given out until the
// device has taken the rows (the executor requests enough room for that).
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "spin.h"

namespace specguide {

// Thread-safe.
class RowNumbers {
 public:
  // num_kept: rows that the device has room for; 0: it keeps none
  explicit RowNumbers(int64_t num_kept) : contents_(static_cast<size_t>(num_kept)) {}

  // The number of a row with this content, see FilledRow. A negative number belongs to this row only.
  int64_t of(int64_t content);
  // The number that the device is given for a row with this number.
  int64_t told(int64_t number) { return number > 0 && !is_recent(number) ? own() : number; }

 private:
  int64_t num_kept() const { return static_cast<int64_t>(contents_.size()); }
  bool is_recent(int64_t number) const { return number > last_.load(std::memory_order_relaxed) - num_kept() / 2; }
  int64_t own() { return last_own_.fetch_sub(1, std::memory_order_relaxed) - 1; }

  std::atomic<int64_t> last_{0}, last_own_{0};
  SpinLock lock_;  // guards what follows
  std::unordered_map<int64_t, int64_t> numbers_;  // by content
  std::vector<int64_t> contents_;                 // by place
};

}  // namespace specguide
