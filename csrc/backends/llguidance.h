// Owns the native adapter of llguidance. Its extension module exports a C interface, which is called here from any
// thread, without the interpreter.
#pragma once

#include <memory>
#include <string>

#include "backends/library_matcher.h"
#include "backends/llg_api.h"

namespace specguide {

// How much of the library's work one grammar may take, by the library's own names: items of its Earley parser, and
// steps ("fuel") and states of its lexer.
struct LLGuidanceLimits {
  size_t max_items_in_row;        // at one place in the text
  size_t step_max_items;          // made for one row of what may follow
  uint64_t initial_lexer_fuel;    // to compile, and to walk a text without asking for rows
  uint64_t step_lexer_fuel;       // for one row
  size_t max_lexer_states;        // over a matcher and its clones
};

// A vocabulary in llguidance's form.
class LLGuidanceTokenizer {
 public:
  // Throws std::runtime_error with the library's message if it refuses the vocabulary.
  LLGuidanceTokenizer(std::shared_ptr<const llg::Api> api, std::shared_ptr<const Vocabulary> vocabulary);
  ~LLGuidanceTokenizer();
  LLGuidanceTokenizer(const LLGuidanceTokenizer&) = delete;
  LLGuidanceTokenizer& operator=(const LLGuidanceTokenizer&) = delete;

  // Compiles a grammar in llguidance's Lark syntax. A matcher that reaches one of the `usual` limits continues from the
  // same place with `more`. Throws std::invalid_argument with the library's message if it refuses the grammar.
  static std::shared_ptr<CompiledGrammar> compile(std::shared_ptr<const LLGuidanceTokenizer> tokenizer,
                                                  const std::string& lark, const LLGuidanceLimits& usual,
                                                  const LLGuidanceLimits& more);

  const llg::Api& api() const { return *api_; }
  const std::shared_ptr<const Vocabulary>& vocabulary() const { return vocabulary_; }
  llg::Tokenizer* get() const { return tokenizer_; }

 private:
  std::shared_ptr<const llg::Api> api_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  llg::Tokenizer* tokenizer_;
};

}  // namespace specguide
