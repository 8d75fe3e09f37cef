// Deadlines of the executor: held slots, late draft rows, slots that change hands while an operation runs, neighbours.
#include <optional>
#include <thread>

#include "check.h"
#include "gated_rig.h"

using namespace specguide;
using namespace std::chrono_literals;
using check::message_of;
using fake::CalledMatcher;
using fake::FakeMatcher;
using fake::Grammar;
using fake::Path;
using gated::Gate;
using gated::GatedMatcher;
using gated::GatedRig;
using gated::Later;

namespace {

void wait_until_idle(GrammarExecutor& executor, int slot) {
  for (int i = 0; i < 10000 && !executor.is_idle(slot); ++i) std::this_thread::sleep_for(1ms);
  CHECK(executor.is_idle(slot));
}

}  // namespace

TEST(a_late_target_row_holds_the_slot_until_it_is_there) {
  GatedRig rig(2, 1, 1, {100ms, 100ms, 100ms}, 1);
  rig.call(0);
  CHECK(rig.held[0] == 1 && !rig.is_guided(0, 0));
  rig.token(0, 0) = 3;  // the tokens of a held slot are not read
  rig.token(1, 0) = rig.token(1, 1) = 1;
  for (int i = 0; i < 5; ++i) {
    rig.call(1);
    rig.begin();
    CHECK(rig.held[0] == 1);
  }
  rig.gate->open();
  for (int i = 0; i < 1000 && rig.held[0] == 1; ++i) {
    std::this_thread::sleep_for(1ms);
    rig.call(1);
    rig.begin();
  }
  CHECK(rig.held[0] == 0 && rig.is_guided(0, 0) && rig.row(0, 0) == rig.grammar.row(rig.grammar.start()));
  CHECK(!rig.executor->error(0) && !rig.executor->error(1) && rig.held[1] == 0);
  CHECK(rig.executor->counters().held >= 6);
}

TEST(a_late_draft_row_leaves_the_drafter_free_and_comes_for_the_target) {
  GatedRig rig(1, 2, 1, {2ms, 2ms, 2ms}, 2);
  rig.take_up();
  rig.call(1);
  CHECK(!rig.is_guided(0, 0));
  rig.token(0, 1) = rig.path.tokens[1];
  rig.call(2);
  CHECK(!rig.is_guided(0, 1) && rig.executor->counters().late_draft_rows == 2);
  rig.gate->open();
  rig.token(0, 2) = rig.path.tokens[2];
  do rig.begin();
  while (rig.held[0] == 1);
  for (int node = 0; node <= 2; ++node) CHECK(rig.has_row(node));
}

TEST(a_draft_row_is_waited_for_until_the_drafter_has_needed_it_for_long_enough) {
  GatedRig rig(1, 1, 1, {60s, 5ms, 60s}, 2);
  rig.take_up();
  const auto begin = Clock::now();
  {
    Later forward(30ms, [&] { store_word(&rig.needed, 2); });
    rig.call(1);
  }
  CHECK(Clock::now() - begin >= 35ms && Clock::now() - begin < 10s);
  CHECK(!rig.is_guided(0, 0) && rig.executor->counters().late_draft_rows == 1);
  rig.token(0, 1) = rig.path.tokens[1];
  {
    Later opener(20ms, [&] { rig.gate->open(); });
    rig.begin();
  }
  CHECK(rig.held[0] == 0 && rig.has_row(0));
}

TEST(a_draft_row_may_come_while_nobody_needs_it_yet_or_while_the_drafter_waits) {
  for (const bool is_needed : {false, true}) {
    GatedRig rig(1, 1, 1, {60s, 30s, 60s}, 2);
    rig.take_up();
    Later opener(5ms, [&] { rig.gate->open(); });
    if (is_needed) store_word(&rig.needed, 2);
    rig.call(1);
    CHECK(rig.has_row(0) && rig.executor->counters().late_draft_rows == 0);
  }
}

TEST(a_drafter_that_waits_for_nothing_takes_what_is_there) {
  GatedRig rig(1, 2, 1, {60s, 0us, 60s}, 3);
  rig.take_up();
  rig.call(1);  // nobody waits for it before it is there
  CHECK(rig.is_guided(0, 0));
  rig.token(0, 1) = rig.path.tokens[1];
  store_word(&rig.needed, 3);
  rig.call(2);
  CHECK(!rig.is_guided(0, 1) && rig.executor->counters().late_draft_rows == 1);
  rig.gate->open();
  rig.token(0, 2) = rig.path.tokens[2];
  store_word(&rig.needed, 0);
  rig.begin();
  CHECK(rig.held[0] == 0);
  rig.token(0, 0) = rig.path.tokens[1];
  rig.call(1);  // `needed` of one iteration does not count in the next
  CHECK(rig.is_guided(0, 0) && rig.row(0, 0) == rig.grammar.row(rig.path.states[2]));
}

