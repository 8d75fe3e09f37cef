// Chains that the executor extends: forced and looked-up tokens, walks that are late, slots that are held.
#include <map>
#include <thread>

#include "check.h"
#include "executor_rig.h"
#include "ngram_lookup.h"
#include "row.h"

using namespace specguide;
using namespace std::chrono_literals;
using check::message_of;
using Chain = std::vector<int32_t>;

namespace {

constexpr auto kLong = 10s;
constexpr int32_t kAny = -2;

// A language with one sentence, in which some places may be any token below 60.
class SentenceMatcher : public Matcher {
 public:
  explicit SentenceMatcher(Chain sentence) : sentence_(std::move(sentence)) {}
  std::map<size_t, std::chrono::milliseconds> sleep_at;  // in the fill after this many tokens, once

  bool accept(int32_t token) override {
    if (is_terminated() || !allows(token)) return false;
    taken_.push_back(token);
    return true;
  }
  void fill(int32_t* row) override {
    const auto sleep = sleep_at.find(taken_.size());
    if (sleep != sleep_at.end()) {
      std::this_thread::sleep_for(sleep->second);
      sleep_at.erase(sleep);
    }
    std::fill(row, row + fake::kWords, 0);
    for (int32_t token = 0; token < fake::kVocab; ++token) {
      if (allows(token)) set_bit(row, token);
    }
  }
  void rollback(int n) override { taken_.resize(taken_.size() - n); }
  bool is_terminated() const override { return taken_.size() == sentence_.size(); }
  std::vector<int32_t> forced_tokens() override { return {}; }

 private:
  bool allows(int32_t token) const {
    const int32_t here = sentence_[taken_.size()];
    return here == kAny ? token < 60 : token == here;
  }
  const Chain sentence_;
  Chain taken_;
};

std::vector<uint8_t> origins(const ExecutorRig& rig, int slot) {
  const auto first = rig.origins.begin() + slot * rig.num_nodes;
  return {first + 1, first + rig.num_nodes};
}

void start(ExecutorRig& rig, std::shared_ptr<Matcher> matcher, Chain text = {}) {
  std::vector<GrammarExecutor::Start> started;
  started.emplace_back(0, std::move(matcher), std::move(text));
  rig.executor->submit(std::move(started), {});
  rig.call(0);
}

void verify(ExecutorRig& rig, int num_accepted, int32_t golden) {
  rig.num_accepted[0] = num_accepted;
  rig.token(0, 0) = golden;
  rig.call(1);
}

// Sets the model's drafts, from the first on, as far as there is room for them.
void draft_by_model(ExecutorRig& rig, const Chain& drafts) {
  for (size_t i = 0; i < drafts.size(); ++i) {
    if (rig.chain_len[0] + 1 < rig.num_nodes) rig.token(0, rig.chain_len[0] + 1) = drafts[i];
    if (i + 2 < rig.callbacks.size()) rig.call(static_cast<int>(i) + 2);
  }
}

void begin(ExecutorRig& rig) {
  rig.executor->submit({}, {0});
  rig.call(0);
}

}  // namespace

TEST(a_request_has_limits_of_its_own) {
  const Chain sentence{7, kAny, 60, 61, 62, kAny, 63, 64, kAny, 9};
  const auto chain_within = [&](DraftLimits limits, size_t num_behind = 0) {
    ExecutorRig rig(1, {2, 3}, 1, kLong);
    std::vector<GrammarExecutor::Start> started;
    const Chain rest(sentence.begin() + static_cast<int>(num_behind), sentence.end());
    started.emplace_back(0, std::make_shared<SentenceMatcher>(rest), Chain{}, limits);
    rig.executor->submit(std::move(started), {});
    rig.call(0);
    verify(rig, 0, 7);
    draft_by_model(rig, {5, 5});
    return rig.chain(0);
  };
  CHECK((chain_within({2, 3, 0}) == Chain{5, 60, 61, 62}));
  CHECK((chain_within({2, 1, 0}) == Chain{5, 60, 61}));
  CHECK((chain_within({2, 0, 0}) == Chain{5, 5}));
  CHECK((chain_within({1, 3, 0}) == Chain{5}));
  CHECK((chain_within({1, 3, 0}, 1) == Chain{60, 61, 62}));
  CHECK((chain_within({1, 1, 0}, 1) == Chain{60, 61}));
  CHECK((chain_within({0, 2, 0}, 1) == Chain{60, 61}));
  CHECK((chain_within({0, 2, 0}) == Chain{}));
  CHECK((chain_within({0, 0, 0}) == Chain{}));
}

