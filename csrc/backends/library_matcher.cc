// Owns the common part of the matcher contract; see library_matcher.h.
#include "backends/library_matcher.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "backends/forced_tokens.h"

namespace specguide {

bool LibraryMatcher::accept(int32_t token) {
  if (terminated_) return false;
  if (vocabulary_->is_eos(token)) {
    terminated_ = may_end();
    return terminated_;
  }
  if (!may_take(token) || !take(token)) return false;
  rows_ahead_.take(vocabulary_->token_bytes[static_cast<size_t>(token)]);
  ++num_taken_;
  return true;
}

bool LibraryMatcher::accept_all(const int32_t* tokens, size_t num_tokens) {
  const auto is_text = [this](int32_t token) { return vocabulary_->is_text(token); };
  const bool are_taken = !terminated_ && std::all_of(tokens, tokens + num_tokens, is_text) &&
                         take_all(tokens, num_tokens);
  if (!are_taken) return Matcher::accept_all(tokens, num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) rows_ahead_.take(vocabulary_->token_bytes[static_cast<size_t>(tokens[i])]);
  num_taken_ += static_cast<int>(num_tokens);
  return true;
}

void LibraryMatcher::fill(int32_t* row) {
  if (terminated_) throw std::runtime_error("a terminated matcher fills nothing");
  const auto num_words = static_cast<size_t>(vocabulary_->num_words());
  if (rows_ahead_.find(row, num_words)) return;
  write_row(row);
  rows_ahead_.learn(row, num_words);
}

void LibraryMatcher::rollback(int n) {
  const int num_accepted = num_taken_ + (terminated_ ? 1 : 0);
  if (n < 0 || n > num_accepted) {
    throw std::invalid_argument("rollback of " + std::to_string(n) + " tokens, " + std::to_string(num_accepted) +
                                " were accepted");
  }
  if (n == 0) return;
  const int num_text = n - (terminated_ ? 1 : 0);
  if (num_text > 0) {
    undo(num_text);
    rows_ahead_.rollback(num_text);
  }
  terminated_ = false;
  num_taken_ -= num_text;
}

std::vector<SpeltToken> LibraryMatcher::forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                                      const Spelling& spelling) {
  const int32_t first = forced_token(row, *vocabulary_);
  if (first < 0) return only_draft(row, num_words);
  scratch_row_.resize(num_words);
  rows_ahead_.start();
  try {
    auto drafts = find_forced_drafts(*this, *vocabulary_, first, limit, spelling, scratch_row_.data());
    rows_ahead_.stop();
    return drafts;
  } catch (...) {
    rows_ahead_.forget();
    throw;
  }
}

std::vector<int32_t> LibraryMatcher::forced_tokens() {
  if (terminated_) return {};
  scratch_row_.resize(static_cast<size_t>(vocabulary_->num_words()));
  return find_forced_tokens(*this, *vocabulary_, scratch_row_.data());
}

}  // namespace specguide