TEST(nobody_needing_it_a_draft_row_is_waited_for_until_the_deadline) {
  GatedRig rig(1, 1, 1, {30ms, 5ms, 30ms}, 2);
  rig.take_up();
  const auto begin = Clock::now();
  rig.call(1);
  CHECK(Clock::now() - begin >= 30ms && !rig.is_guided(0, 0));
}

TEST(a_target_row_is_waited_for_until_the_target_has_needed_it_for_long_enough) {
  struct Case {
    std::optional<Clock::duration> wait;
    Clock::duration at_least;
  };
  // Without a wait of its own it is half an iteration of 100 ms, because there are two requests.
  for (const auto& [wait, at_least] : {Case{5ms, 35ms}, Case{std::nullopt, 80ms}}) {
    GatedRig rig(2, 0, 2, {60s, 60s, wait}, 2);
    rig.take_up();
    CHECK(rig.held[0] == 0 && rig.held[1] == 0);
    rig.token(1, 0) = 1;
    std::this_thread::sleep_for(100ms);
    const auto begin = Clock::now();
    {
      Later forward(30ms, [&] { store_word(&rig.needed, 1); });
      rig.begin();
    }
    CHECK(Clock::now() - begin >= at_least && Clock::now() - begin < 10s);
    CHECK(rig.held[0] == 1 && rig.held[1] == 0);
    rig.gate->open();
    do {
      store_word(&rig.needed, 0);
      rig.num_accepted[0] = -1;
      rig.begin();
    } while (rig.held[0] == 1);
    CHECK(rig.has_row(0));
  }
}

TEST(a_slot_changes_hands_only_when_nothing_touches_its_rows) {
  ExecutorRig rig(1, 1, 1, 2ms);
  const auto gate = std::make_shared<Gate>();
  const int alive = FakeMatcher::num_alive;
  rig.executor->submit({{0, std::make_shared<GatedMatcher>(Grammar{11}, gate, 1)}}, {});
  rig.call(0);
  rig.executor->submit({}, {0});
  gate->wait_for_arrival();
  rig.executor->detach(0);
  CHECK(!rig.executor->is_idle(0));
  const auto submit = [&] { rig.executor->submit({{0, std::make_shared<FakeMatcher>(Grammar{12})}}, {}); };
  CHECK_CONTAINS(message_of<std::invalid_argument>(submit), "slot 0 is busy");
  rig.call(1);
  rig.call(0);  // the submitted snapshot still names the request
  CHECK(rig.held[0] == 0 && !rig.is_guided(0, 0));
  gate->open();
  wait_until_idle(*rig.executor, 0);
  CHECK(FakeMatcher::num_alive == alive);
  submit();
  do {
    rig.call(1);
    rig.call(0);
    rig.executor->submit({}, {0});
  } while (rig.held[0] == 1);
  CHECK(rig.row(0, 0) == Grammar{12}.row(Grammar{12}.start()));
}

TEST(a_sleeping_matcher_does_not_delay_its_neighbours) {
  for (const int num_threads : {1, 2}) {
    constexpr int kNeighbours = 6, kIterations = 100;
    ExecutorRig rig(kNeighbours + 1, 2, num_threads, 50ms);
    std::vector<GrammarExecutor::Start> started;
    std::vector<int> slots;
    for (int slot = 0; slot < kNeighbours; ++slot) started.emplace_back(slot, std::make_shared<CalledMatcher>());
    auto sleeper = std::make_shared<CalledMatcher>();
    sleeper->on_fill = [](int32_t* row) {
      std::this_thread::sleep_for(200ms);
      row[0] = 1;
    };
    started.emplace_back(kNeighbours, sleeper);
    for (int slot = 0; slot <= kNeighbours; ++slot) slots.push_back(slot);
    std::fill(rig.tokens.begin(), rig.tokens.end(), 1);
    int num_held = 0;
    const auto begin = Clock::now();
    for (int i = 0; i < kIterations; ++i) {
      if (i == 0) {
        rig.executor->submit(started, {});
      } else {
        rig.executor->submit({}, slots);
      }
      rig.call_all();
      for (int slot = 0; slot < kNeighbours; ++slot) num_held += rig.held[slot];
      std::this_thread::sleep_for(5ms);
    }
    const Timeout took = Clock::now() - begin;
    CHECK(num_held <= kIterations / 4 * kNeighbours);  // none on an idle machine
    CHECK(took < 5s);                                   // one after another, the sleeps would take a minute
    rig.executor->detach(kNeighbours);
    wait_until_idle(*rig.executor, kNeighbours);
  }
}
