// The executor, case by case: the walk of an iteration, the end of a text, errors, refused arguments.
#include <functional>

#include "check.h"
#include "executor_rig.h"

using namespace specguide;
using namespace std::chrono_literals;
using check::message_of;
using fake::CalledMatcher;
using fake::FakeMatcher;
using fake::Grammar;
using fake::Path;

namespace {

constexpr auto kLong = 10s;

}  // namespace

TEST(one_walk_fills_each_row_once) {
  ExecutorRig rig(2, 3, 2, kLong);
  const Grammar grammar{5};
  const Path path(grammar, 6);
  rig.executor->submit({{1, std::make_shared<FakeMatcher>(grammar)}}, {});
  rig.call(0);
  CHECK(rig.row(1, 0) == grammar.row(path.states[0]));
  CHECK(rig.is_guided(1, 0) && !rig.is_guided(1, 1) && !rig.is_guided(1, 3) && rig.held[1] == 0);
  CHECK(rig.held[0] == 9 && rig.fill_ids[0] == rig.kUntouched);  // not in the snapshot: untouched
  for (int node = 0; node < 3; ++node) {
    rig.token(1, node) = path.tokens[node];
    rig.call(node + 1);
    CHECK(rig.is_guided(1, node) && rig.row(1, node) == grammar.row(path.states[node + 1]));
  }
  rig.token(1, 3) = path.tokens[3];
  rig.executor->submit({}, {1});
  rig.call(0);
  for (int node = 0; node <= 3; ++node) {
    CHECK(rig.is_guided(1, node) && rig.row(1, node) == grammar.row(path.states[node + 1]));
  }
  rig.num_accepted[1] = 1;  // the golden token differs from draft 2: d2 and d3 are rolled back
  const int32_t golden = fake::choose(path.states[2], rig.row(1, 1).data());
  rig.token(1, 0) = golden;
  rig.call(1);
  CHECK(rig.row(1, 0) == grammar.row(grammar.next(path.states[2], golden)));
  const ExecutorCounters counters = rig.executor->counters();
  CHECK(counters.fills == 6 && counters.accepts == 5 && counters.rollbacks == 1 && counters.iterations == 2);
}

TEST(rows_of_who_is_left_out_do_not_count_till_it_comes_again) {
  ExecutorRig rig(2, 1, 1, kLong);
  const Grammar grammar{8};
  const Path path(grammar, 3);
  rig.executor->submit({{0, std::make_shared<FakeMatcher>(grammar)}, {1, std::make_shared<FakeMatcher>(grammar)}}, {});
  rig.call(0);
  rig.token(0, 0) = rig.token(1, 0) = path.tokens[0];
  rig.call(1);
  const int64_t number = rig.fill_ids[rig.row_index(0, 0)];
  rig.token(1, 1) = path.tokens[1];
  rig.executor->submit({}, {1});
  rig.call(0);
  CHECK(rig.fill_ids[rig.row_index(0, 0)] == 0 && rig.is_guided(1, 0) && rig.is_guided(1, 1));
  rig.num_accepted[1] = -1;
  rig.call(1);
  rig.token(0, 1) = path.tokens[1];
  rig.executor->submit({}, {0, 1});
  rig.call(0);
  CHECK(rig.fill_ids[rig.row_index(0, 0)] == number && rig.row(0, 0) == grammar.row(path.states[1]));
  CHECK(rig.is_guided(0, 1) && rig.row(0, 1) == grammar.row(path.states[2]));
}

TEST(nothing_is_rolled_back_when_all_is_accepted) {
  ExecutorRig rig(1, 2, 1, kLong);
  const Grammar grammar{6};
  const Path path(grammar, 40);
  rig.executor->submit({{0, std::make_shared<FakeMatcher>(grammar)}}, {});
  rig.call(0);
  int length = 0;
  for (int i = 0; i < 10; ++i) {
    for (int node = 0; node <= 1; ++node) {
      rig.token(0, node) = path.tokens[length++];
      rig.call(node + 1);
    }
    rig.token(0, 2) = path.tokens[length++];
    rig.executor->submit({}, {0});
    rig.call(0);
    CHECK(rig.is_guided(0, 2) && rig.row(0, 2) == grammar.row(path.states[length]));
    rig.num_accepted[0] = 2;
  }
  const ExecutorCounters counters = rig.executor->counters();
  CHECK(counters.rollbacks == 0 && counters.max_fills == 3 && counters.max_accepts == 3 && counters.max_rollbacks == 0);
}

