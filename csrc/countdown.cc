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
  const auto done = [this] { return is_done(); };
  if (spin_until(done, std::min<std::chrono::nanoseconds>(spin_time(), time - Clock::now()))) return true;
  std::unique_lock lock(mutex_);
  return done_.wait_until(lock, time, done);
}

bool Countdown::wait_until(Clock::time_point time, const std::function<bool()>& stop) {
  constexpr int kDraftStep = 4;  // times spin_time(): 1 ms if there are cores to spare
  const auto over = [&] { return is_done() || stop(); };
  if (!spin_until(over, std::min<std::chrono::nanoseconds>(kDraftStep * spin_time(), time - Clock::now()))) {
    std::unique_lock lock(mutex_);
    for (auto now = Clock::now(); now < time && !over(); now = Clock::now()) {
      done_.wait_until(lock, std::min(time, now + kNap), [this] { return is_done(); });
    }
  }
  return is_done();
}

}  // namespace specguide
