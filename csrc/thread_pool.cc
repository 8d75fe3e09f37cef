#include "thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "spin.h"

namespace specguide {

namespace {

// Where one worker sleeps. Shared, because it may be woken, retire and be gone before its waker is through.
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

// The workers to wake once the lock is given up: waking one takes microseconds.
using WakeList = std::vector<std::shared_ptr<Bed>>;

void wake_all(const WakeList& beds) {
  for (const std::shared_ptr<Bed>& bed : beds) bed->wake();
}

}  // namespace

struct ThreadPool::Worker {
  std::thread thread;
  std::shared_ptr<Bed> bed = std::make_shared<Bed>();
  Clock::time_point busy_since{};  // the epoch: idle
  LaneRef last_lane;               // let go of without the lock: it may own a request's walk
  bool stuck = false;
};

// Everything under one lock, held for a few instructions at a time: one acquisition an operation. Threads share
// ownership of it.
struct ThreadPool::State {
  using Lock = std::unique_lock<SpinLock>;
  using Ready = std::pair<Clock::duration, LaneRef>;

  const int num_threads;
  const int max_threads;
  const Clock::duration patience;
  alignas(64) std::atomic<bool> has_ready{false};  // for spinning workers: written when it changes only
  alignas(64) SpinLock spin_lock;
  std::vector<Ready> ready;  // a heap, the dearest on top
  std::list<Worker> workers;
  std::list<Worker> retired;  // threads to join
  int num_running = 0;        // workers that have not retired
  int num_stuck = 0;
  int num_spinning = 0;
  std::vector<std::shared_ptr<Bed>> asleep;  // the last to fall asleep is woken first: its core is the warmest
  bool stopping = false;

  State(int threads, int max, Clock::duration longest) : num_threads(threads), max_threads(max), patience(longest) {}

  static bool is_cheaper(const Ready& a, const Ready& b) { return a.first < b.first; }

  // Last come lanes that nobody waits for: none of their operations, or none so long.
  Clock::duration rank_of(const Lane& lane) const {
    const Countdown* last = lane.pending.empty() ? nullptr : lane.pending.back().countdown.get();
    return last && last->is_waited_for() && lane.cost <= patience ? lane.cost : Clock::duration(-1);
  }

  // What is waited for changes with every push.
  void rank_again() {
    for (auto& [rank, lane] : ready) rank = rank_of(*lane);
    std::make_heap(ready.begin(), ready.end(), is_cheaper);
  }

  void schedule(LaneRef lane) {
    lane->scheduled = true;
    const Clock::duration rank = rank_of(*lane);
    ready.emplace_back(rank, std::move(lane));
    std::push_heap(ready.begin(), ready.end(), is_cheaper);
    if (ready.size() == 1) has_ready.store(true, std::memory_order_relaxed);
  }

  LaneRef take() {
    std::pop_heap(ready.begin(), ready.end(), is_cheaper);
    LaneRef lane = std::move(ready.back().second);
    ready.pop_back();
    if (ready.empty()) has_ready.store(false, std::memory_order_relaxed);
    return lane;
  }

  // A sleeper takes tens of microseconds to wake, so each one woken helps to wake the others.
  WakeList sleepers_to_wake() {
    constexpr int kMostAtOnce = 4;
    WakeList beds;
    int num_wanted = std::min(kMostAtOnce, static_cast<int>(ready.size()) - num_spinning);
    for (; num_wanted > 0 && !asleep.empty(); --num_wanted) {
      beds.push_back(std::move(asleep.back()));
      asleep.pop_back();
    }
    return beds;
  }

  bool has_surplus() const { return num_running - num_stuck > num_threads; }

  void start_worker(const std::shared_ptr<State>& self) {
    workers.emplace_back();
    const auto worker = std::prev(workers.end());
    ++num_running;
    worker->thread = std::thread([self, worker] { self->work_loop(worker); });
  }

  void work_loop(std::list<Worker>::iterator worker) {
    Lock lock(spin_lock);
    while (!stopping && !has_surplus()) {
      if (ready.empty()) {
        wait_for_work(lock, *worker);
      } else {
        run_one(lock, *worker);
      }
    }
    if (!stopping) retired.splice(retired.end(), workers, worker);
    const WakeList beds = sleepers_to_wake();  // what this one was woken for goes to another
    --num_running;
    lock.unlock();
    wake_all(beds);
  }

