// Owns the executor's worker threads: lanes of operations, the most expensive first, and workers that replace stuck
// ones.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "countdown.h"

namespace specguide {

// Runs the operations of many lanes on a few threads. Operations of a lane run one at a time, in order. The next lane
// is chosen by how long its last operations took: the most expensive one starts first, because it ends last. Lanes that
// nobody waits for start after all others: these are lanes whose last operation has no countdown or one that was given
// up, and lanes that take longer than `patience`. Lanes are spread over shards, and a worker looks at its own shard
// first, so with several threads this order holds only roughly.
class ThreadPool {
 public:
  struct Operation {
    std::function<void()> run;             // must not throw
    std::shared_ptr<Countdown> countdown;  // notified when the operation is done or dropped; may be null
  };

  class Lane {
   private:
    friend class ThreadPool;
    std::deque<Operation> pending;
    bool scheduled = false;  // in the ready heap, or running
    bool running = false;
    std::function<void()> on_closed;
    bool closed = false;
    Clock::duration cost{0};
  };
  using LaneRef = std::shared_ptr<Lane>;

  // `max_threads` bounds the number of workers, including those that replace stuck ones. If the system has no more
  // threads, it continues with fewer; throws EngineError if there is none.
  ThreadPool(int num_threads, int max_threads, Clock::duration patience);

  // Drops pending operations and waits some seconds for running ones; a thread that is stuck longer is left running.
  ~ThreadPool();

  void push(std::vector<std::pair<LaneRef, Operation>> operations);

  // Sorts the ready lanes again, in case countdowns were given up since operations were pushed.
  void rank_again();

  // Drops the lane's pending operations and everything pushed later; calls `on_closed`, on this thread or on the
  // worker, as soon as no operation of it is running.
  void close(const LaneRef& lane, std::function<void()> on_closed);

  // Starts a worker for each one that has been in a single operation for longer than `stuck_after`, if lanes are ready.
  // These retire when the stuck ones return.
  void compensate(Clock::duration stuck_after);

  int num_workers() const;

 private:
  struct Worker;
  struct Shard;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace specguide