TEST(an_iteration_may_draft_less) {
  ExecutorRig rig(1, {2, 3}, 1, kLong);
  start(rig, std::make_shared<SentenceMatcher>(Chain{7, kAny, 60, 61, kAny, 63, kAny, kAny, kAny, 9}));
  verify(rig, 0, 7);
  draft_by_model(rig, {5});
  CHECK((rig.chain(0) == Chain{5, 60, 61}));

  const auto begin_within = [&](DraftLimits limits) {
    rig.executor->submit({}, {0}, limits);
    rig.call(0);
  };
  begin_within({0, 0, 0});  // nothing is drafted: callback 0 is the only one
  CHECK(rig.is_guided(0, 3));
  rig.num_accepted[0] = 3;
  rig.token(0, 0) = 5;
  begin_within({2, 0, 0});  // the golden token was left to it, and only the model drafts
  CHECK(rig.chain(0).empty() && rig.is_guided(0, 0) && !rig.is_guided(0, 1) && !rig.held[0]);
  verify(rig, 0, 63);
  draft_by_model(rig, {6, 8});
  CHECK(rig.chain_len[0] == 1 && rig.is_guided(0, 1));
  begin(rig);  // this one takes the last draft
  CHECK((origins(rig, 0) == std::vector<uint8_t>{1, 1, 0, 0, 0}) && rig.is_guided(0, 2));
  verify(rig, 2, 8);
  CHECK(rig.chain_len[0] == 0 && !rig.executor->error(0));
}

TEST(forced_tokens_behind_the_last_draft_but_one_take_the_last_ones_place) {
  ExecutorRig rig(1, {3, 4}, 1, kLong);
  start(rig, std::make_shared<SentenceMatcher>(Chain{kAny, 1, kAny, 2, 3, 4, kAny, kAny, kAny, 5, 6}));
  verify(rig, 0, 50);
  CHECK(rig.chain(0).empty() && rig.chain_len[0] == 0 && rig.is_guided(0, 0));  // the model drafts what follows
  draft_by_model(rig, {1, 51});
  CHECK(rig.chain(0) == (Chain{1, 51, 2, 3, 4}) && rig.chain_len[0] == 7 && rig.is_guided(0, 2));
  CHECK((origins(rig, 0) == std::vector<uint8_t>{1, 1, 2, 2, 2, 0, 0}));
  begin(rig);
  for (int node = 0; node <= 5; ++node) CHECK(rig.is_guided(0, node));
  verify(rig, 4, 4);  // four of them; the golden token is what was the fifth
  CHECK(rig.chain(0).empty() && rig.chain_len[0] == 0 && (origins(rig, 0) == std::vector<uint8_t>(7, 0)));
  CHECK(rig.executor->counters().rollbacks == 1 && !rig.executor->error(0));
  draft_by_model(rig, {52, 53, 54});
  CHECK(rig.chain(0) == (Chain{52, 53, 54}) && rig.chain_len[0] == 2);  // nobody waits for what the last one forces
  begin(rig);
  verify(rig, 3, 5);
  CHECK(!rig.executor->error(0));
}

TEST(forced_tokens_behind_one_draft_follow_the_golden_token) {
  ExecutorRig rig(1, {1, 3}, 1, kLong);
  start(rig, std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, 3, 4, 5, 6, 7, 8}));
  verify(rig, 0, 50);
  CHECK(rig.chain(0) == (Chain{1, 2, 3, 4}) && rig.chain_len[0] == 4);
  begin(rig);
  verify(rig, 4, 5);
  CHECK(rig.chain(0) == (Chain{6, 7, 8}) && !rig.executor->error(0));
}

