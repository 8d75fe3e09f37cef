// Owns brief spinning: a hand-over between running threads costs under a microsecond, waking a sleeping one costs tens.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace specguide {

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Cores that this process may keep busy: the machine's, or fewer if its container limits them.
inline std::atomic<int> num_cores{static_cast<int>(std::thread::hardware_concurrency())};

// With few cores, spinning takes time away from the thread that is waited for.
inline bool has_spare_cores() { return num_cores.load(std::memory_order_relaxed) > 4; }

// About the time between two callbacks of an iteration, if there are cores to spare.
inline std::chrono::nanoseconds spin_time() { return std::chrono::microseconds(has_spare_cores() ? 250 : 5); }

// Longer than most iterations, for a thread that must still be awake at the first callback of the next one.
inline std::chrono::nanoseconds long_spin_time() { return 80 * spin_time(); }

// Calls `done` until it is true or the time is up; returns its last result.
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

// A lock for critical sections of a few instructions. Waiters poll without writing, so that the cache line stays where
// it is, and yield to other threads if it takes longer.
class SpinLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (int looks = 0; taken_.load(std::memory_order_relaxed); ++looks) {
        if (looks < 64) {
          cpu_relax();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace specguide
