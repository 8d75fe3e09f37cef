// Owns the pool itself: how workers find operations, sleep, are replaced when they are stuck, and retire.
#include "thread_pool.h"

#include <algorithm>
#include <list>
#include <system_error>
#include <thread>

#include "errors.h"
#include "spin.h"
#include "thread_pool_parts.h"

namespace specguide {

// Lanes are spread over shards, so that workers rarely contend for a lock; a worker whose own shard is empty looks at
// the others. The list of workers has one lock, which is never taken between two operations. Threads share ownership of
// the state.
struct ThreadPool::State {
  using Lock = std::unique_lock<SpinLock>;
  static constexpr int kMostShards = 8;

  const int num_threads;
  const int max_threads;
  const Clock::duration patience;
  std::vector<Shard> shards;
  std::atomic<bool> stopping{false};
  std::atomic<int> num_spinning{0};
  std::atomic<bool> has_lookout{false};  // one worker spins for as long as an iteration takes, so that one is awake
  SpinLock spin_lock;  // guards what follows
  std::list<Worker> workers;
  std::list<Worker> retired;  // threads to join
  int num_started = 0;
  int num_running = 0;  // workers that have not retired
  int num_stuck = 0;
  std::vector<std::shared_ptr<Bed>> asleep;  // the last to fall asleep is woken first: its core is the warmest

  State(int threads, int max, Clock::duration longest)
      : num_threads(threads), max_threads(max), patience(longest), shards(std::min(threads, kMostShards)) {}

  Shard& shard_of(const Lane& lane) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // spreads addresses, whose low bits are alike
    return shards[(reinterpret_cast<uintptr_t>(&lane) * kOdd >> 32) % shards.size()];
  }

  int num_ready() const {
    int num = 0;
    for (const Shard& shard : shards) num += shard.num_ready.load(std::memory_order_relaxed);
    return num;
  }

  // Waking a sleeper takes tens of microseconds, so each one that wakes helps to wake others. Call it under the lock.
  WakeList sleepers_to_wake() {
    constexpr int kMostAtOnce = 4;
    WakeList beds;
    int num_wanted = std::min(kMostAtOnce, num_ready() - num_spinning.load(std::memory_order_relaxed));
    for (; num_wanted > 0 && !asleep.empty(); --num_wanted) {
      beds.push_back(std::move(asleep.back()));
      asleep.pop_back();
    }
    return beds;
  }

  void wake_some() {
    Lock lock(spin_lock);
    const WakeList beds = sleepers_to_wake();
    lock.unlock();
    wake_all(beds);
  }

  bool has_surplus() const { return num_running - num_stuck > num_threads; }

  // False if the system cannot start another thread.
  bool start_worker(const std::shared_ptr<State>& self) {
    workers.emplace_back();
    const auto worker = std::prev(workers.end());
    worker->home = static_cast<size_t>(num_started) % shards.size();
    try {
      worker->thread = std::thread([self, worker] { self->work_loop(worker); });
    } catch (const std::system_error&) {
      workers.erase(worker);
      return false;
    }
    ++num_started;
    ++num_running;
    return true;
  }

  void work_loop(std::list<Worker>::iterator worker) {
    while (!stopping.load(std::memory_order_relaxed)) {
      if (worker->stuck.load(std::memory_order_relaxed) && retires(worker)) return;
      if (!run_any(*worker)) wait_for_work(*worker);
    }
    worker->last_lane = nullptr;
    const Lock lock(spin_lock);
    --num_running;
  }

  // Whether a worker that another one replaced while it was stuck is now superfluous. If so, it is retired.
  bool retires(std::list<Worker>::iterator worker) {
    worker->last_lane = nullptr;
    Lock lock(spin_lock);
    worker->stuck.store(false, std::memory_order_relaxed);
    --num_stuck;
    if (stopping || !has_surplus()) return false;
    retired.splice(retired.end(), workers, worker);
    const WakeList beds = sleepers_to_wake();  // another worker gets what this one was woken for
    --num_running;
    lock.unlock();
    wake_all(beds);
    return true;
  }

  // Runs the most urgent operation; false if there is none.
  bool run_any(Worker& worker) {
    for (const auto least : {Shard::kWanted, Shard::kUnwanted}) {
      for (size_t i = 0; i < shards.size(); ++i) {
        Shard& shard = shards[(worker.home + i) % shards.size()];
        if (shard.urgency.load(std::memory_order_relaxed) >= least && run_one(shard, worker)) return true;
      }
    }
    return false;
  }

