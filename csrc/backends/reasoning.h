// Owns reasoning before a grammar: free text up to a mark, then what the answer's grammar allows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

// Text, or one special token, by which a section begins or ends. How much of it has been seen is a state, 0 …
// num_states(); the last one means that it is complete. Shared and immutable.
class ReasoningMark {
 public:
  // Throws std::invalid_argument for an empty text, for one that the vocabulary cannot spell, and for a token that does
  // not exist or is an end token.
  ReasoningMark(std::shared_ptr<const Vocabulary> vocabulary, std::string text);
  ReasoningMark(std::shared_ptr<const Vocabulary> vocabulary, int32_t token);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  int num_states() const { return static_cast<int>(free_rows_.size()); }
  bool is_special() const { return token_ >= 0; }
  int32_t token() const { return token_; }  // -1: it is text

  // The state after `token`. None if the token is not text, or reaches beyond the mark: the answer must begin with a
  // token.
  std::optional<int> next(int state, int32_t token) const;
  // The tokens that `next` accepts in the state.
  const std::vector<int32_t>& free_row(int state) const { return free_rows_[static_cast<size_t>(state)]; }
  // The tokens of free_row whose whole text advances the mark.
  const std::vector<int32_t>& forced_row(int state) const { return forced_rows_[static_cast<size_t>(state)]; }

 private:
  void fill_rows(int num_states);
  bool brings_on(int state, int32_t token) const;

  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::string text_;
  const int32_t token_ = -1;
  std::vector<std::array<int, 256>> steps_;  // by state and byte (Knuth, Morris and Pratt 1977)
  std::vector<std::vector<int32_t>> free_rows_, forced_rows_;
};

// Marks that follow one another without text between them.
using ReasoningMarks = std::vector<std::shared_ptr<const ReasoningMark>>;

// begin:      what the section must begin with; empty: it has already begun
// end:        the first mark ends the free text, and the others must follow
// max_tokens: the end must follow after so many tokens; none: no limit
// instead:    what may replace the section; empty: the answer may begin at once; none: the section must come. `instead`
//             must begin with a special token, and `begin` with a different one
// cut_by:     special tokens of the answer that also end the free text
struct ReasoningSection {
  ReasoningMarks begin, end;
  std::optional<int64_t> max_tokens;
  std::optional<ReasoningMarks> instead{};
  std::vector<int32_t> cut_by{};
};

// A section, then the answer. End tokens are only allowed in the answer.
class ReasoningMatcher final : public Matcher {
 public:
  ReasoningMatcher(ReasoningSection section, std::shared_ptr<Matcher> answer);

  bool accept(int32_t token) override;
  void fill(int32_t* row) override;
  void rollback(int n) override;
  bool is_terminated() const override { return answer_->is_terminated(); }
  std::vector<int32_t> forced_tokens() override;
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                        const Spelling& spelling) override;

 private:
  enum class Part { kBegin, kInstead, kFree, kEnd, kAnswer };
  // The place of the next token.
  struct Place {
    Part part;
    size_t index;           // of the mark, among the marks of the part
    int state;              // of the mark
    int64_t num_free;       // number of tokens in the free text
  };

  const ReasoningMarks& marks() const;
  const ReasoningMark& mark() const { return *marks()[place_.index]; }
  bool is_full() const { return section_.max_tokens && place_.num_free >= *section_.max_tokens; }
  bool may_choose() const { return section_.instead && place_.part == Part::kBegin && before_.empty(); }
  bool may_be_cut() const { return place_.part == Part::kFree && !is_full() && !section_.cut_by.empty(); }
  const std::vector<int32_t>& row() const;
  void leave_mark();
  bool enter_by(int32_t token);

  const ReasoningSection section_;
  const std::shared_ptr<Matcher> answer_;
  Place place_;
  std::vector<Place> before_;  // for each token of the section
  std::optional<Place> entry_;  // where the answer began, if one of its own tokens began it
  int num_answered_ = 0;
};

}  // namespace specguide
