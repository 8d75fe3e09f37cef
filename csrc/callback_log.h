// Owns the log of callback times for tracing: the last ones, in a ring that is allocated once.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "stream.h"

namespace specguide {

// The time in which callback `index` of an iteration (numbered from 1) ran, in nanoseconds of Clock. On Linux that is
// CLOCK_MONOTONIC, like Python's time.perf_counter_ns.
struct CallbackSpan {
  int64_t iteration;
  int index;
  int64_t begin_ns, end_ns;
};

// The log is off until `start`. The callback thread adds spans; any thread may take them.
class CallbackLog {
 public:
  // Keeps the last `capacity` spans from now on. Throws std::invalid_argument for 0.
  void start(size_t capacity);

  void add(int64_t iteration, int index, Clock::time_point begin, Clock::time_point end) {
    if (is_on_.load(std::memory_order_acquire)) push({iteration, index, nanoseconds(begin), nanoseconds(end)});
  }

  // The spans kept since the last call, oldest first.
  std::vector<CallbackSpan> take();

 private:
  static int64_t nanoseconds(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  }
  void push(CallbackSpan span);

  std::atomic<bool> is_on_{false};
  std::mutex mutex_;
  std::vector<CallbackSpan> ring_;
  size_t num_added_ = 0;  // since the last `take`
};

}  // namespace specguide
