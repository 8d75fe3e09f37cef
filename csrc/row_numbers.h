// Owns the numbers by which a device knows rows: rows that are known to be equal have one number, so that the device
// may have kept what the host fills again.
//
// A device keeps the last rows with numbers above 0, as many as there is room for. With room for R rows, number n is at
// place n modulo R.
// All numbers that it is told at once are among as many that follow one another, so that no two of them have one
// place: what is older than half of these gets a new number, and no more new numbers than the other half are given
// until the device has taken what it was told (the executor asks for room for that).
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "spin.h"

namespace specguide {

// Safe to call from several threads.
class RowNumbers {
 public:
  // num_kept: rows that the device has room for; 0: it keeps none
  explicit RowNumbers(int64_t num_kept) : contents_(static_cast<size_t>(num_kept)) {}

  // The number of a row with this content, see FilledRow. A number below 0 is the row's alone.
  int64_t of(int64_t content);
  // The number that the device is told for a row with this number.
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
