// Owns a request's matcher, and counts its operations.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "matcher.h"

namespace specguide {

// Counts the operations of all walks of an executor. Each thread has its own counts, so that no cache line moves
// between cores.
class WalkCounters {
 public:
  struct Counts {
    std::atomic<int64_t> accepts{0}, fills{0}, rollbacks{0}, busy_ns{0};
    std::atomic<int64_t> max_accepts{0}, max_fills{0}, max_rollbacks{0};  // per iteration and request
  };

  Counts& mine();
  int64_t sum(std::atomic<int64_t> Counts::*counter) const;
  int64_t max(std::atomic<int64_t> Counts::*counter) const;

 private:
  struct alignas(64) Shard : Counts {};
  std::array<Shard, 32> shards_;  // with more threads, some share a shard
};

// A matcher whose operations are counted. A null matcher stands for a free request: it accepts anything, never ends,
// and fills nothing.
class CountedMatcher {
 public:
  CountedMatcher(std::shared_ptr<Matcher> matcher, int vocab_size, std::shared_ptr<WalkCounters> counters);

  // Sets the iteration for which the following operations are counted.
  void enter(int64_t iteration);

  bool accept(int32_t token);
  Matcher::Answer accept_draft(int32_t token);
  // False for a free request.
  bool refill(FilledRow& row);
  // kNo for a free request.
  Matcher::Answer refill_draft(FilledRow& row);
  void rollback(int num_tokens);
  bool is_terminated() const { return matcher_ && matcher_->is_terminated(); }
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit, const Spelling& spelling);

  // Replaces the matcher of a guided request.
  void replace(std::shared_ptr<Matcher> matcher) { matcher_ = std::move(matcher); }
  void release() { matcher_.reset(); }

 private:
  void count_accept();
  void count_fill();

  const int vocab_size_;
  const std::shared_ptr<WalkCounters> counters_;
  std::shared_ptr<Matcher> matcher_;
  int64_t iteration_ = -1;
  int num_accepts_ = 0, num_fills_ = 0, num_rollbacks_ = 0;  // in iteration_
};

}  // namespace specguide