  void wait_for_work(Lock& lock, Worker& worker) {
    ++num_spinning;
    lock.unlock();
    worker.last_lane = nullptr;
    spin_until([this] { return has_ready.load(std::memory_order_relaxed); }, spin_time());
    lock.lock();
    --num_spinning;
    if (!ready.empty() || stopping) return;
    asleep.push_back(worker.bed);
    lock.unlock();
    worker.bed->sleep();
    lock.lock();
    const WakeList beds = sleepers_to_wake();
    if (beds.empty()) return;
    lock.unlock();
    wake_all(beds);
    lock.lock();
  }

  void run_one(Lock& lock, Worker& worker) {
    LaneRef lane = take();
    if (lane->pending.empty()) {  // it was closed meanwhile
      lane->scheduled = false;
      lock.unlock();
      lane = nullptr;
      lock.lock();
      return;
    }
    Operation operation = std::move(lane->pending.front());
    lane->pending.pop_front();
    lane->running = true;
    const auto start = Clock::now();
    worker.busy_since = start;
    lock.unlock();
    worker.last_lane = nullptr;
    operation.run();
    operation.run = nullptr;
    const auto end = Clock::now();
    lock.lock();
    worker.busy_since = {};
    if (std::exchange(worker.stuck, false)) --num_stuck;
    lane->running = false;  // before the countdown: who waited for it may close the lane at once
    lane->cost = (lane->cost + (end - start)) / 2;
    if (operation.countdown) operation.countdown->arrive();
    finish(lock, lane);
    worker.last_lane = std::move(lane);
  }

  void finish(Lock& lock, const LaneRef& lane) {
    if (lane->pending.empty()) {
      lane->scheduled = false;
    } else {
      schedule(lane);
    }
    if (auto on_closed = std::exchange(lane->on_closed, nullptr)) {
      lock.unlock();
      on_closed();
      on_closed = nullptr;
      lock.lock();
    }
  }
};

ThreadPool::ThreadPool(int num_threads, int max_threads, Clock::duration patience)
    : state_(std::make_shared<State>(num_threads, std::max(num_threads, max_threads), patience)) {
  const State::Lock lock(state_->spin_lock);
  for (int i = 0; i < num_threads; ++i) state_->start_worker(state_);
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
  for (auto* threads : {&state_->workers, &state_->retired}) {  // when it stops, no worker moves any more
    for (Worker& worker : *threads) {
      if (all_gone) {
        worker.thread.join();
      } else {
        worker.thread.detach();
      }
    }
  }
}

void ThreadPool::push(std::vector<std::pair<LaneRef, Operation>> operations, bool is_behind) {
  std::vector<Operation> dropped;
  State::Lock lock(state_->spin_lock);
  bool has_changed = !is_behind && !state_->ready.empty();
  for (auto& [lane, operation] : operations) {
    if (lane->closed) {
      dropped.push_back(std::move(operation));
      continue;
    }
    lane->pending.push_back(std::move(operation));
    if (!lane->scheduled) {
      state_->schedule(lane);
    } else {
      has_changed = true;
    }
  }
  if (has_changed) state_->rank_again();
  const WakeList beds = state_->sleepers_to_wake();
  lock.unlock();
  wake_all(beds);
  for (Operation& operation : dropped) {
    if (operation.countdown) operation.countdown->arrive();
  }
}

void ThreadPool::close(const LaneRef& lane, std::function<void()> on_closed) {
  std::deque<Operation> dropped;
  {
    const State::Lock lock(state_->spin_lock);
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
    const auto now = Clock::now();
    for (Worker& worker : state_->workers) {
      const bool busy = worker.busy_since != Clock::time_point{};
      if (worker.stuck || !busy || now - worker.busy_since < stuck_after) continue;
      worker.stuck = true;
      ++state_->num_stuck;
    }
    const auto is_short = [this] { return state_->num_running - state_->num_stuck < state_->num_threads; };
    while (is_short() && state_->num_running < state_->max_threads && !state_->ready.empty()) {
      state_->start_worker(state_);
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
