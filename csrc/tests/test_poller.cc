// Polled launches over host memory: order, replays, lifetimes, and threads that end or hang.
#include "polling_stream.h"

#include <atomic>
#include <thread>

#include "check.h"
#include "host_functions.h"
#include "host_stream.h"
#include "spin.h"

using namespace specguide;
using namespace std::chrono_literals;
using check::message_of;

namespace {

struct Rig {
  explicit Rig(int capacity = 8, Timeout timeout = 20s)
      : words(std::make_shared<std::vector<int32_t>>(2 * capacity)),
        host(std::make_shared<HostStream>("s", timeout)),
        stream(std::make_unique<PollingStream>(host, PollingWords{words->data(), capacity, words})) {}

  // A graph of functions that write their number into `seen`.
  std::shared_ptr<HostGraph> capture(const std::vector<int>& numbers) {
    host->begin_capture();
    for (const int number : numbers) {
      stream->launch(function("f", [this, number] { seen.push_back(number); }));
    }
    return host->end_capture();
  }

  std::shared_ptr<std::vector<int32_t>> words;
  std::shared_ptr<HostStream> host;
  std::unique_ptr<PollingStream> stream;
  std::vector<int> seen;
};

}  // namespace

TEST(launches_run_in_order_on_another_thread_and_the_stream_waits_for_them) {
  Rig rig;
  std::vector<std::thread::id> threads(2);
  for (int i = 0; i < 100; ++i) {
    rig.stream->launch(function("f", [&, i] {
      rig.seen.push_back(i);
      threads[0] = std::this_thread::get_id();
    }));
    rig.host->launch(function("g", [&, i] {
      CHECK(rig.seen.size() == static_cast<size_t>(i) + 1);
      threads[1] = std::this_thread::get_id();
    }));
    if (i % 3 == 2) rig.stream->synchronize(20s);  // words are reused
  }
  rig.stream->synchronize(20s);
  CHECK(rig.seen.size() == 100 && rig.seen.back() == 99);
  CHECK(threads[0] != threads[1] && threads[0] != std::this_thread::get_id());
}

TEST(graphs_share_a_poller_with_launches_outside) {
  Rig rig;
  const auto a = rig.capture({1, 2}), b = rig.capture({3});
  std::vector<int> expected;
  for (int i = 0; i < 50; ++i) {
    a->replay({rig.host.get()});
    rig.stream->launch(function("f", [&] { rig.seen.push_back(4); }));
    b->replay({rig.host.get()});
    b->replay({rig.host.get()});
    expected.insert(expected.end(), {1, 2, 4, 3, 3});
    rig.stream->synchronize(20s);
  }
  CHECK(rig.seen == expected);
}

TEST(a_function_lives_as_long_as_its_graph_or_as_its_call) {
  Rig rig(2);
  const auto payload = std::make_shared<int>(0);
  const auto count = [payload] { ++*payload; };
  for (int i = 0; i < 5; ++i) {
    rig.host->begin_capture();
    rig.stream->launch(function("captured", count));
    auto graph = rig.host->end_capture();
    graph->replay({rig.host.get()});
    rig.stream->launch(function("once", count));
    rig.stream->synchronize(20s);
    CHECK(*payload == 2 * (i + 1));
    graph = nullptr;
    for (int ms = 0; ms < 10000 && payload.use_count() > 2; ++ms) std::this_thread::sleep_for(1ms);
    CHECK(payload.use_count() == 2);
  }
}

TEST(a_graph_outlives_its_stream) {
  Rig rig;
  const auto graph = rig.capture({1});
  rig.stream = nullptr;
  graph->replay({rig.host.get()});
  rig.host->synchronize(20s);
  CHECK(rig.seen == std::vector<int>{1});
}

TEST(captured_launches_of_one_function_have_the_same_words) {
  Rig rig(2);
  const auto f = function("f", [&] { rig.seen.push_back(1); }), g = function("g", [&] { rig.seen.push_back(2); });
  std::vector<std::shared_ptr<HostGraph>> graphs;
  for (int i = 0; i < 20; ++i) {
    rig.host->begin_capture();
    for (const auto& call : {f, g, f}) rig.stream->launch(call);
    graphs.push_back(rig.host->end_capture());
  }
  std::vector<int> expected;
  const auto replay_all = [&] {
    for (const auto& graph : graphs) {
      graph->replay({rig.host.get()});
      expected.insert(expected.end(), {1, 2, 1});
    }
    rig.stream->synchronize(20s);
    CHECK(rig.seen == expected);
  };
  replay_all();
  graphs.erase(graphs.begin(), graphs.begin() + 19);
  replay_all();
  graphs.clear();
  const auto is_freed = [&] { return f.use_count() == 1 && g.use_count() == 1; };
  for (int i = 0; i < 1000 && !is_freed(); ++i) std::this_thread::sleep_for(5ms);  // released on another thread
  CHECK(is_freed());
  rig.capture({3, 4})->replay({rig.host.get()});
  rig.stream->synchronize(20s);
  CHECK(rig.seen.back() == 4);
}