TEST(without_drafts_callback_0_takes_the_golden_token) {
  ExecutorRig rig(1, 0, 1, kLong);
  const Grammar grammar{7};
  const Path path(grammar, 5);
  rig.executor->submit({{0, std::make_shared<FakeMatcher>(grammar)}}, {});
  rig.call(0);
  CHECK(rig.row(0, 0) == grammar.row(path.states[0]));
  for (int i = 0; i < 5; ++i) {
    rig.token(0, 0) = path.tokens[i];
    rig.executor->submit({}, {0});
    rig.call(0);
    CHECK(rig.is_guided(0, 0) && rig.row(0, 0) == grammar.row(path.states[i + 1]));
  }
}

TEST(free_slots_cost_nothing) {
  ExecutorRig rig(1, 2, 1, kLong);
  rig.executor->submit({{0, nullptr}}, {});
  rig.call_all();
  rig.executor->submit({}, {0});
  rig.call_all();
  CHECK(!rig.is_guided(0, 0) && rig.held[0] == 0);
  CHECK(rig.executor->counters().iterations == 0 && rig.executor->counters().fills == 0);
  rig.executor->detach(0);
  CHECK(rig.executor->is_idle(0));
}

TEST(an_illegal_draft_stops_the_walk) {
  ExecutorRig rig(1, 3, 1, kLong);
  const Grammar grammar{8};
  const Path path(grammar, 4);
  rig.executor->submit({{0, std::make_shared<FakeMatcher>(grammar)}}, {});
  rig.call(0);
  rig.token(0, 0) = path.tokens[0];
  rig.call(1);
  rig.token(0, 1) = -1;
  rig.call(2);
  rig.token(0, 2) = path.tokens[2];
  rig.call(3);
  CHECK(!rig.is_guided(0, 1) && !rig.is_guided(0, 2));
  rig.executor->submit({}, {0});
  rig.call(0);
  CHECK(rig.is_guided(0, 0) && !rig.is_guided(0, 1) && !rig.is_guided(0, 3) && rig.held[0] == 0);
  rig.num_accepted[0] = 0;
  rig.token(0, 0) = path.tokens[1];
  rig.call(1);
  CHECK(rig.is_guided(0, 0) && rig.row(0, 0) == grammar.row(path.states[2]));
  CHECK(rig.executor->counters().rollbacks == 0);
}

TEST(the_end_token_frees_the_rows_behind_it) {
  for (const bool accepted : {false, true}) {
    ExecutorRig rig(1, 2, 1, kLong);
    auto matcher = std::make_shared<CalledMatcher>();
    matcher->on_accept = [m = matcher.get()](int32_t token) {
      m->terminated = token == fake::kEnd;
      return true;
    };
    rig.executor->submit({{0, matcher}}, {});
    rig.call(0);
    rig.token(0, 0) = 3;
    rig.call(1);
    rig.token(0, 1) = fake::kEnd;
    rig.call(2);
    rig.token(0, 2) = 55;
    CHECK(!rig.is_guided(0, 1));
    rig.executor->submit({}, {0});
    rig.call(0);
    CHECK(rig.is_guided(0, 0) && !rig.is_guided(0, 1) && !rig.is_guided(0, 2) && rig.held[0] == 0);
    rig.num_accepted[0] = accepted ? 2 : 0;
    rig.token(0, 0) = 4;
    rig.call(1);
    CHECK(rig.is_guided(0, 0) == !accepted);
    CHECK(rig.executor->counters().rollbacks == (accepted ? 0 : 1));
    CHECK(!rig.executor->error(0));
    rig.executor->submit({}, {0});
    rig.call(0);
    CHECK(rig.held[0] == 0 && rig.is_guided(0, 0) == !accepted);
  }
}