TEST(a_draft_that_the_grammar_refuses_forces_nothing) {
  ExecutorRig rig(1, {2, 3}, 1, kLong);
  auto matcher = std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, 3});
  start(rig, matcher);
  verify(rig, 0, 50);
  draft_by_model(rig, {-1, -1});
  CHECK(rig.chain(0).empty());
  begin(rig);
  verify(rig, 0, 1);
  CHECK(!rig.executor->error(0));
}

TEST(the_end_may_be_inside_a_forced_span) {
  for (const int num_accepted : {2, 3, 1}) {
    ExecutorRig rig(1, {0, 5}, 1, kLong);
    start(rig, std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, fake::kEnd}));
    verify(rig, 0, 50);
    CHECK(rig.chain(0) == (Chain{1, 2, fake::kEnd}));
    begin(rig);
    CHECK(rig.is_guided(0, 2) && !rig.is_guided(0, 3) && rig.held[0] == 0);
    verify(rig, num_accepted, num_accepted == 3 ? 7 : num_accepted == 2 ? fake::kEnd : 2);
    CHECK(!rig.executor->error(0) && rig.chain(0) == (num_accepted == 1 ? Chain{fake::kEnd} : Chain{}));
    begin(rig);
    CHECK(rig.is_guided(0, 0) == (num_accepted == 1) && rig.held[0] == 0);
  }
}

TEST(a_held_slot_keeps_its_chain) {
  ExecutorRig rig(1, {0, 3}, 1, kLong);
  start(rig, std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, kAny}));
  verify(rig, 0, 50);
  begin(rig);
  verify(rig, -1, 60);
  CHECK(rig.chain(0) == (Chain{1, 2}) && rig.chain_len[0] == 2);
  begin(rig);
  verify(rig, 2, 51);
  CHECK(!rig.executor->error(0) && rig.chain(0).empty());
}

TEST(a_late_walk_has_no_tail_and_goes_back_for_the_draft) {
  for (const int32_t guess : {1, 40}) {
    ExecutorRig rig(1, {1, 3}, 1, GrammarExecutor::Waits{30ms, 30ms, 30ms});
    auto matcher = std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, kAny, kAny});
    matcher->sleep_at[3] = 300ms;  // after the second forced token
    start(rig, matcher);
    for (int i = 0; i < 1000 && rig.held[0] == 1; ++i) begin(rig);
    verify(rig, 0, 50);
    CHECK(rig.chain(0).empty() && rig.chain_len[0] == 0 && !rig.is_guided(0, 0));
    std::this_thread::sleep_for(500ms);
    draft_by_model(rig, {guess});
    CHECK(rig.chain(0) == Chain{guess});
    begin(rig);
    CHECK(rig.held[0] == 0 && rig.is_guided(0, 0) && rig.is_guided(0, 1) == (guess == 1));
    if (guess == 1) {
      verify(rig, 1, 2);
    } else {
      verify(rig, 0, 1);
    }
    CHECK(!rig.executor->error(0) && rig.executor->counters().late_draft_rows >= 1);
  }
}

TEST(what_came_too_late_for_the_target_is_taken_back) {
  ExecutorRig rig(1, {0, 3}, 1, GrammarExecutor::Waits{30ms, 30ms, 30ms});
  auto matcher = std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, kAny, 3});
  matcher->sleep_at[2] = 200ms;
  start(rig, matcher);
  for (int i = 0; i < 1000 && rig.held[0] == 1; ++i) begin(rig);
  verify(rig, 0, 50);
  CHECK(rig.chain(0).empty());
  std::this_thread::sleep_for(400ms);
  begin(rig);
  CHECK(rig.held[0] == 0 && rig.is_guided(0, 0));
  verify(rig, 0, 1);
  CHECK(rig.chain(0) == (Chain{2}) && !rig.executor->error(0));
}

TEST(a_walk_whose_proposals_were_late_is_waited_for_beside_the_target) {
  ExecutorRig rig(1, {0, 3}, 1, GrammarExecutor::Waits{kLong, kLong, 50ms});
  auto matcher = std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, kAny, 3});
  matcher->sleep_at[2] = 300ms;
  start(rig, matcher);
  rig.needed = 2;  // the forward stream is waiting
  verify(rig, 0, 50);
  CHECK(rig.chain(0).empty());
  rig.needed = 0;
  begin(rig);
  CHECK(rig.held[0] == 0 && rig.is_guided(0, 0) && rig.executor->counters().held == 0);
}

