// The callback log: off at first, bounded, oldest first; and what the executor writes into it.
#include "callback_log.h"

#include "check.h"
#include "executor_rig.h"

using namespace specguide;
using namespace std::chrono_literals;

namespace {

void add(CallbackLog& log, int index) {
  const auto begin = Clock::now();
  log.add(1, index, begin, Clock::now());
}

}  // namespace

TEST(nothing_is_kept_until_it_is_started) {
  CallbackLog log;
  add(log, 0);
  CHECK(log.take().empty());
  CHECK_CONTAINS(check::message_of<std::invalid_argument>([&] { log.start(0); }), "capacity");
}

TEST(the_last_spans_are_kept_oldest_first) {
  CallbackLog log;
  log.start(3);
  for (int index = 0; index < 5; ++index) add(log, index);
  const auto spans = log.take();
  CHECK(spans.size() == 3 && spans[0].index == 2 && spans[1].index == 3 && spans[2].index == 4);
  CHECK(spans[0].begin_ns <= spans[0].end_ns && spans[0].end_ns <= spans[1].begin_ns);
  CHECK(log.take().empty());
  add(log, 7);
  CHECK(log.take().at(0).index == 7);
}

TEST(the_executor_logs_each_callback_with_its_iteration) {
  ExecutorRig rig(1, 2, 1, 10s);
  rig.executor->submit({{0, nullptr}}, {});
  rig.call_all();
  rig.executor->callback_log().start(16);
  rig.executor->submit({}, {0});
  rig.call_all();
  const auto spans = rig.executor->callback_log().take();
  CHECK(spans.size() == 3);
  for (int index = 0; index < 3; ++index) CHECK(spans[index].iteration == 2 && spans[index].index == index);
}