TEST(errors_end_only_their_own_request) {
  struct Case {
    std::function<void(CalledMatcher&)> spoil;
    int32_t golden;
    const char* message;
  };
  const Case cases[] = {
      {[](CalledMatcher& m) { m.on_accept = [](int32_t) { return false; }; }, 3, "refused token 3, which its row had"},
      {[](CalledMatcher& m) { m.on_accept = [](int32_t) -> bool { throw std::runtime_error("oh"); }; }, 3,
       "the matcher failed after 0 tokens: oh"},
      {[](CalledMatcher& m) { m.on_fill = [](int32_t*) { throw 5; }; }, 3, "the matcher failed after 0 tokens"},
      {[](CalledMatcher&) {}, -1, "the grammar allows no token after 0 tokens"},
      {[](CalledMatcher& m) { m.on_fill = [](int32_t* row) { std::fill(row, row + fake::kWords, 0); }; }, 3,
       "the grammar allows no token after 0 tokens"},
  };
  for (const Case& one : cases) {
    ExecutorRig rig(2, 1, 1, kLong);
    auto bad = std::make_shared<CalledMatcher>();
    one.spoil(*bad);
    rig.executor->submit({{0, bad}, {1, std::make_shared<CalledMatcher>()}}, {});
    rig.call(0);
    rig.token(0, 0) = one.golden;
    rig.token(1, 0) = 1;
    rig.call(1);
    rig.token(0, 1) = rig.token(1, 1) = 1;
    rig.executor->submit({}, {0, 1});
    rig.call_all();
    CHECK(rig.executor->error(0).has_value());
    CHECK_CONTAINS(*rig.executor->error(0), one.message);
    CHECK(rig.held[0] == 1 && !rig.is_guided(0, 0));
    CHECK(!rig.executor->error(1) && rig.held[1] == 0 && rig.is_guided(1, 0));
    rig.executor->check();
    rig.executor->detach(0);
    CHECK(!rig.executor->error(0));
  }
}

TEST(a_verification_that_outruns_the_grammar_is_an_error) {
  ExecutorRig rig(1, 2, 1, kLong);
  rig.executor->submit({{0, std::make_shared<CalledMatcher>()}}, {});
  rig.call(0);
  rig.num_accepted[0] = 1;
  rig.token(0, 0) = 1;
  rig.call(1);
  CHECK_CONTAINS(*rig.executor->error(0), "accepted 1 drafts where the grammar follows 0");
}

TEST(a_step_may_hold_a_slot_itself) {
  ExecutorRig rig(1, 1, 1, kLong);
  const Grammar grammar{13};
  const Path path(grammar, 2);
  rig.executor->submit({{0, std::make_shared<FakeMatcher>(grammar)}}, {});
  rig.call(0);
  rig.num_accepted[0] = -1;
  rig.token(0, 0) = 60;
  rig.call(1);
  rig.executor->submit({}, {0});
  rig.call(0);
  CHECK(rig.is_guided(0, 0) && rig.row(0, 0) == grammar.row(path.states[0]) && rig.held[0] == 0);
  rig.num_accepted[0] = 0;
  rig.token(0, 0) = path.tokens[0];
  rig.call(1);
  CHECK(rig.row(0, 0) == grammar.row(path.states[1]) && !rig.executor->error(0));
}

TEST(what_submit_refuses) {
  ExecutorRig rig(2, 1, 1, kLong);
  GrammarExecutor& executor = *rig.executor;
  const auto refusal = [&](std::vector<GrammarExecutor::Start> started, std::vector<int> continued) {
    return message_of<std::invalid_argument>([&] { executor.submit(started, continued); });
  };
  CHECK_CONTAINS(refusal({{2, nullptr}}, {}), "slot 2 is not in 0 … 1");
  CHECK_CONTAINS(refusal({}, {-1}), "slot -1 is not in");
  CHECK_CONTAINS(refusal({{0, nullptr}, {0, nullptr}}, {}), "named twice");
  CHECK_CONTAINS(refusal({}, {1}), "slot 1 has no request to continue");
  CHECK_CONTAINS(refusal({{1, nullptr, {}, DraftLimits{2, 0, 0}}}, {}), "slot 1 has limits of drafts beyond");
  CHECK_CONTAINS(message_of<std::invalid_argument>([&] { executor.submit({}, {}, DraftLimits{0, 1, 0}); }),
                 "an iteration has limits of drafts beyond");
  executor.submit({{0, nullptr}}, {});
  CHECK_CONTAINS(refusal({{0, nullptr}}, {}), "slot 0 is busy");
}

TEST(an_iteration_without_a_snapshot_is_the_executors_own_error) {
  ExecutorRig rig(1, 1, 1, kLong);
  rig.call_all();
  CHECK_CONTAINS(message_of<EngineError>([&] { rig.executor->check(); }), "without a snapshot");
}

TEST(callbacks_keep_the_executor) {
  std::weak_ptr<GrammarExecutor> executor;
  {
    ExecutorRig rig(1, 1, 1, kLong);
    executor = rig.executor;
    rig.executor.reset();
    CHECK(!executor.expired());
  }
  CHECK(executor.expired());
}
