// Owns the executor's worker threads: lanes of operations, the dearest first, and workers that stand in for stuck ones.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "countdown.h"

namespace specguide {

// Runs operations of many lanes on a few threads. Operations of a lane run one at a time, in order. Which lane comes
// next is decided by what its last operations took: the dearest starts first, because it ends last; but lanes that
// nobody waits for start after all others. These are the lanes whose last operation has no countdown or one given up,
// and the lanes that take longer than `patience`. Lanes are spread over shards, and a worker looks at its own shard's
// first, so with several threads the order holds roughly.
class ThreadPool {
 public:
  struct Operation {
    std::function<void()> run;             // must not throw
    std::shared_ptr<Countdown> countdown;  // arrives when the operation is done or dropped; may be null
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

  // `max_threads` bounds the workers, those that stand in for stuck ones included. Where the system has no more threads
  // it goes on with fewer; throws EngineError where there is none.
  ThreadPool(int num_threads, int max_threads, Clock::duration patience);

  // Drops what is pending and waits some seconds for running operations; a thread that is stuck longer is left behind.
  ~ThreadPool();

  void push(std::vector<std::pair<LaneRef, Operation>> operations);

  // Puts ready lanes in order again, where countdowns were given up since operations were pushed.
  void rank_again();

  // Drops the lane's pending operations and all that are pushed later; calls `on_closed`, on this thread or on the
  // worker, as soon as none is running.
  void close(const LaneRef& lane, std::function<void()> on_closed);

  // Starts a worker for each one that has been in one operation for longer than `stuck_after`, if lanes are ready.
  // They retire when the stuck ones are back.
  void compensate(Clock::duration stuck_after);

  int num_workers() const;

 private:
  struct Worker;
  struct Shard;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace specguide
