#include "counted_matcher.h"

#include <algorithm>
#include <utility>

namespace specguide {

namespace {

void raise_to(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

WalkCounters::Counts& WalkCounters::mine() {
  static std::atomic<size_t> num_threads{0};
  thread_local const size_t index = num_threads.fetch_add(1, std::memory_order_relaxed);
  return shards_[index % shards_.size()];
}

int64_t WalkCounters::sum(std::atomic<int64_t> Counts::*counter) const {
  int64_t total = 0;
  for (const Shard& shard : shards_) total += (shard.*counter).load(std::memory_order_relaxed);
  return total;
}

int64_t WalkCounters::max(std::atomic<int64_t> Counts::*counter) const {
  int64_t most = 0;
  for (const Shard& shard : shards_) most = std::max(most, (shard.*counter).load(std::memory_order_relaxed));
  return most;
}

CountedMatcher::CountedMatcher(std::shared_ptr<Matcher> matcher, int vocab_size, std::shared_ptr<WalkCounters> counters)
    : vocab_size_(vocab_size), counters_(std::move(counters)), matcher_(std::move(matcher)) {}

void CountedMatcher::enter(int64_t iteration) {
  if (iteration == iteration_) return;
  iteration_ = iteration;
  num_accepts_ = num_fills_ = num_rollbacks_ = 0;
}

bool CountedMatcher::accept(int32_t token) {
  if (!matcher_) return true;
  if (token >= vocab_size_) return false;
  count_accept();
  return matcher_->accept(token);
}

Matcher::Answer CountedMatcher::accept_draft(int32_t token) {
  if (!matcher_) return Matcher::Answer::kYes;
  if (token >= vocab_size_) return Matcher::Answer::kNo;
  count_accept();
  return matcher_->accept_draft(token);
}

bool CountedMatcher::refill(FilledRow& row) {
  if (!matcher_) return false;
  count_fill();
  matcher_->refill(row);
  return true;
}

Matcher::Answer CountedMatcher::refill_draft(FilledRow& row) {
  if (!matcher_) return Matcher::Answer::kNo;
  count_fill();
  return matcher_->refill_draft(row);
}

void CountedMatcher::count_accept() {
  WalkCounters::Counts& counts = counters_->mine();
  counts.accepts.fetch_add(1, std::memory_order_relaxed);
  raise_to(counts.max_accepts, ++num_accepts_);
}

void CountedMatcher::count_fill() {
  WalkCounters::Counts& counts = counters_->mine();
  counts.fills.fetch_add(1, std::memory_order_relaxed);
  raise_to(counts.max_fills, ++num_fills_);
}

void CountedMatcher::rollback(int num_tokens) {
  if (num_tokens == 0 || !matcher_) return;
  WalkCounters::Counts& counts = counters_->mine();
  counts.rollbacks.fetch_add(1, std::memory_order_relaxed);
  raise_to(counts.max_rollbacks, ++num_rollbacks_);
  matcher_->rollback(num_tokens);
}

std::vector<SpeltToken> CountedMatcher::forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                                      const Spelling& spelling) {
  return matcher_ ? matcher_->forced_drafts(row, num_words, limit, spelling) : std::vector<SpeltToken>{};
}

}  // namespace specguide
