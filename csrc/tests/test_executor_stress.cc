// The executor with a simulated device for thousands of iterations: matchers that sleep, throw, refuse and reach dead
// ends, texts that end, slots that change hands while callbacks run. Every valid row is recomputed, every text is
// compared with plain decoding, and the matcher calls are counted.
#include <map>
#include <random>
#include <string>

#include "check.h"
#include "executor_rig.h"
#include "host_stream.h"
#include "ngram_lookup.h"
#include "stress_request.h"
#include "suffix_lookup.h"

using namespace specguide;
using namespace std::chrono_literals;
using fake::FakeMatcher;
using fake::GuessingMatcher;

namespace {

constexpr int kSlots = 8, kMaxTokens = 60;

class Simulation {
 public:
  Simulation(uint64_t seed, DraftShape shape, int num_threads, GrammarExecutor::Waits waits, bool has_guesses,
             bool has_restarts)
      : random_(seed),
        shape_(shape),
        rig_(kSlots, shape, num_threads, waits),
        slots_(kSlots),
        has_guesses_(has_guesses),
        has_restarts_(has_restarts) {}

  void run(int num_iterations) {
    HostStream grammar_stream("grammar");
    CallerStream forward_stream("forward");
    HostEvent tokens_ready("tokens ready"), needed_reset("needed reset"), rows_ready("rows ready");
    const auto callback = [&](int index) {
      forward_stream.record(tokens_ready);
      grammar_stream.wait(tokens_ready);
      if (index == 0) grammar_stream.write_value(unowned(&rig_.needed), 0);
      grammar_stream.record(needed_reset);
      grammar_stream.launch(rig_.callbacks[index]);
      grammar_stream.record(rows_ready);
      if (index == 0) leave_some();  // while the callback runs
      forward_stream.wait(needed_reset);
      forward_stream.write_value(unowned(&rig_.needed), index + 1);
      forward_stream.wait(rows_ready);
    };
    for (int i = 0; i < num_iterations; ++i) {
      submit();
      callback(0);
      verify();
      for (int draft = 1; draft <= shape_.num_drafts; ++draft) {
        callback(draft);
        place_drafts(draft);
      }
      if (shape_.num_drafts == 0 && shape_.has_proposals()) callback(1);
      read_results();
    }
    for (int slot = 0; slot < kSlots; ++slot) leave(slot);
    grammar_stream.synchronize(60s);
    rig_.executor->check();
    check_counters();
  }

  int num_finished = 0, num_failed = 0, num_verified = 0;
  int num_saved = 0;  // finished although their matchers failed
  int num_kept = 0;  // rows that were still kept when they were needed

 private:
  bool roll(int in) { return std::uniform_int_distribution<int>(1, in)(random_) == 1; }

  std::shared_ptr<Request> new_request() {
    auto request = std::make_shared<Request>();
    request->grammar.seed = random_();
    request->states.push_back(request->grammar.start());
    request->is_free = roll(6);
    if (roll(4)) request->behaviour = {10, 1500, 0, 0};
    if (roll(has_restarts_ ? 2 : 6)) request->behaviour.throw_at = 1 + static_cast<int>(random_() % 120);
    if (roll(6)) request->behaviour.refuse_at = 1 + static_cast<int>(random_() % 60);
    if (roll(6)) request->grammar.dead_end_in = 20;
    if (!roll(3)) request->grammar.forced_in = 2;
    if (roll(2)) request->grammar.num_states = 40;
    return request;
  }

  void submit() {
    std::vector<GrammarExecutor::Start> started;
    std::vector<int> continued;
    in_iteration_.assign(kSlots, nullptr);
    for (int slot = 0; slot < kSlots; ++slot) {
      if (slots_[slot]) {
        if (roll(10)) continue;  // sits this iteration out
        continued.push_back(slot);
      } else {
        if (!rig_.executor->is_idle(slot) || roll(3)) continue;
        check_untouched(slot);
        slots_[slot] = new_request();
        const Request& request = *slots_[slot];
        started.emplace_back(slot, request.is_free ? nullptr : new_matcher(request), Text{}, std::nullopt,
                             has_restarts_ ? restart_of(slots_[slot]) : nullptr);
        for (int node = 0; node < rig_.num_nodes; ++node) rig_.token(slot, node) = -1;
        rig_.chain_len[slot] = 0;
      }
      in_iteration_[slot] = slots_[slot];
    }
    rig_.executor->submit(started, continued);
  }

  std::shared_ptr<FakeMatcher> new_matcher(const Request& request) const {
    if (has_guesses_) return std::make_shared<GuessingMatcher>(request.grammar, request.behaviour);
    return std::make_shared<FakeMatcher>(request.grammar, request.behaviour);
  }

  Walk::Restart restart_of(const std::shared_ptr<Request>& request) const {
    return [this, request](const Text& tokens) {
      Request anew;
      anew.grammar = request->grammar;
      auto matcher = new_matcher(anew);
      CHECK(matcher->accept_all(tokens.data(), tokens.size()));
      ++request->num_restarts;
      return matcher;
    };
  }

