// Owns the parts of the thread pool: beds in which workers sleep, workers, and shards of its lanes.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "spin.h"
#include "thread_pool.h"

namespace specguide {

// Where one worker sleeps. It is shared, because a worker may be woken, retire and be destroyed before its waker is
// done.
class Bed {
 public:
  void sleep() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return woken_; });
    woken_ = false;
  }
  void wake() {
    std::lock_guard lock(mutex_);
    woken_ = true;
    wake_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
};

// The workers to wake after the lock has been released: waking one takes microseconds.
using WakeList = std::vector<std::shared_ptr<Bed>>;

inline void wake_all(const WakeList& beds) {
  for (const std::shared_ptr<Bed>& bed : beds) bed->wake();
}

struct ThreadPool::Worker {
  std::thread thread;
  std::shared_ptr<Bed> bed = std::make_shared<Bed>();
  size_t home = 0;                        // the shard where it looks first
  std::atomic<Clock::rep> busy_since{0};  // of Clock; 0: idle
  std::atomic<bool> stuck{false};         // and replaced by another
  LaneRef last_lane;                      // released without a lock: it may own a request's walk
};

// Some of the lanes, and which of them are ready, under a lock of its own that is only held for a few instructions at a
// time.
struct alignas(128) ThreadPool::Shard {
  using Lock = std::unique_lock<SpinLock>;
  using Ready = std::pair<Clock::duration, LaneRef>;

  // The most urgent kind of ready lane, for workers that look without the lock.
  enum Urgency { kNothing, kUnwanted, kWanted };

  std::atomic<Urgency> urgency{kNothing};
  std::atomic<int> num_ready{0};
  SpinLock spin_lock;
  std::vector<Ready> ready;  // a heap, the most expensive on top

  static bool is_cheaper(const Ready& a, const Ready& b) { return a.first < b.first; }

  // Lanes that nobody waits for come last: nobody waits for any of their operations, or nobody would wait that long.
  static Clock::duration rank_of(const Lane& lane, Clock::duration patience) {
    const Countdown* last = lane.pending.empty() ? nullptr : lane.pending.back().countdown.get();
    return last && last->is_waited_for() && lane.cost <= patience ? lane.cost : Clock::duration(-1);
  }

  // Which lanes are waited for changes with every push.
  void rank_again(Clock::duration patience) {
    for (auto& [rank, lane] : ready) rank = rank_of(*lane, patience);
    std::make_heap(ready.begin(), ready.end(), is_cheaper);
    tell();
  }

  void schedule(LaneRef lane, Clock::duration patience) {
    lane->scheduled = true;
    const Clock::duration rank = rank_of(*lane, patience);
    ready.emplace_back(rank, std::move(lane));
    std::push_heap(ready.begin(), ready.end(), is_cheaper);
    tell();
  }

  LaneRef take() {
    std::pop_heap(ready.begin(), ready.end(), is_cheaper);
    LaneRef lane = std::move(ready.back().second);
    ready.pop_back();
    tell();
    return lane;
  }

  void tell() {
    const bool is_wanted = !ready.empty() && ready.front().first >= Clock::duration::zero();
    num_ready.store(static_cast<int>(ready.size()), std::memory_order_relaxed);
    urgency.store(is_wanted ? kWanted : ready.empty() ? kNothing : kUnwanted, std::memory_order_relaxed);
  }
};

}  // namespace specguide
