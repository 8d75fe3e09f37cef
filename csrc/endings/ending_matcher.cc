#include "endings/ending_matcher.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "row.h"

namespace specguide {

EndingMatcher::EndingMatcher(std::shared_ptr<Matcher> inner, std::shared_ptr<Endings> endings, int64_t max_tokens,
                             int64_t num_spare, bool may_go_on)
    : inner_(std::move(inner)),
      endings_(std::move(endings)),
      max_tokens_(max_tokens),
      num_spare_(num_spare),
      may_go_on_(may_go_on) {
  if (!inner_ || !endings_) {
    throw std::invalid_argument("an output that must end needs a matcher and the grammar's ends");
  }
  if (max_tokens < 1) throw std::invalid_argument("max_tokens must be at least 1");
}

bool EndingMatcher::accept(int32_t token) {
  const std::optional<bool> known = known_to_accept(token);
  if (!known) {
    catch_up();
    if (!inner_->accept(token)) return false;
    ++num_given_;
  } else if (!*known) {
    return false;
  }
  tokens_.push_back(token);
  return true;
}

std::optional<bool> EndingMatcher::known_to_accept(int32_t token) {
  if (!is_exact() || !vocabulary().is_text(token) || inner_->is_terminated()) return std::nullopt;
  if (const std::optional<bool> seen = seen_to_accept(token)) return seen;
  Automaton::Walk walk(*automaton_);
  const Automaton::State state = here(walk);
  if (state == Automaton::kDead) return std::nullopt;
  return walk.allows(state, token, vocabulary().token_bytes[static_cast<size_t>(token)].size());
}

// Whether a token is accepted, according to a row that is kept for the text's state.
std::optional<bool> EndingMatcher::seen_to_accept(int32_t token) {
  const Automaton::Look look(*automaton_);
  const std::optional<Automaton::State> state = here(look);
  if (!state || *state == Automaton::kDead) return std::nullopt;
  return look.allows(*state, token);
}

// If no row tells, the automaton answers. That is a guess: it may allow what the matcher refuses.
Matcher::Answer EndingMatcher::accept_draft(int32_t token) {
  const bool may_guess = is_exact() && vocabulary().is_text(token) && !inner_->is_terminated();
  const std::optional<bool> known = may_guess ? known_to_accept(token) : std::nullopt;
  if (num_guessed_ == 0 && (known || !may_guess)) return accept(token) ? Answer::kYes : Answer::kNo;
  if (!may_guess || !known.value_or(may_lead_on(token))) return Answer::kNoByGuess;
  tokens_.push_back(token);
  ++num_guessed_;
  return Answer::kYesByGuess;
}

bool EndingMatcher::may_lead_on(int32_t token) {
  Automaton::Walk walk(*automaton_);
  const Automaton::State state = here(walk);
  return walk.step(state, vocabulary().token_bytes[static_cast<size_t>(token)]) != Automaton::kDead;
}

Matcher::Answer EndingMatcher::refill_draft(FilledRow& row) {
  const bool is_shared = is_exact() && !inner_->is_terminated();
  if (is_shared && copy_seen_row(row)) return num_guessed_ == 0 ? Answer::kYes : Answer::kYesByGuess;
  if (is_shared) {
    Automaton::Walk walk(*automaton_);
    const Automaton::State state = here(walk);
    if (state != Automaton::kDead && walk.copy_like_row(state, row)) return Answer::kYesByGuess;
  }
  if (num_guessed_ > 0) return Answer::kNoByGuess;
  refill(row);
  return Answer::kYes;
}

void EndingMatcher::catch_up() {
  if (num_guessed_ > 0) throw std::logic_error("tokens that were taken by a guess must be rolled back");
  if (num_given_ == tokens_.size()) return;
  if (!inner_->accept_all(tokens_.data() + num_given_, tokens_.size() - num_given_)) {
    throw std::runtime_error("it refuses a token that its row had allowed");
  }
  num_given_ = tokens_.size();
}

void EndingMatcher::rollback(int n) {
  if (n < 0 || static_cast<size_t>(n) > tokens_.size()) {
    throw std::invalid_argument("rollback of " + std::to_string(n) + " tokens, " + std::to_string(tokens_.size()) +
                                " were accepted");
  }
  const size_t num_left = tokens_.size() - static_cast<size_t>(n);
  if (num_given_ > num_left) {
    inner_->rollback(static_cast<int>(num_given_ - num_left));
    num_given_ = num_left;
  }
  tokens_.resize(num_left);
  num_guessed_ -= std::min(num_guessed_, static_cast<size_t>(n));
  if (states_.size() > tokens_.size() + 1) states_.resize(tokens_.size() + 1);
}

bool EndingMatcher::knows_ends() {
  if (automaton_ == nullptr) automaton_ = endings_->known();
  return automaton_ != nullptr;
}

void EndingMatcher::refill(FilledRow& row) {
  if (!knows_ends()) {
    const bool can_wait = tokens_.empty() && endings_->all_endable(most_missing() - num_spare_);
    if (can_wait || inner_->is_terminated() || endings_->automaton() == nullptr) {
      catch_up();
      return inner_->refill(row);
    }
    knows_ends();
  }
  const bool is_shared = is_exact() && !inner_->is_terminated();
  if (is_shared && copy_seen_row(row)) return;
  const bool is_known = is_shared && copy_row(row);
  if (!is_known) {
    catch_up();
    inner_->refill(row);
  }
  const int64_t most = most_missing();
  {
    Automaton::Walk walk(*automaton_);
    const Automaton::State state = here(walk);
    if (state == Automaton::kDead) return;
    if (is_shared && !is_known) walk.keep_row(state, row, static_cast<size_t>(vocabulary().num_words()));
    if (walk.all_endable(state, most - num_spare_)) return;
    row.content = 0;
    row_.assign(row.words, row.words + vocabulary().num_words());
    if (keep_endable(walk, state, most - num_spare_, row.words) && num_spare_ == 0) return;
  }
  if (num_spare_ == 0 || !add_found(row.words, most)) keep_least(row.words);
}

// Copies the row of the text's state, if the text may end in time behind all tokens of that row.
bool EndingMatcher::copy_seen_row(FilledRow& row) {
  const Automaton::Look look(*automaton_);
  const std::optional<Automaton::State> state = here(look);
  if (!state || *state == Automaton::kDead || !look.copy_row(*state, most_missing(), row)) return false;
  endings_->num_shared.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Copies the row that was filled for another text which continues alike; false if there is none.
bool EndingMatcher::copy_row(FilledRow& row) {
  Automaton::Walk walk(*automaton_);
  const Automaton::State state = here(walk);
  if (state == Automaton::kDead || !walk.copy_row(state, *endings_->trie, row)) return false;
  endings_->num_shared.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Leaves in `row` the tokens behind which at most `most` are missing, and the end tokens of row_; false if none is
// left.
bool EndingMatcher::keep_endable(Automaton::Walk& walk, Automaton::State state, int64_t most, int32_t* row) {
  walk.keep_endable(state, *endings_->trie, most, row);
  for (const int32_t end : vocabulary().eos_token_ids) {
    if (has_bit(row_.data(), end)) set_bit(row, end);
  }
  return !is_empty(row, static_cast<size_t>(vocabulary().num_words()));
}

// Writes to `row` the tokens of row_ with the nearest end behind them. No way that the matcher allows ends in time, and
// these exceed the limit the least.
void EndingMatcher::keep_least(int32_t* row) {
  std::copy(row_.begin(), row_.end(), row);
  keep_nearest(row, Network::kNever - 1);
}

// The state after all tokens; it advances by those that have come since the last call.
Automaton::State EndingMatcher::here(Automaton::Walk& walk) {
  if (epoch_ != walk.epoch()) {
    states_.assign(1, walk.start());
    epoch_ = walk.epoch();
  }
  while (states_.size() <= tokens_.size()) {
    const int32_t token = tokens_[states_.size() - 1];
    const bool is_text = vocabulary().is_text(token);
    states_.push_back(is_text ? walk.step(states_.back(), vocabulary().token_bytes[static_cast<size_t>(token)])
                              : Automaton::kDead);
  }
  return states_.back();
}

// None if no walk, of this text or another one, has been here.
std::optional<Automaton::State> EndingMatcher::here(const Automaton::Look& look) {
  if (epoch_ != look.epoch()) return std::nullopt;
  while (states_.size() <= tokens_.size()) {
    const int32_t token = tokens_[states_.size() - 1];
    const bool is_text = vocabulary().is_text(token);
    const std::string_view bytes = is_text ? vocabulary().token_bytes[static_cast<size_t>(token)] : std::string_view{};
    const std::optional<Automaton::State> next = is_text ? look.step(states_.back(), bytes) : Automaton::kDead;
    if (!next) return std::nullopt;
    states_.push_back(*next);
  }
  return states_.back();
}

std::vector<int32_t> EndingMatcher::forced_tokens() {
  catch_up();
  return inner_->forced_tokens();  // near the end one spelling may be ruled out, and what it spells is not forced
}

std::vector<SpeltToken> EndingMatcher::forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                                     const Spelling& spelling) {
  catch_up();
  return inner_->forced_drafts(row, num_words, limit, spelling);
}

}  // namespace specguide
