// Owns what the adapters of both grammar libraries have in common. End tokens, termination, tokens that no grammar
// allows and the limits of rollback are handled here, so that the libraries never see them and cannot differ in them.
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
  // Whether a grammar can refer to the token, which is not an end token: usually only to text.
  virtual bool may_take(int32_t token) const { return vocabulary_->is_text(token); }
  // Accepts such a token, or refuses it and changes nothing.
  virtual bool take(int32_t token) = 0;
  // Accepts several tokens at once, which the grammar is known to allow. False if that failed; then nothing has
  // changed.
  virtual bool take_all(const int32_t* tokens, size_t num_tokens) {
    (void)tokens, (void)num_tokens;
    return false;
  }
  // Writes all words of a row, including end tokens if the grammar may end.
  virtual void write_row(int32_t* row) = 0;
  // Takes back n > 0 tokens; at least n were accepted.
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
  // How many matchers it keeps that have learnt something by walking it, for later requests.
  virtual int64_t num_learned() const { return 0; }
};

}  // namespace specguide