TEST(launches_need_words) {
  Rig rig(1);
  const auto graph = rig.capture({1});
  const auto launch = [&] { rig.stream->launch(function("two", [] {})); };
  CHECK_CONTAINS(message_of<EngineError>(launch), "no words are left for host function 'two'");
  const auto make = [&] { PollingStream(rig.host, {nullptr, 0, nullptr}); };
  CHECK_CONTAINS(message_of<std::invalid_argument>(make), "at least two words");
}

TEST(what_a_function_throws_is_latched) {
  Rig rig;
  rig.stream->launch(function("broken", [] { throw std::runtime_error("boom"); }));
  CHECK_CONTAINS(message_of<EngineError>([&] { rig.stream->synchronize(20s); }), "'broken' failed: boom");
  rig.stream->check();
}

TEST(another_thread_takes_over_from_one_that_ended) {
  for (const bool after_running : {false, true}) {
    Rig rig;
    const auto graph = rig.capture({1, 2, 3});
    for (int i = 0; i < 3; ++i) {
      rig.stream->end_thread(2, after_running);
      graph->replay({rig.host.get()});
      rig.stream->synchronize(20s);
    }
    CHECK((rig.seen == std::vector<int>{1, 2, 3, 1, 2, 3, 1, 2, 3}));
  }
}

TEST(streams_go_on_when_no_thread_lasts) {
  Rig rig;
  const auto graph = rig.capture({1, 2});
  graph->replay({rig.host.get()});
  rig.stream->synchronize(20s);
  rig.stream->end_thread(1000, false);
  graph->replay({rig.host.get()});
  graph->replay({rig.host.get()});
  rig.stream->launch(function("f", [&] { rig.seen.push_back(3); }));
  rig.host->synchronize(20s);
  for (int i = 0; i < 2; ++i) {
    CHECK_CONTAINS(message_of<EngineError>([&] { rig.stream->check(); }), "the polling thread ended 4 times in a row");
  }
  CHECK((rig.seen == std::vector<int>{1, 2}));
}

TEST(streams_go_on_when_a_function_hangs) {
  std::atomic<bool> go{false}, is_over{false};
  {
    Rig rig(8, 200ms);
    rig.stream->launch(function("hanging", [&] {
      while (!go) std::this_thread::sleep_for(1ms);
      is_over = true;
    }));
    std::string message;
    for (int ms = 0; ms < 10000 && message.find("host function did not end") == std::string::npos; ++ms) {
      std::this_thread::sleep_for(1ms);
      message = message_of<EngineError>([&] {
        rig.stream->check();  // at first the stream's own wait, which has the same time-out
        throw EngineError("");
      });
    }
    CHECK_CONTAINS(message, "a host function did not end within 0.2 s");
    try {
      rig.host->synchronize(20s);
    } catch (const EngineError&) {  // the wait on the host has the same time-out
    }
    go = true;
  }
  for (int i = 0; i < 10000 && !is_over; ++i) std::this_thread::sleep_for(1ms);
  CHECK(is_over);
}

TEST(an_idle_poller_is_found_awake_enough) {
  Rig rig;
  std::this_thread::sleep_for(300ms);
  const auto begin = Clock::now();
  rig.stream->launch(function("f", [] {}));
  rig.stream->synchronize(20s);
  CHECK(Clock::now() - begin < 1s);
}

TEST(all_threads_can_be_ended) {
  Rig rig;
  rig.stream->launch(function("f", [&] { rig.seen.push_back(1); }));
  Poller::stop_all();
  CHECK(rig.seen == std::vector<int>{1});
}

TEST(who_holds_words_calls_by_numbers_and_what_is_due_at_once_runs_in_order) {
  Rig rig(3);
  std::vector<PollingStream::Words> held;
  for (const int number : {0, 1, 2}) {
    held.push_back(rig.stream->hold(function("f", [&rig, number] { rig.seen.push_back(number); })));
    CHECK(held.back().due == number && held.back().done == 3 + number);
  }
  CHECK_CONTAINS(message_of<EngineError>([&] { rig.stream->hold(function("g", [] {})); }), "no words are left");
  const auto word = [&](int place) { return rig.words->data() + place; };
  std::vector<int> expected;
  for (int32_t call = 1; call < 200; call += 2) {
    for (const auto& words : held) store_word(word(words.due), call);
    for (const auto& words : held) CHECK(spin_until([&] { return load_word(word(words.done)) == call; }, 20s));
    expected.insert(expected.end(), {0, 1, 2});
  }
  CHECK(rig.seen == expected);
}

TEST(a_number_is_answered_when_threads_end_and_when_none_lasts) {
  Rig rig(1);
  std::atomic<int> num_run{0};
  const auto held = rig.stream->hold(function("f", [&] { ++num_run; }));
  const auto is_answered = [&](int32_t call) {
    store_word(rig.words->data() + held.due, call);
    return spin_until([&] { return load_word(rig.words->data() + held.done) == call; }, 20s);
  };
  for (const bool after_running : {false, true}) {
    rig.stream->end_thread(2, after_running);
    CHECK(is_answered(after_running ? 5 : 3));
  }
  CHECK(num_run == 2);
  rig.stream->end_thread(1000, false);
  CHECK(is_answered(7) && is_answered(9) && num_run == 2);
  CHECK_CONTAINS(message_of<EngineError>([&] { rig.stream->check(); }), "the polling thread ended");
}