  // Overwrites the rows of an idle slot; a later write by anyone else is noticed when the slot starts again.
  void check_untouched(int slot) {
    for (int node = 0; node < rig_.num_nodes; ++node) {
      if (scribbled_[slot]) CHECK(rig_.row(slot, node) == fake::Row(fake::kWords, kScribble));
    }
  }

  void leave(int slot) {
    if (!slots_[slot]) return;
    rig_.executor->detach(slot);
    slots_[slot] = nullptr;
    scribbled_[slot] = false;
    for (int i = 0; i < 10000 && roll(2) && !rig_.executor->is_idle(slot); ++i) std::this_thread::sleep_for(1ms);
    if (!rig_.executor->is_idle(slot)) return;
    for (int node = 0; node < rig_.num_nodes; ++node) {
      std::fill_n(rig_.rows.begin() + rig_.row_index(slot, node) * fake::kWords, fake::kWords, kScribble);
    }
    scribbled_[slot] = true;
  }

  void leave_some() {
    for (int slot = 0; slot < kSlots; ++slot) {
      if (roll(150)) leave(slot);
    }
  }

  bool is_here(int slot) const { return in_iteration_[slot] && in_iteration_[slot] == slots_[slot]; }

  // Copies a row as the step does: if its number differs from before, and with positive numbers also for later reuse.
  void take(int slot, int node) {
    auto& [fill_id, copy] = taken_[rig_.row_index(slot, node)];
    const int64_t found = rig_.fill_ids[rig_.row_index(slot, node)];
    if (found != fill_id && found < 0) copy = rig_.row(slot, node);
    if (found != fill_id && found > 0) {
      auto& kept = kept_[found % rig_.num_kept_rows()];
      num_kept += kept.first == found;
      if (kept.first != found) kept = {found, rig_.row(slot, node)};
      copy = kept.second;
    }
    CHECK(copy == rig_.row(slot, node));
    fill_id = found;
  }

  // The row of a node as the kernels see it: null if it is free.
  const int32_t* seen_row(int slot, int node) {
    if (!rig_.is_guided(slot, node)) return nullptr;
    take(slot, node);
    return rig_.rows.data() + rig_.row_index(slot, node) * fake::kWords;
  }

  void check_row(const Request& request, int slot, int node, uint64_t state) {
    if (!is_here(slot)) return;
    const bool counts = !request.is_free && !request.has_ended();
    const bool is_empty = rig_.is_guided(slot, node) && rig_.row(slot, node) == fake::Row(fake::kWords);
    if (is_empty && request.num_restarts > 0) return;  // behind the draft at which the matcher failed
    CHECK(rig_.is_guided(slot, node) == counts);
    if (!counts) return;
    take(slot, node);
    CHECK(rig_.row(slot, node) == request.grammar.row(state));
  }

  void verify() {
    for (int slot = 0; slot < kSlots; ++slot) {
      if (!is_here(slot)) continue;
      Request& request = *slots_[slot];
      rig_.num_accepted[slot] = -1;
      if (rig_.held[slot] == 1) continue;
      if (roll(20)) continue;  // the step itself holds the slot
      int num_accepted = 0;
      while (true) {
        const uint64_t state = request.states.back();
        check_row(request, slot, num_accepted, state);
        const int32_t chosen = fake::choose(state, seen_row(slot, num_accepted));
        if (num_accepted + 1 < rig_.num_nodes && chosen >= 0 && rig_.token(slot, num_accepted + 1) == chosen) {
          request.append(chosen);
          ++num_accepted;
          continue;
        }
        rig_.token(slot, 0) = chosen;
        if (chosen >= 0) request.append(chosen);
        break;
      }
      rig_.num_accepted[slot] = num_accepted;
      num_verified += num_accepted;
    }
  }

  void place_drafts(int draft) {
    for (int slot = 0; slot < kSlots; ++slot) {
      if (!is_here(slot) || rig_.num_accepted[slot] < 0) continue;
      const Request& request = *slots_[slot];
      const int chain_len = shape_.has_proposals() ? rig_.chain_len[slot] : draft - 1;
      if (chain_len + 1 == rig_.num_nodes) continue;
      uint64_t state = request.states.back();
      for (int node = 1; node <= chain_len; ++node) state = request.grammar.next(state, rig_.token(slot, node));
      if (shape_.has_proposals()) check_none_behind(request, slot, chain_len);
      const int32_t* row = seen_row(slot, chain_len);
      int32_t token = fake::choose(roll(3) ? random_() : state, row);  // a drafter that is right two times out of three
      if (roll(30)) token = -1;
      rig_.token(slot, chain_len + 1) = token;
    }
  }

  void check_none_behind(const Request& request, int slot, int chain_len) {
    for (int node = chain_len + 1; node < rig_.num_nodes; ++node) {
      CHECK(rig_.token(slot, node) == -1 || request.has_ended() || rig_.executor->error(slot));
    }
  }

