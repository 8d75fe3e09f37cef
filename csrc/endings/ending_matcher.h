// Owns the guard of outputs that must end in time: it takes out of a matcher's rows the tokens behind which too many
// would be missing to the grammar's end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "endings/automaton.h"
#include "endings/endings.h"
#include "matcher.h"

namespace specguide {

// What a matcher allows, so that the end token is among the first `max_tokens`. Where the automaton does not know the
// text any more, or knows of no way that the matcher goes, it allows what the matcher does.
//
// Where rows are shared the matcher is given tokens as late as can be: for a row that nobody has filled, or what else
// it alone knows. Till then a row that it or another one has filled says what is accepted.
//
// Where a guard takes ways out that the automaton has, ends are `num_spare` tokens farther than it says. Nearer to the
// last token only what is found to end in time is allowed, by the matcher's own rows.
//
// Of free text, which `may_go_on` behind the last token, that one may be any behind which the text may end: an end token
// in its place would tell that nothing was cut off.
//
// The first row goes by bounds where these tell enough; behind it, it waits till the ends are found.
class EndingMatcher final : public Matcher {
 public:
  EndingMatcher(std::shared_ptr<Matcher> inner, std::shared_ptr<Endings> endings, int64_t max_tokens,
                int64_t num_spare = 0, bool may_go_on = false);

  bool accept(int32_t token) override;
  void fill(int32_t* words) override {
    FilledRow row{words};
    refill(row);
  }
  void refill(FilledRow& row) override;
  Answer accept_draft(int32_t token) override;
  Answer refill_draft(FilledRow& row) override;
  void rollback(int n) override;
  bool is_terminated() const override { return inner_->is_terminated(); }
  std::vector<int32_t> forced_tokens() override;
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                        const Spelling& spelling) override;
  void begin_behind(int64_t num_tokens) override { num_before_ = num_tokens; }

  // Number of tokens of an end from here on that is found in time, the end token included; -1 where none is.
  int64_t found_end();

 private:
  static constexpr int kMostRows = 500, kMostTried = 24, kMostFound = 4;

  const Vocabulary& vocabulary() const { return endings_->trie->vocabulary(); }
  bool is_exact() { return knows_ends() && automaton_->network().is_exact(); }
  bool knows_ends();
  int64_t num_left() const { return max_tokens_ - num_before_ - static_cast<int64_t>(tokens_.size()); }
  // Most tokens that may be missing behind the next one, such that the end token is left behind them; behind the last
  // one none, and the end token need not follow where the text may go on.
  int64_t most_missing() const { return may_go_on_ && num_left() == 1 ? 0 : num_left() - 2; }
  Automaton::State here(Automaton::Walk& walk);
  std::optional<Automaton::State> here(const Automaton::Look& look);
  bool copy_seen_row(FilledRow& row);
  std::optional<bool> seen_to_accept(int32_t token);
  bool may_lead_on(int32_t token);
  bool copy_row(FilledRow& row);
  std::optional<bool> known_to_accept(int32_t token);
  void catch_up();
  bool keep_endable(Automaton::Walk& walk, Automaton::State state, int64_t most, int32_t* row);
  void keep_least(int32_t* row);
  bool add_found(int32_t* row, int64_t most);
  bool keep_nearest(int32_t* row, int64_t most);
  int64_t found_end(int& num_rows);

  const std::shared_ptr<Matcher> inner_;
  const std::shared_ptr<Endings> endings_;
  const int64_t max_tokens_, num_spare_;
  const bool may_go_on_;
  Automaton* automaton_ = nullptr;  // null until it is built
  int64_t num_before_ = 0, epoch_ = -1;
  std::vector<int32_t> tokens_;
  size_t num_guessed_ = 0;  // number of the last tokens that were taken by a guess
  size_t num_given_ = 0;  // number of tokens that were given to the matcher
  std::vector<Automaton::State> states_;  // before each token that the automaton has followed, and behind the last
  std::vector<int32_t> row_;
};

}  // namespace specguide
