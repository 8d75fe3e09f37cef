// Owns waiting for the operations of a batch: as soon as all are done, or until a deadline.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "stream.h"

namespace specguide {

// How many of the operations that someone waits for are still under way.
class Countdown {
 public:
  void expect() { left_.fetch_add(1, std::memory_order_relaxed); }  // before the operation is pushed
  void arrive();
  // False when the time is up first.
  bool wait_until(Clock::time_point time);

 private:
  std::atomic<int> left_{0};
  std::mutex mutex_;
  std::condition_variable done_;
};

}  // namespace specguide
