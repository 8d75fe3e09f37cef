// Streams and events: order, CUDA's semantics of record and wait, time-outs, latched errors.
#include <atomic>
#include <thread>

#include "check.h"
#include "host_functions.h"
#include "host_stream.h"

using namespace specguide;
using namespace std::chrono_literals;
using check::message_of;

TEST(functions_run_in_order_on_another_thread) {
  HostStream stream("s");
  std::vector<int> seen;
  std::thread::id id;
  for (int i = 0; i < 100; ++i) {
    stream.launch(function("f", [&, i] {
      seen.push_back(i);
      id = std::this_thread::get_id();
    }));
  }
  stream.synchronize(10s);
  CHECK(seen.size() == 100 && seen.front() == 0 && seen.back() == 99);
  CHECK(id != std::this_thread::get_id());
}

TEST(a_word_is_written_in_its_turn_and_at_each_replay) {
  HostStream stream("s");
  int32_t word = 0;
  std::vector<int32_t> seen;
  const auto look = function("look", [&] { seen.push_back(load_word(&word)); });
  stream.write_value(unowned(&word), 3);
  stream.launch(look);
  stream.begin_capture();
  auto owned = std::make_shared<int32_t>(0);
  const std::weak_ptr<int32_t> alive = owned;
  stream.write_value(unowned(&word), 4);
  stream.launch(look);
  stream.write_value(std::move(owned), 5);
  auto graph = stream.end_capture();
  stream.synchronize(10s);
  for (int i = 0; i < 2; ++i) {
    stream.write_value(unowned(&word), 0);
    graph->replay({&stream});
    stream.synchronize(10s);
  }
  CHECK((seen == std::vector<int32_t>{3, 4, 4}));
  CHECK(alive.lock() && *alive.lock() == 5);
  graph = nullptr;
  CHECK(!alive.lock());
}

TEST(an_event_orders_two_streams) {
  HostStream a("a"), b("b");
  HostEvent ready("ready");
  std::atomic<bool> done{false};
  bool seen = false;
  a.launch(function("slow", [&] {
    std::this_thread::sleep_for(20ms);
    done = true;
  }));
  a.record(ready);
  CHECK(!ready.query());
  b.wait(ready);
  b.launch(function("look", [&] { seen = done; }));
  b.synchronize(10s);
  CHECK(seen && ready.query());
}

TEST(an_event_never_recorded_does_not_wait) {
  HostStream stream("s");
  HostEvent event("never");
  stream.wait(event);
  stream.synchronize(10s);
  CHECK(event.query());
  event.synchronize(1s);
}

TEST(a_wait_is_for_the_last_record_before_it) {
  HostStream a("a"), b("b");
  HostEvent event("event");
  std::atomic<bool> go{false};
  a.record(event);
  b.wait(event);  // the first record: b does not wait for what follows
  a.launch(function("block", [&] {
    while (!go) std::this_thread::sleep_for(1ms);
  }));
  a.record(event);
  b.synchronize(10s);
  CHECK(!event.query());
  go = true;
  event.synchronize(10s);
  CHECK(event.query());
}

TEST(a_time_out_names_what_was_waited_for) {
  HostStream a("a"), b("b", 0.05s);
  HostEvent event("mask ready"), after("after");
  std::atomic<bool> go{false};
  a.launch(function("walk", [&] {
    while (!go) std::this_thread::sleep_for(1ms);
  }));
  a.record(event);
  CHECK_CONTAINS(message_of<EngineError>([&] { event.synchronize(0.01s); }), "mask ready");
  CHECK_CONTAINS(message_of<EngineError>([&] { a.synchronize(0.01s); }), "running host function 'walk'");
  bool ran = false;
  b.wait(event);
  b.launch(function("dropped", [&] { ran = true; }));
  b.record(after);
  CHECK_CONTAINS(message_of<EngineError>([&] { b.synchronize(10s); }), "waited 0.05 s in vain for event 'mask ready'");
  CHECK_CONTAINS(message_of<EngineError>([&] { after.synchronize(10s); }), "mask ready");
  CHECK_CONTAINS(message_of<EngineError>([&] { b.launch(function("no", [] {})); }), "mask ready");
  CHECK(!ran);
  CallerStream caller("forward", 0.01s);
  CHECK_CONTAINS(message_of<EngineError>([&] { caller.wait(event); }), "'forward' waited 0.01 s in vain");
  go = true;
}

TEST(an_error_is_latched_until_the_next_synchronize) {
  HostStream stream("s");
  int after = 0;
  stream.launch(function("bad", [] { throw std::runtime_error("first"); }));
  stream.launch(function("bad", [] { throw 7; }));
  stream.launch(function("good", [&] { ++after; }));
  CHECK_CONTAINS(message_of<EngineError>([&] { stream.synchronize(10s); }), "host function 'bad' failed: first");
  stream.synchronize(10s);
  CHECK(after == 1);
  CallerStream caller("c");
  caller.launch(function("bad", [] { throw std::runtime_error("there"); }));
  CHECK_CONTAINS(message_of<EngineError>([&] { caller.check(); }), "there");
  caller.synchronize(1s);
}

TEST(payloads_are_freed_after_the_call) {
  auto payload = std::make_shared<int>(1);
  HostStream stream("s");
  stream.launch(function("f", [payload] {}));
  stream.synchronize(10s);
  CHECK(payload.use_count() == 1);
}

TEST(a_caller_stream_runs_at_once) {
  CallerStream stream("c");
  HostEvent event("e");
  int ran = 0;
  stream.launch(function("f", [&] { ++ran; }));
  stream.record(event);
  CHECK(ran == 1 && event.query());
}

TEST(a_closed_stream_finishes_what_can_run) {
  std::atomic<int> ran{0};
  HostEvent never("never");
  std::atomic<bool> go{false};
  HostStream blocked("blocked");
  blocked.launch(function("block", [&] {
    while (!go) std::this_thread::sleep_for(1ms);
  }));
  blocked.record(never);
  {
    HostStream stream("s");
    for (int i = 0; i < 50; ++i) stream.launch(function("f", [&] { ++ran; }));
    stream.wait(never);
    stream.launch(function("not run", [&] { ran = -1; }));
  }
  CHECK(ran == 50);
  go = true;
}

TEST(a_stream_may_be_dropped_by_its_own_function) {
  auto stream = std::make_shared<HostStream>("s");
  HostEvent done("done");
  HostStream* raw = stream.get();
  raw->launch(function("drop", [stream = std::move(stream)]() mutable { stream.reset(); }));
  std::this_thread::sleep_for(50ms);
}
