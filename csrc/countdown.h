// Owns the wait for the operations of a batch: until all are done, or until a deadline.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "stream.h"

namespace specguide {

// Counts the operations still running that someone waits for.
class Countdown {
 public:
  void expect() { left_.fetch_add(1, std::memory_order_relaxed); }  // before the operation is pushed
  void arrive();
  // False if the time is up first.
  bool wait_until(Clock::time_point time);
  // Also returns false if `stop` does. It is asked continuously for as long as a draft step takes, and then every kNap.
  bool wait_until(Clock::time_point time, const std::function<bool()>& stop);

  // Says that nobody waits any longer.
  void give_up() { waited_for_.store(false, std::memory_order_relaxed); }
  int num_left() const { return std::max(0, left_.load(std::memory_order_relaxed)); }
  bool is_waited_for() const { return waited_for_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::chrono::microseconds kNap{50};

  bool is_done() const { return left_.load(std::memory_order_acquire) <= 0; }

  std::atomic<int> left_{0};
  std::atomic<bool> waited_for_{true};
  std::mutex mutex_;
  std::condition_variable done_;
};

}  // namespace specguide
