// Owns a grammar compiled by llguidance: its matchers, and where new requests get theirs.
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

  // At the grammar's start. Throws std::invalid_argument with the library's message if it refuses the grammar.
  static std::unique_ptr<LLGuidanceHandle> at_start(const LLGuidanceTokenizerPtr& tokenizer, const std::string& lark,
                                                    const LLGuidanceLimits& limits);
  std::unique_ptr<LLGuidanceHandle> clone() const;

  const llg::Api& api() const { return tokenizer_->api(); }
  const LLGuidanceTokenizerPtr& tokenizer() const { return tokenizer_; }
  llg::Matcher* get() const { return matcher_; }
  // The library's message for what went wrong.
  std::string error() const;

 private:
  LLGuidanceTokenizerPtr tokenizer_;
  llg::Matcher* matcher_;
};

// The compiled grammar: a matcher at its start, which is cloned for each request. A matcher's lexer learns states as it
// walks, and clones inherit them. So a matcher that a request no longer needs is reset and kept for the next request,
// and at ever longer intervals it becomes the one that is cloned. Any thread may call it.
class LLGuidancePattern {
 public:
  // more: limits of the roomier matchers
  LLGuidancePattern(std::unique_ptr<LLGuidanceHandle> handle, std::string lark, const LLGuidanceLimits& more)
      : handle_(std::move(handle)),
        lark_(std::move(lark)),
        names_tokens_(lark_.find("<[") != std::string::npos),
        more_(more) {}

  std::unique_ptr<LLGuidanceHandle> take();
  // A roomier matcher. Its lexer has learnt nothing yet, since learnt states take room. The first call compiles the
  // grammar again; other callers wait for that.
  std::unique_ptr<LLGuidanceHandle> take_roomy();
  void give_back(std::unique_ptr<LLGuidanceHandle> handle);
  // Whether it may refer to tokens by their ids, as <[2]> does, and so to any token.
  bool names_tokens() const { return names_tokens_; }
  // Number of kept matchers that have walked.
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
