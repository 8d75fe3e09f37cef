// Owns the native adapter of llguidance: its extension module exports a C interface, called here with no interpreter
// involved, from any thread.
#pragma once

#include <memory>
#include <string>

#include "backends/library_matcher.h"
#include "backends/llg_api.h"

namespace specguide {

// A vocabulary in llguidance's form.
class LLGuidanceTokenizer {
 public:
  // Throws std::runtime_error with the library's words when it refuses the vocabulary.
  LLGuidanceTokenizer(std::shared_ptr<const llg::Api> api, std::shared_ptr<const Vocabulary> vocabulary);
  ~LLGuidanceTokenizer();
  LLGuidanceTokenizer(const LLGuidanceTokenizer&) = delete;
  LLGuidanceTokenizer& operator=(const LLGuidanceTokenizer&) = delete;

  // Compiles a grammar in llguidance's Lark syntax.
  // Throws std::invalid_argument with the library's words when it refuses the grammar.
  static std::shared_ptr<CompiledGrammar> compile(std::shared_ptr<const LLGuidanceTokenizer> tokenizer,
                                                  const std::string& lark);

  const llg::Api& api() const { return *api_; }
  const std::shared_ptr<const Vocabulary>& vocabulary() const { return vocabulary_; }

 private:
  std::shared_ptr<const llg::Api> api_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  llg::Tokenizer* tokenizer_;
};

}  // namespace specguide
