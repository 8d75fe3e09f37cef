// Captures of host streams: replay, lifetimes, forks and joins.
#include <atomic>
#include <thread>

#include "check.h"
#include "host_functions.h"
#include "host_stream.h"

using namespace specguide;
using namespace std::chrono_literals;
using check::message_of;

TEST(captured_twice_replayed_ten_times) {
  HostStream stream("s");
  int count = 0;
  const auto increase = function("increase", [&] { ++count; });
  stream.begin_capture();
  stream.launch(increase);
  stream.launch(increase);
  const auto graph = stream.end_capture();
  CHECK(graph->num_nodes() == 2 && graph->num_streams() == 1);
  stream.synchronize(10s);
  CHECK(count == 0);
  for (int i = 0; i < 10; ++i) graph->replay({&stream});
  stream.synchronize(10s);
  CHECK(count == 20);
}

TEST(payloads_live_as_long_as_the_graph) {
  auto payload = std::make_shared<int>(1);
  HostStream stream("s");
  stream.begin_capture();
  stream.launch(function("f", [payload] {}));
  HostEvent event("e");
  stream.record(event);
  auto graph = stream.end_capture();
  CHECK(payload.use_count() == 2);
  for (int i = 0; i < 3; ++i) graph->replay({&stream});
  stream.synchronize(10s);
  CHECK(payload.use_count() == 2);
  graph.reset();
  CHECK(payload.use_count() == 1);
}

TEST(streams_fork_and_join) {
  HostStream a("a"), b("b");
  HostEvent fork("fork"), join("join");
  std::atomic<int> step{0};
  int first = -1, second = -1, third = -1;
  a.begin_capture();
  a.launch(function("first", [&] { first = step++; }));
  a.record(fork);
  b.wait(fork);
  CHECK(b.is_capturing());
  b.launch(function("second", [&] { second = step++; }));
  b.record(join);
  a.wait(join);
  a.launch(function("third", [&] { third = step++; }));
  const auto graph = a.end_capture();
  CHECK(!b.is_capturing() && graph->num_streams() == 2);
  for (int i = 0; i < 50; ++i) {
    step = 0;
    if (i % 2 == 0) {
      graph->replay({&a, &b});
    } else {
      graph->replay({&b});
    }
    (i % 2 == 0 ? a : b).synchronize(10s);
    CHECK(first == 0 && second == 1 && third == 2);
  }
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { graph->replay({&a, &b, &a}); }), "captured from 2 streams");
}

TEST(a_join_at_the_end_holds_back_what_follows) {
  HostStream a("a"), b("b");
  HostEvent fork("fork"), join("join");
  std::atomic<int> ran{0};
  a.begin_capture();
  a.record(fork);
  b.wait(fork);
  b.launch(function("slow", [&] {
    std::this_thread::sleep_for(20ms);
    ++ran;
  }));
  b.record(join);
  a.wait(join);
  const auto graph = a.end_capture();
  graph->replay({&a, &b});
  a.synchronize(10s);
  CHECK(ran == 1);
}

TEST(what_capturing_refuses) {
  HostStream a("a"), b("b");
  HostEvent outside("outside"), fork("fork");
  a.record(outside);
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { a.end_capture(); }), "not capturing");
  a.begin_capture();
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { a.begin_capture(); }), "cannot begin another capture");
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { a.synchronize(1s); }), "cannot be waited for");
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { a.wait(outside); }), "outside the capture");
  a.record(fork);
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { fork.synchronize(1s); }), "recorded in a capture");
  b.wait(fork);
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { b.end_capture(); }), "began on another stream");
  b.launch(function("lost", [] {}));
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { a.end_capture(); }), "before host function 'lost' was joined");
  CHECK(!a.is_capturing() && !b.is_capturing());
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { a.wait(fork); }), "has ended");
  a.synchronize(10s);
}

TEST(a_caller_stream_captures_too) {
  CallerStream stream("c");
  int count = 0;
  stream.begin_capture();
  stream.launch(function("f", [&] { ++count; }));
  const auto graph = stream.end_capture();
  CHECK(count == 0);
  graph->replay({&stream});
  CHECK(count == 1);
}