  void wait_for_work(Worker& worker) {
    worker.last_lane = nullptr;
    const auto is_over = [this] { return num_ready() > 0 || stopping.load(std::memory_order_relaxed); };
    num_spinning.fetch_add(1, std::memory_order_relaxed);
    const bool is_lookout = has_spare_cores() && !has_lookout.exchange(true, std::memory_order_relaxed);
    const bool has_come = spin_until(is_over, is_lookout ? long_spin_time() : spin_time());
    if (is_lookout) has_lookout.store(false, std::memory_order_relaxed);
    if (has_come) {
      num_spinning.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    {
      const Lock lock(spin_lock);  // pushers look for sleepers under it, after they have pushed
      num_spinning.fetch_sub(1, std::memory_order_relaxed);
      if (is_over() || worker.stuck.load(std::memory_order_relaxed)) return;
      asleep.push_back(worker.bed);
    }
    worker.bed->sleep();
    wake_some();
  }

  bool run_one(Shard& shard, Worker& worker) {
    Shard::Lock lock(shard.spin_lock);
    if (shard.ready.empty()) return false;
    LaneRef lane = shard.take();
    if (lane->pending.empty()) {  // the lane was closed meanwhile
      lane->scheduled = false;
      lock.unlock();
      return true;
    }
    Operation operation = std::move(lane->pending.front());
    lane->pending.pop_front();
    lane->running = true;
    lock.unlock();
    worker.last_lane = nullptr;
    const auto start = Clock::now();
    worker.busy_since.store(start.time_since_epoch().count(), std::memory_order_relaxed);
    operation.run();
    operation.run = nullptr;
    const auto took = Clock::now() - start;
    worker.busy_since.store(0, std::memory_order_relaxed);
    lock.lock();
    lane->running = false;  // before the countdown: a waiter may close the lane immediately
    lane->cost = (lane->cost + took) / 2;
    if (lane->pending.empty()) {
      lane->scheduled = false;
    } else {
      shard.schedule(lane, patience);
    }
    const auto on_closed = std::exchange(lane->on_closed, nullptr);
    lock.unlock();
    if (operation.countdown) operation.countdown->arrive();
    if (on_closed) on_closed();
    worker.last_lane = std::move(lane);
    return true;
  }
};

ThreadPool::ThreadPool(int num_threads, int max_threads, Clock::duration patience)
    : state_(std::make_shared<State>(num_threads, std::max(num_threads, max_threads), patience)) {
  const State::Lock lock(state_->spin_lock);
  while (state_->num_running < num_threads && state_->start_worker(state_)) {
  }
  if (state_->num_running == 0) {
    throw EngineError("no thread for grammars could be started: raise the limit of threads or processes");
  }
}

ThreadPool::~ThreadPool() {
  constexpr std::chrono::seconds limit{5};
  State::Lock lock(state_->spin_lock);
  state_->stopping = true;
  const WakeList beds = std::exchange(state_->asleep, {});
  lock.unlock();
  wake_all(beds);
  const auto end = Clock::now() + limit;
  while (num_workers() > 0 && Clock::now() < end) std::this_thread::sleep_for(std::chrono::microseconds(200));
  const bool all_gone = num_workers() == 0;
  for (auto* threads : {&state_->workers, &state_->retired}) {  // while it stops, no worker changes lists any more
    for (Worker& worker : *threads) {
      if (all_gone) {
        worker.thread.join();
      } else {
        worker.thread.detach();
      }
    }
  }
}

void ThreadPool::push(std::vector<std::pair<LaneRef, Operation>> operations) {
  std::vector<Operation> dropped;
  for (auto& [lane, operation] : operations) {
    Shard& shard = state_->shard_of(*lane);
    const Shard::Lock lock(shard.spin_lock);
    if (lane->closed) {
      dropped.push_back(std::move(operation));
      continue;
    }
    lane->pending.push_back(std::move(operation));
    if (!lane->scheduled) {
      shard.schedule(lane, state_->patience);
    } else if (!lane->running) {
      shard.rank_again(state_->patience);
    }
  }
  state_->wake_some();
  for (Operation& operation : dropped) {
    if (operation.countdown) operation.countdown->arrive();
  }
}

void ThreadPool::rank_again() {
  for (Shard& shard : state_->shards) {
    if (shard.num_ready.load(std::memory_order_relaxed) == 0) continue;
    const Shard::Lock lock(shard.spin_lock);
    shard.rank_again(state_->patience);
  }
}

void ThreadPool::close(const LaneRef& lane, std::function<void()> on_closed) {
  std::deque<Operation> dropped;
  {
    const Shard::Lock lock(state_->shard_of(*lane).spin_lock);
    lane->closed = true;
    dropped.swap(lane->pending);
    if (lane->running) {
      lane->on_closed = std::move(on_closed);
      on_closed = nullptr;
    }
  }
  for (Operation& operation : dropped) {
    if (operation.countdown) operation.countdown->arrive();
  }
  if (on_closed) on_closed();
}

void ThreadPool::compensate(Clock::duration stuck_after) {
  std::list<Worker> retired;
  {
    const State::Lock lock(state_->spin_lock);
    const auto now = Clock::now().time_since_epoch();
    for (Worker& worker : state_->workers) {
      const Clock::duration since(worker.busy_since.load(std::memory_order_relaxed));
      const bool is_busy = since != Clock::duration::zero();
      if (worker.stuck.load(std::memory_order_relaxed) || !is_busy || now - since < stuck_after) continue;
      worker.stuck.store(true, std::memory_order_relaxed);
      ++state_->num_stuck;
    }
    const auto is_short = [this] { return state_->num_running - state_->num_stuck < state_->num_threads; };
    while (is_short() && state_->num_running < state_->max_threads && state_->num_ready() > 0) {
      if (!state_->start_worker(state_)) break;
    }
    retired.swap(state_->retired);
  }
  for (Worker& worker : retired) worker.thread.join();
}

int ThreadPool::num_workers() const {
  const State::Lock lock(state_->spin_lock);
  return state_->num_running;
}

}  // namespace specguide
