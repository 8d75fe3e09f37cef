// The pool: order within a lane, closing of lanes, replacement of stuck workers and their retirement.
#include <dlfcn.h>
#include <pthread.h>

#include <thread>

#include "check.h"
#include "errors.h"
#include "thread_pool.h"

// Threads that the system can still start.
static std::atomic<int> num_threads_left{1 << 30};

extern "C" __attribute__((visibility("default"))) int pthread_create(
    pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* given) noexcept {
  if (num_threads_left-- <= 0) return EAGAIN;
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, given);
}

using namespace specguide;
using namespace std::chrono_literals;

namespace {

using Batch = std::vector<std::pair<ThreadPool::LaneRef, ThreadPool::Operation>>;

struct Waiter {
  std::shared_ptr<Countdown> countdown = std::make_shared<Countdown>();
  ThreadPool::Operation operation(std::function<void()> run) {
    countdown->expect();
    return {std::move(run), countdown};
  }
  bool wait(Clock::duration time) { return countdown->wait_until(Clock::now() + time); }
};

void push(ThreadPool& pool, const ThreadPool::LaneRef& lane, ThreadPool::Operation operation) {
  Batch batch;
  batch.emplace_back(lane, std::move(operation));
  pool.push(std::move(batch));
}

}  // namespace

TEST(a_lane_is_a_fifo) {
  ThreadPool pool(3, 8, 1ms);
  constexpr int kLanes = 16, kOperations = 200;
  std::vector<ThreadPool::LaneRef> lanes;
  std::vector<std::vector<int>> seen(kLanes);  // unguarded: a lane runs one operation at a time
  for (int i = 0; i < kLanes; ++i) lanes.push_back(std::make_shared<ThreadPool::Lane>());
  Waiter waiter;
  for (int n = 0; n < kOperations; ++n) {
    Batch batch;
    for (int i = 0; i < kLanes; ++i) {
      batch.emplace_back(lanes[i], waiter.operation([&seen, i, n] { seen[i].push_back(n); }));
    }
    pool.push(std::move(batch));
  }
  CHECK(waiter.wait(30s));
  for (const std::vector<int>& lane : seen) {
    CHECK(lane.size() == kOperations);
    for (int n = 0; n < kOperations; ++n) CHECK(lane[n] == n);
  }
}

TEST(closing_drops_what_is_pending_and_waits_for_what_runs) {
  ThreadPool pool(1, 1, 1ms);
  const auto lane = std::make_shared<ThreadPool::Lane>();
  std::atomic<bool> started{false}, go{false}, closed{false};
  std::atomic<int> dropped{0};
  Waiter running, pending;
  push(pool, lane, running.operation([&] {
    started = true;
    while (!go) std::this_thread::sleep_for(1ms);
  }));
  push(pool, lane, pending.operation([&] { ++dropped; }));
  while (!started) std::this_thread::sleep_for(1ms);
  pool.close(lane, [&] { closed = true; });
  CHECK(pending.wait(0ms));
  CHECK(!closed);
  push(pool, lane, pending.operation([&] { ++dropped; }));
  CHECK(pending.wait(0ms));
  go = true;
  CHECK(running.wait(10s));
  for (int i = 0; i < 1000 && !closed; ++i) std::this_thread::sleep_for(1ms);
  CHECK(closed && dropped == 0);
  bool closed_again = false;
  pool.close(lane, [&] { closed_again = true; });
  CHECK(closed_again);
}

TEST(stuck_workers_are_stood_in_for_and_stand_ins_retire) {
  ThreadPool pool(1, 3, 1ms);
  std::atomic<bool> go{false};
  Waiter stuck, neighbours;
  std::vector<ThreadPool::LaneRef> lanes;
  for (int i = 0; i < 4; ++i) lanes.push_back(std::make_shared<ThreadPool::Lane>());
  const auto block = [&] {
    while (!go) std::this_thread::sleep_for(1ms);
  };
  push(pool, lanes[0], stuck.operation(block));
  std::this_thread::sleep_for(20ms);
  push(pool, lanes[1], stuck.operation(block));
  pool.compensate(5ms);
  std::this_thread::sleep_for(20ms);
  push(pool, lanes[2], neighbours.operation([] {}));
  pool.compensate(5ms);
  CHECK(neighbours.wait(10s));
  CHECK(pool.num_workers() == 3);
  go = true;
  CHECK(stuck.wait(10s));
  for (int i = 0; i < 100; ++i) {  // a replacement retires when it next looks for work
    Waiter more;
    push(pool, lanes[3], more.operation([] {}));
    CHECK(more.wait(10s));
    if (pool.num_workers() == 1) break;
    std::this_thread::sleep_for(1ms);
  }
  pool.compensate(5ms);
  CHECK(pool.num_workers() == 1);
}

TEST(where_no_more_threads_are_left_the_pool_goes_on_with_those_it_has) {
  num_threads_left = 1;
  {
    ThreadPool pool(2, 4, 1ms);
    CHECK(pool.num_workers() == 1);
    std::atomic<bool> go{false};
    Waiter waiter;
    for (int i = 0; i < 3; ++i) {
      push(pool, std::make_shared<ThreadPool::Lane>(), waiter.operation([&] {
        while (!go) std::this_thread::sleep_for(1ms);
      }));
    }
    pool.compensate(0ms);
    CHECK(pool.num_workers() == 1);
    go = true;
    CHECK(waiter.wait(10s));
  }
  num_threads_left = 0;
  CHECK_CONTAINS(check::message_of<EngineError>([] { ThreadPool(1, 1, 1ms); }), "limit of threads");
  num_threads_left = 1 << 30;
}

TEST(lanes_that_nobody_waits_for_come_last) {
  ThreadPool pool(1, 1, 1s);
  std::atomic<bool> go{false};
  std::vector<int> order;
  Waiter dear, gate, given_up, waited_for;
  std::vector<ThreadPool::LaneRef> lanes;
  for (int i = 0; i < 4; ++i) lanes.push_back(std::make_shared<ThreadPool::Lane>());
  for (int i : {0, 1}) push(pool, lanes[i], dear.operation([] { std::this_thread::sleep_for(20ms); }));
  CHECK(dear.wait(10s));
  push(pool, lanes[3], gate.operation([&] {
    while (!go) std::this_thread::sleep_for(1ms);
  }));
  std::this_thread::sleep_for(20ms);
  push(pool, lanes[0], given_up.operation([&] { order.push_back(0); }));
  push(pool, lanes[1], given_up.operation([&] { order.push_back(1); }));
  given_up.countdown->give_up();
  pool.rank_again();
  push(pool, lanes[2], waited_for.operation([&] { order.push_back(2); }));
  push(pool, lanes[1], waited_for.operation([&] { order.push_back(3); }));  // so what precedes it is waited for
  go = true;
  CHECK(waited_for.wait(10s) && given_up.wait(10s));
  CHECK((order == std::vector<int>{1, 3, 2, 0}));
}

TEST(a_pool_may_be_dropped_while_it_works) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool(2, 4, 1ms);
    for (int i = 0; i < 50; ++i) {
      push(pool, std::make_shared<ThreadPool::Lane>(), {[&] { ++ran; }, nullptr});
    }
  }
  CHECK(ran <= 50);
}
