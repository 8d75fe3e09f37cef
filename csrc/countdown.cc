#include "countdown.h"

#include <algorithm>

#include "spin.h"

namespace specguide {

void Countdown::arrive() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::lock_guard lock(mutex_);
  done_.notify_all();
}

bool Countdown::wait_until(Clock::time_point time) {
  const auto is_done = [this] { return left_.load(std::memory_order_acquire) <= 0; };
  if (spin_until(is_done, std::min<std::chrono::nanoseconds>(spin_time(), time - Clock::now()))) return true;
  std::unique_lock lock(mutex_);
  return done_.wait_until(lock, time, is_done);
}

}  // namespace specguide
