// Owns reasoning before a grammar; see reasoning.h.
#include "backends/reasoning.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "backends/forced_tokens.h"
#include "row.h"

namespace specguide {

namespace {

bool allows(const std::vector<int32_t>& row, int32_t token) {
  return token >= 0 && static_cast<size_t>(token) / 32 < row.size() && has_bit(row.data(), token);
}

std::vector<std::array<int, 256>> steps_of(const std::string& text) {
  std::vector<std::array<int, 256>> steps(text.size());
  int fallback = 0;  // the state after the text without its first byte
  for (size_t state = 0; state < text.size(); ++state) {
    const auto byte = static_cast<uint8_t>(text[state]);
    if (state > 0) {
      steps[state] = steps[fallback];
    } else {
      steps[state].fill(0);
    }
    const int next_fallback = state > 0 ? steps[fallback][byte] : 0;
    steps[state][byte] = static_cast<int>(state) + 1;
    fallback = next_fallback;
  }
  return steps;
}

}  // namespace

ReasoningMark::ReasoningMark(std::shared_ptr<const Vocabulary> vocabulary, std::string text)
    : vocabulary_(std::move(vocabulary)), text_(std::move(text)), steps_(steps_of(text_)) {
  if (text_.empty()) throw std::invalid_argument("a reasoning mark must not be empty");
  fill_rows(static_cast<int>(text_.size()));
}

ReasoningMark::ReasoningMark(std::shared_ptr<const Vocabulary> vocabulary, int32_t token)
    : vocabulary_(std::move(vocabulary)), token_(token) {
  if (token < 0 || token >= vocabulary_->size() || vocabulary_->is_eos(token)) {
    throw std::invalid_argument("its token " + std::to_string(token) + " is an end token, or not in the vocabulary");
  }
  fill_rows(1);
}

void ReasoningMark::fill_rows(int num_states) {
  const auto num_words = static_cast<size_t>(vocabulary_->num_words());
  free_rows_.assign(num_states, std::vector<int32_t>(num_words));
  forced_rows_ = free_rows_;
  for (int state = 0; state < num_states; ++state) {
    for (int32_t token = 0; token < vocabulary_->size(); ++token) {
      if (next(state, token)) set_bit(free_rows_[state].data(), token);
      if (brings_on(state, token)) set_bit(forced_rows_[state].data(), token);
    }
    if (is_empty(forced_rows_[state].data(), num_words)) {
      throw std::invalid_argument("no token of the vocabulary continues the reasoning mark '" + text_ + "' after " +
                                  std::to_string(state) + " bytes");
    }
  }
}

std::optional<int> ReasoningMark::next(int state, int32_t token) const {
  if (token_ >= 0 && token == token_) return 1;
  if (!vocabulary_->is_text(token)) return std::nullopt;
  if (token_ >= 0) return 0;
  const std::string& bytes = vocabulary_->token_bytes[static_cast<size_t>(token)];
  for (size_t i = 0; i < bytes.size(); ++i) {
    state = steps_[state][static_cast<uint8_t>(bytes[i])];
    if (state == static_cast<int>(steps_.size()) && i + 1 < bytes.size()) return std::nullopt;
  }
  return state;
}

bool ReasoningMark::brings_on(int state, int32_t token) const {
  if (token_ >= 0) return token == token_;
  if (!vocabulary_->is_text(token)) return false;
  const std::string& bytes = vocabulary_->token_bytes[static_cast<size_t>(token)];
  return bytes.size() <= text_.size() - state && text_.compare(state, bytes.size(), bytes) == 0;
}

ReasoningMatcher::ReasoningMatcher(ReasoningSection section, std::shared_ptr<Matcher> answer)
    : section_(std::move(section)),
      answer_(std::move(answer)),
      place_{section_.begin.empty() ? Part::kFree : Part::kBegin, 0, 0, 0} {
  if (section_.end.empty() || !answer_) {
    throw std::invalid_argument("reasoning needs an end mark and a matcher of the answer");
  }
  if (!section_.instead) return;
  const auto is_special = [](const ReasoningMarks& marks) { return marks.empty() || marks[0]->is_special(); };
  if (section_.begin.empty() || !is_special(section_.begin) || !is_special(*section_.instead) ||
      (!section_.instead->empty() && section_.instead->front()->token() == section_.begin[0]->token())) {
    throw std::invalid_argument("reasoning, and what may come instead of it, must begin with different special tokens");
  }
}

const ReasoningMarks& ReasoningMatcher::marks() const {
  if (place_.part == Part::kInstead) return *section_.instead;
  return place_.part == Part::kBegin ? section_.begin : section_.end;
}

const std::vector<int32_t>& ReasoningMatcher::row() const {
  const bool is_forced = place_.part != Part::kFree || is_full();
  return is_forced ? mark().forced_row(place_.state) : mark().free_row(place_.state);
}

bool ReasoningMatcher::accept(int32_t token) {
  if (place_.part == Part::kAnswer) {
    if (!answer_->accept(token)) return false;
    ++num_answered_;
    return true;
  }
  if (may_choose() && token != mark().token()) {
    if (section_.instead->empty()) return enter_by(token);
    if (token != section_.instead->front()->token()) return false;
    place_.part = Part::kInstead;
    before_.push_back({Part::kBegin, 0, 0, 0});
  } else {
    if (may_be_cut() && std::count(section_.cut_by.begin(), section_.cut_by.end(), token) > 0) return enter_by(token);
    if (!allows(row(), token)) return false;
    before_.push_back(place_);
  }
  place_.state = *mark().next(place_.state, token);
  const bool is_complete = place_.state == mark().num_states();
  if (place_.part == Part::kFree) ++place_.num_free;
  if (is_complete) leave_mark();
  return true;
}

// Begins the answer with the token, if the answer accepts it.
bool ReasoningMatcher::enter_by(int32_t token) {
  answer_->begin_behind(static_cast<int64_t>(before_.size()));
  if (!answer_->accept(token)) return false;
  entry_ = place_;
  place_ = {Part::kAnswer, 0, 0, 0};
  num_answered_ = 1;
  return true;
}

// Continues after a complete mark: with the next mark of its part, or with the next part.
void ReasoningMatcher::leave_mark() {
  place_.state = 0;
  if (++place_.index < marks().size()) {
    if (place_.part == Part::kFree) place_.part = Part::kEnd;
    return;
  }
  place_.part = place_.part == Part::kBegin ? Part::kFree : Part::kAnswer;
  place_.index = 0;
  if (place_.part == Part::kAnswer) answer_->begin_behind(static_cast<int64_t>(before_.size()));
}

void ReasoningMatcher::fill(int32_t* row_out) {
  if (place_.part == Part::kAnswer) return answer_->fill(row_out);
  if (may_choose()) {
    if (section_.instead->empty()) {
      answer_->begin_behind(0);
      answer_->fill(row_out);
    } else {
      const std::vector<int32_t>& instead = section_.instead->front()->forced_row(0);
      std::copy(instead.begin(), instead.end(), row_out);
    }
    return set_bit(row_out, mark().token());
  }
  std::copy(row().begin(), row().end(), row_out);
  if (!may_be_cut()) return;
  std::vector<int32_t> answer(row().size());
  answer_->begin_behind(static_cast<int64_t>(before_.size()));
  answer_->fill(answer.data());
  for (const int32_t token : section_.cut_by) {
    if (allows(answer, token)) set_bit(row_out, token);
  }
}

void ReasoningMatcher::rollback(int n) {
  const int num_section = static_cast<int>(before_.size());
  if (n < 0 || n > num_section + num_answered_) {
    throw std::invalid_argument("rollback of " + std::to_string(n) + " tokens, " +
                                std::to_string(num_section + num_answered_) + " were accepted");
  }
  const int num_of_answer = std::min(n, num_answered_);
  if (num_of_answer > 0) answer_->rollback(num_of_answer);
  num_answered_ -= num_of_answer;
  if (num_answered_ == 0 && entry_) {
    place_ = *entry_;
    entry_.reset();
  }
  if (n == num_of_answer) return;
  place_ = before_[before_.size() - (n - num_of_answer)];
  before_.resize(before_.size() - (n - num_of_answer));
}

std::vector<int32_t> ReasoningMatcher::forced_tokens() {
  return place_.part == Part::kAnswer ? answer_->forced_tokens() : std::vector<int32_t>{};
}

std::vector<SpeltToken> ReasoningMatcher::forced_drafts(const int32_t* row_here, size_t num_words, size_t limit,
                                                        const Spelling& spelling) {
  if (place_.part == Part::kAnswer) return answer_->forced_drafts(row_here, num_words, limit, spelling);
  const int32_t first = forced_token(row_here, mark().vocabulary());
  if (first < 0) return only_draft(row_here, num_words);
  std::vector<int32_t> scratch(num_words);
  return find_forced_drafts(*this, mark().vocabulary(), first, limit, spelling, scratch.data());
}

}  // namespace specguide
