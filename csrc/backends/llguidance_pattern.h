// Owns a grammar that llguidance has compiled: its matchers, and where those of new requests come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/llg_api.h"
#include "backends/llguidance.h"

namespace specguide {

using LLGuidanceTokenizerPtr = std::shared_ptr<const LLGuidanceTokenizer>;

// Owns one matcher of the library.
class LLGuidanceHandle {
 public:
  LLGuidanceHandle(LLGuidanceTokenizerPtr tokenizer, llg::Matcher* owned)
      : tokenizer_(std::move(tokenizer)), matcher_(owned) {}
  ~LLGuidanceHandle() { api().free_matcher(matcher_); }
  LLGuidanceHandle(const LLGuidanceHandle&) = delete;
  LLGuidanceHandle& operator=(const LLGuidanceHandle&) = delete;

  // At the grammar's start. Throws std::invalid_argument with the library's words when it refuses the grammar.
  static std::unique_ptr<LLGuidanceHandle> at_start(const LLGuidanceTokenizerPtr& tokenizer, const std::string& lark,
                                                    const LLGuidanceLimits& limits);
  std::unique_ptr<LLGuidanceHandle> clone() const;

  const llg::Api& api() const { return tokenizer_->api(); }
  const LLGuidanceTokenizerPtr& tokenizer() const { return tokenizer_; }
  llg::Matcher* get() const { return matcher_; }
  // The library's words for what went wrong.
  std::string error() const;

 private:
  LLGuidanceTokenizerPtr tokenizer_;
  llg::Matcher* matcher_;
};

// The compiled grammar: a matcher at its start, cloned for each request. A matcher's lexer learns states as it walks,
// which a clone takes along. So a matcher that a request is done with is reset and kept for the next one, and now and
// then, ever more rarely, it becomes the one that is cloned. Any thread may call it.
class LLGuidancePattern {
 public:
  // more: limits of the matchers with more room
  LLGuidancePattern(std::unique_ptr<LLGuidanceHandle> handle, std::string lark, const LLGuidanceLimits& more)
      : handle_(std::move(handle)),
        lark_(std::move(lark)),
        names_tokens_(lark_.find("<[") != std::string::npos),
        more_(more) {}

  std::unique_ptr<LLGuidanceHandle> take();
  // A matcher with more room, whose lexer has learnt nothing yet: what others have learnt takes room. The first time it
  // compiles the grammar anew, and others who need the same wait for that.
  std::unique_ptr<LLGuidanceHandle> take_roomy();
  void give_back(std::unique_ptr<LLGuidanceHandle> handle);
  // Whether it may speak of tokens by their ids, as <[2]>, and so of any token.
  bool names_tokens() const { return names_tokens_; }
  // How many matchers are kept that have walked.
  int64_t num_learned();

 private:
  LLGuidanceTokenizerPtr tokenizer();

  std::mutex mutex_, roomy_mutex_;
  std::unique_ptr<LLGuidanceHandle> handle_, roomy_;
  std::vector<std::unique_ptr<LLGuidanceHandle>> idle_;
  uint64_t num_given_back_ = 0;
  const std::string lark_;
  const bool names_tokens_;
  const LLGuidanceLimits more_;
};

}  // namespace specguide
