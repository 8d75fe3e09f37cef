// Owns brief spinning: a hand-over between running threads costs under a microsecond, a wake-up from sleep tens.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

namespace specguide {

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// About the time between two callbacks of an iteration, where there are cores enough. With few that other work shares,
// spinning takes the time of the thread waited for.
inline std::chrono::nanoseconds spin_time() {
  static const std::chrono::microseconds time{std::thread::hardware_concurrency() > 4 ? 250 : 5};
  return time;
}

// Calls `done` until it is true or the time is up; returns what it said last.
template <typename Predicate>
bool spin_until(Predicate done, std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      cpu_relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// For critical sections of a few instructions: tries for a while before it sleeps.
inline std::unique_lock<std::mutex> lock_briefly(std::mutex& mutex) {
  for (int i = 0; i < 128; ++i) {
    std::unique_lock lock(mutex, std::try_to_lock);
    if (lock) return lock;
    cpu_relax();
  }
  return std::unique_lock(mutex);
}

}  // namespace specguide
