#include "thread_pool.h"

#include <algorithm>
#include <list>
#include <thread>

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

struct ThreadPool::Worker {
  std::thread thread;
  std::condition_variable wake;
  bool woken = false;
  Clock::time_point busy_since{};  // the epoch: idle
  bool stuck = false;
};

// Everything under one mutex, held for a few instructions at a time. Threads share ownership of it.
struct ThreadPool::State {
  using Ready = std::pair<Clock::duration, LaneRef>;

  const int num_threads;
  const int max_threads;
  const Clock::duration patience;
  std::mutex mutex;
  std::condition_variable gone;
  std::vector<Ready> ready;  // a heap, the dearest on top
  std::atomic<int> num_ready{0};
  std::list<Worker> workers;
  std::list<Worker> retired;  // threads to join
  int num_running = 0;        // workers that have not retired
  int num_stuck = 0;
  int num_spinning = 0;
  std::vector<Worker*> asleep;  // the last to fall asleep is woken first: its core is the warmest
  bool stopping = false;

  State(int threads, int max, Clock::duration longest) : num_threads(threads), max_threads(max), patience(longest) {}

  static bool is_cheaper(const Ready& a, const Ready& b) { return a.first < b.first; }

  void schedule(LaneRef lane) {
    lane->scheduled = true;
    const Clock::duration rank = lane->cost <= patience ? lane->cost : Clock::duration(-1);
    ready.emplace_back(rank, std::move(lane));
    std::push_heap(ready.begin(), ready.end(), is_cheaper);
    num_ready.store(static_cast<int>(ready.size()), std::memory_order_relaxed);
  }

  LaneRef take() {
    std::pop_heap(ready.begin(), ready.end(), is_cheaper);
    LaneRef lane = std::move(ready.back().second);
    ready.pop_back();
    num_ready.store(static_cast<int>(ready.size()), std::memory_order_relaxed);
    return lane;
  }

  // A sleeper takes tens of microseconds to wake, so each one woken helps to wake the others.
  void wake_sleepers() {
    constexpr int kMostAtOnce = 4;
    int num_wanted = std::min(kMostAtOnce, static_cast<int>(ready.size()) - num_spinning);
    for (; num_wanted > 0 && !asleep.empty(); --num_wanted) wake_last();
  }

  void wake_last() {
    asleep.back()->woken = true;
    asleep.back()->wake.notify_one();
    asleep.pop_back();
  }

  bool has_surplus() const { return num_running - num_stuck > num_threads; }

  void start_worker(const std::shared_ptr<State>& self) {
    workers.emplace_back();
    const auto worker = std::prev(workers.end());
    ++num_running;
    worker->thread = std::thread([self, worker] { self->work_loop(worker); });
  }

  void work_loop(std::list<Worker>::iterator worker) {
    std::unique_lock lock(mutex);
    while (!stopping && !has_surplus()) {
      if (ready.empty()) {
        wait_for_work(lock, *worker);
      } else {
        run_one(lock, *worker);
      }
    }
    --num_running;
    wake_sleepers();  // what this one was woken for goes to another
    if (!stopping) retired.splice(retired.end(), workers, worker);
    gone.notify_all();
  }

  void wait_for_work(std::unique_lock<std::mutex>& lock, Worker& worker) {
    ++num_spinning;
    lock.unlock();
    spin_until([this] { return num_ready.load(std::memory_order_relaxed) > 0; }, spin_time());
    lock = lock_briefly(mutex);
    --num_spinning;
    if (!ready.empty() || stopping) return;
    asleep.push_back(&worker);
    worker.wake.wait(lock, [&worker] { return worker.woken; });
    worker.woken = false;
    wake_sleepers();
  }

  void run_one(std::unique_lock<std::mutex>& lock, Worker& worker) {
    const LaneRef lane = take();
    if (lane->pending.empty()) {  // it was closed meanwhile
      lane->scheduled = false;
      return;
    }
    Operation operation = std::move(lane->pending.front());
    lane->pending.pop_front();
    lane->running = true;
    const auto start = Clock::now();
    worker.busy_since = start;
    lock.unlock();
    operation.run();
    operation.run = nullptr;
    const auto end = Clock::now();
    lock = lock_briefly(mutex);
    worker.busy_since = {};
    if (std::exchange(worker.stuck, false)) --num_stuck;
    lane->running = false;  // before the countdown: who waited for it may close the lane at once
    lane->cost = (lane->cost + (end - start)) / 2;
    if (operation.countdown) operation.countdown->arrive();
    finish(lock, lane);
  }

  void finish(std::unique_lock<std::mutex>& lock, const LaneRef& lane) {
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
  std::lock_guard lock(state_->mutex);
  for (int i = 0; i < num_threads; ++i) state_->start_worker(state_);
}

ThreadPool::~ThreadPool() {
  constexpr std::chrono::seconds limit{5};
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  while (!state_->asleep.empty()) state_->wake_last();
  const bool all_gone = state_->gone.wait_for(lock, limit, [this] { return state_->num_running == 0; });
  for (auto* threads : {&state_->workers, &state_->retired}) {
    for (Worker& worker : *threads) {
      std::thread thread = std::move(worker.thread);
      lock.unlock();
      if (all_gone) {
        thread.join();
      } else {
        thread.detach();
      }
      lock.lock();
    }
  }
}

void ThreadPool::push(std::vector<std::pair<LaneRef, Operation>> operations) {
  std::vector<Operation> dropped;
  auto lock = lock_briefly(state_->mutex);
  for (auto& [lane, operation] : operations) {
    if (lane->closed) {
      dropped.push_back(std::move(operation));
      continue;
    }
    lane->pending.push_back(std::move(operation));
    if (!lane->scheduled) state_->schedule(lane);
  }
  state_->wake_sleepers();
  lock.unlock();
  for (Operation& operation : dropped) {
    if (operation.countdown) operation.countdown->arrive();
  }
}

void ThreadPool::close(const LaneRef& lane, std::function<void()> on_closed) {
  std::deque<Operation> dropped;
  {
    auto lock = lock_briefly(state_->mutex);
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
    auto lock = lock_briefly(state_->mutex);
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
  std::lock_guard lock(state_->mutex);
  return state_->num_running;
}

}  // namespace specguide