TEST(a_tail_is_waited_for_as_long_as_it_may_gain_more_than_it_costs) {
  for (const int num_slow : {1, 4}) {  // of four, in iterations of 100 ms or more
    ExecutorRig rig(4, {0, 3}, 4, GrammarExecutor::Waits{kLong, kLong, {}});
    std::vector<GrammarExecutor::Start> started;
    for (int slot = 0; slot < 4; ++slot) {
      auto matcher = std::make_shared<SentenceMatcher>(Chain{kAny, 1, 2, kAny, 3});
      if (slot < num_slow) matcher->sleep_at[2] = 60ms;
      started.emplace_back(slot, std::move(matcher), Chain{});
    }
    rig.executor->submit(std::move(started), {});
    rig.call(0);
    std::this_thread::sleep_for(100ms);
    rig.executor->submit({}, {0, 1, 2, 3});
    rig.call(0);  // now the duration of an iteration is known
    for (int slot = 0; slot < 4; ++slot) rig.token(slot, 0) = 50;
    rig.needed = 2;
    rig.call(1);
    int num_proposed = 0;
    for (int slot = 0; slot < 4; ++slot) num_proposed += rig.chain(slot) == Chain{1, 2};
    CHECK(num_slow == 4 ? num_proposed > 0 : num_proposed == 3 && rig.chain(0).empty());
  }
}

TEST(a_free_slot_has_the_drafters_chain_alone) {
  ExecutorRig rig(1, {2, 3}, 1, kLong);
  start(rig, nullptr);
  verify(rig, 0, 5);
  CHECK(rig.chain_len[0] == 0 && !rig.is_guided(0, 0));
  draft_by_model(rig, {6, 7});
  CHECK((rig.chain(0) == Chain{6, 7}) && rig.chain_len[0] == 1 && !rig.is_guided(0, 1));
  begin(rig);
  verify(rig, 2, 8);
  CHECK(rig.chain(0).empty() && rig.chain_len[0] == 0);
}

TEST(lookups_stop_where_the_grammar_refuses_and_forced_tokens_go_first) {
  const Chain text{10, 11, 12, 13, 61};
  for (const bool is_guided : {false, true}) {
    ExecutorRig rig(1, {0, 2, 4, std::make_shared<NgramSource>(1, 3)}, 1, kLong);
    std::shared_ptr<Matcher> matcher;
    if (is_guided) matcher = std::make_shared<SentenceMatcher>(Chain{kAny, kAny, 12, kAny, kAny, kAny});
    start(rig, matcher, text);
    verify(rig, 0, 10);
    CHECK(rig.chain(0) == (is_guided ? Chain{11, 12, 13} : Chain{11, 12, 13, 61}));  // 61 is not allowed
    const auto expected = is_guided ? std::vector<uint8_t>{3, 2, 3, 0, 0, 0} : std::vector<uint8_t>{3, 3, 3, 3, 0, 0};
    CHECK(origins(rig, 0) == expected);
    begin(rig);
    CHECK(rig.held[0] == 0);
    verify(rig, 2, 30);
    CHECK(rig.chain(0).empty());  // 12, 30 never occurred
    begin(rig);
    verify(rig, 0, 10);
    CHECK(rig.chain(0)[0] == 11 && !rig.executor->error(0));
  }
}

TEST(what_the_constructor_refuses) {
  const auto refusal = [](DraftShape shape) {
    return message_of<std::invalid_argument>([&] { ExecutorRig(1, shape, 1, kLong); });
  };
  CHECK_CONTAINS(refusal({1, -1}), "num_forced_tokens");
  CHECK_CONTAINS(refusal({0, 0, 2}), "num_lookup_tokens");
  CHECK_CONTAINS(refusal({1, 0, 2, std::make_shared<NgramSource>(1, 3)}), "without a draft model");
}