  void read_results() {
    for (int slot = 0; slot < kSlots; ++slot) {
      if (!is_here(slot)) continue;
      const Request& request = *slots_[slot];
      const std::optional<std::string> error = rig_.executor->error(slot);
      if (error && !request.may_fail()) throw std::logic_error("an innocent request failed: " + *error);
      if (!request.is_free && !request.grammar.dead_end_in) {
        CHECK(request.text == decode_plainly(request.grammar, request.text.size()));
      }
      const bool is_done = error || request.has_ended() || static_cast<int>(request.text.size()) > kMaxTokens;
      if (!is_done || roll(2)) continue;  // the host lags
      error ? ++num_failed : ++num_finished;
      num_saved += !error && request.num_restarts > 0;
      leave(slot);
    }
  }

  void check_counters() const {
    const ExecutorCounters counters = rig_.executor->counters();
    const int num_nodes = rig_.num_nodes;
    CHECK((counters.guessed_draft_rows > 0) == has_guesses_);
    if (!shape_.has_proposals() && !has_guesses_ && !has_restarts_) {  // else tokens may be walked twice
      CHECK(counters.max_fills <= num_nodes && counters.max_accepts <= num_nodes && counters.max_rollbacks <= 1);
      CHECK(counters.fills <= counters.iterations * num_nodes);
    }
    CHECK(counters.iterations > 0 && counters.busy_ns > 0 && counters.callback_ns > 0);
  }

  static constexpr int32_t kScribble = 0x5c5c5c5c;

  std::mt19937_64 random_;
  const DraftShape shape_;
  ExecutorRig rig_;
  std::vector<std::shared_ptr<Request>> slots_, in_iteration_;
  std::map<int, std::pair<int64_t, fake::Row>> taken_;     // by row: its number, and the copy
  std::map<int64_t, std::pair<int64_t, fake::Row>> kept_;  // by place
  const bool has_guesses_, has_restarts_;
  std::vector<bool> scribbled_ = std::vector<bool>(kSlots, false);
};

void simulate(uint64_t seed, int num_threads, GrammarExecutor::Waits waits, DraftShape shape = 3,
              bool has_guesses = false, bool has_restarts = false) {
  const int alive = FakeMatcher::num_alive;
  {
    Simulation simulation(seed, shape, num_threads, waits, has_guesses, has_restarts);
    simulation.run(stress_iterations());
    CHECK(simulation.num_finished > 0 && simulation.num_failed > 0 && simulation.num_kept > 0);
    CHECK((simulation.num_saved > 0) == has_restarts);
    std::printf("        %d finished, %d failed, %d saved, %d drafts accepted, %d rows kept\n",
                simulation.num_finished, simulation.num_failed, simulation.num_saved, simulation.num_verified,
                simulation.num_kept);
  }
  CHECK(FakeMatcher::num_alive == alive);
}

}  // namespace

TEST(one_thread_and_a_short_deadline) { simulate(1, 1, {700us, 700us, 700us}); }
TEST(three_threads_and_a_short_deadline) { simulate(2, 3, {700us, 30us, 700us}); }
TEST(two_threads_and_a_long_deadline) { simulate(3, 2, {1s, 1s, 1s}); }
TEST(a_deadline_that_everything_misses) { simulate(4, 2, {1us, 1us, 1us}); }
TEST(drafts_that_wait_for_no_row) { simulate(5, 2, {1s, 0us, 1s}); }
TEST(a_target_that_waits_for_its_share_of_an_iteration) { simulate(6, 3, {1s, 30us, {}}); }
TEST(a_target_that_waits_for_no_row) { simulate(7, 2, {1s, 1s, 0us}); }

TEST(guesses) { simulate(15, 3, {1s, 0us, 1s}, 3, true); }
TEST(guesses_and_a_short_deadline) { simulate(16, 2, {700us, 30us, {}}, 3, true); }

TEST(matchers_that_are_made_anew) { simulate(17, 2, {1s, 1s, 1s}, 3, false, true); }
TEST(matchers_that_are_made_anew_late) { simulate(18, 3, {700us, 30us, {}}, {3, 4}, false, true); }
TEST(matchers_that_guess_and_are_made_anew) { simulate(19, 3, {1s, 0us, 1s}, 3, true, true); }

TEST(forced_drafts_alone) { simulate(8, 2, {1s, 1s, 1s}, {0, 4}); }
TEST(forced_drafts_and_a_drafter) { simulate(9, 2, {1s, 1s, 1s}, {3, 4}); }
TEST(forced_drafts_that_come_late) { simulate(10, 3, {1s, 30us, {}}, {3, 4}); }
TEST(forced_drafts_that_everything_misses) { simulate(11, 2, {1us, 1us, 1us}, {2, 3}); }
TEST(forced_drafts_and_a_short_deadline) { simulate(12, 2, {700us, 30us, 700us}, {3, 4}); }
TEST(prompt_lookup) { simulate(13, 2, {700us, 30us, {}}, {0, 0, 4, std::make_shared<NgramSource>(1, 3)}); }
TEST(suffix_drafting_and_forced_drafts) {
  simulate(14, 3, {700us, 30us, {}}, {0, 3, 4, std::make_shared<SuffixSource>(8, 5000, 0.2)});
}
