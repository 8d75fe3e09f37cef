// Owns the guard of outputs that must end in time: from a matcher's rows it removes the tokens behind which too many
// tokens would be missing to the grammar's end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "endings/automaton.h"
#include "endings/endings.h"
#include "matcher.h"

namespace specguide {

// What a matcher allows, restricted so that the end token is among the first `max_tokens`. If the automaton has lost
// track of the text, or knows no way that the matcher allows, everything that the matcher allows is allowed.
//
// If rows are shared, the inner matcher is given tokens as late as possible: when a row is needed that nobody has
// filled, or something else that only it knows. Until then a row that it or another matcher has filled says what is
// accepted.
//
// If a guard removes ways to end that the automaton has, ends are `num_spare` tokens farther than the automaton says.
// Near the last token only those tokens are allowed for which an end in time was found with the matcher's own rows.
//
// If free text may go on behind the last token (`may_go_on`), that token may be any one behind which the text may end:
// an end token in its place would wrongly say that nothing was cut off.
//
// The first row uses bounds if these are enough; later rows wait until the ends have been computed.
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

  // Number of tokens to an end from here that was found in time, the end token included; -1 if there is none.
  int64_t found_end();

 private:
  static constexpr int kMostRows = 500, kMostTried = 24, kMostFound = 4;

  const Vocabulary& vocabulary() const { return endings_->trie->vocabulary(); }
  bool is_exact() { return knows_ends() && automaton_->network().is_exact(); }
  bool knows_ends();
  int64_t num_left() const { return max_tokens_ - num_before_ - static_cast<int64_t>(tokens_.size()); }
  // Most tokens that may be missing behind the next one so that the end token still fits after them. Behind the last
  // token it is none, and no end token need follow if the text may go on.
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
  size_t num_guessed_ = 0;  // number of the last tokens that were accepted by a guess
  size_t num_given_ = 0;  // number of tokens that the inner matcher has been given
  std::vector<Automaton::State> states_;  // before each token that the automaton has followed, and after the last
  std::vector<int32_t> row_;
};

}  // namespace specguide
