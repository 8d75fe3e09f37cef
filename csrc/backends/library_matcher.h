// Owns what the adapters of both grammar libraries have in common: end tokens, termination, tokens that no grammar
// allows and the limits of rollback are settled here, so the libraries see none of it and cannot differ in it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/rows_ahead.h"
#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

class LibraryMatcher : public Matcher {
 public:
  explicit LibraryMatcher(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}

  bool accept(int32_t token) final;
  bool accept_all(const int32_t* tokens, size_t num_tokens) final;
  void fill(int32_t* row) final;
  void rollback(int n) final;
  bool is_terminated() const final { return terminated_; }
  std::vector<int32_t> forced_tokens() final;
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                        const Spelling& spelling) final;

  const Vocabulary& vocabulary() const { return *vocabulary_; }

 protected:
  // Whether a grammar can speak of the token, which is no end token: of text, as a rule.
  virtual bool may_take(int32_t token) const { return vocabulary_->is_text(token); }
  // Takes such a token, or refuses it and changes nothing.
  virtual bool take(int32_t token) = 0;
  // Takes several at once, which the grammar allows, as is known. False where that failed, and nothing has changed.
  virtual bool take_all(const int32_t* tokens, size_t num_tokens) {
    (void)tokens, (void)num_tokens;
    return false;
  }
  // Writes all words of a row, end tokens included where the grammar may end.
  virtual void write_row(int32_t* row) = 0;
  // Takes back n > 0 tokens; that many were taken.
  virtual void undo(int n) = 0;
  // Whether the grammar may end here.
  virtual bool may_end() = 0;

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  int num_taken_ = 0;
  bool terminated_ = false;
  std::vector<int32_t> scratch_row_;
  RowsAhead rows_ahead_;
};

// A compiled grammar: shared and immutable, the source of matchers. Any thread may call it.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  virtual std::shared_ptr<LibraryMatcher> matcher() = 0;
  // How many matchers that have learnt something by walking it keeps for those to come.
  virtual int64_t num_learned() const { return 0; }
};

}  // namespace specguide
