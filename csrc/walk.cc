#include "walk.h"

#include <algorithm>

namespace specguide {

namespace {

void raise_to(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void add(std::atomic<int64_t>& counter, int64_t value) { counter.fetch_add(value, std::memory_order_relaxed); }

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

Walk::Walk(int slot, std::shared_ptr<Matcher> matcher, std::shared_ptr<const GuideBuffers> buffers,
           std::shared_ptr<WalkCounters> counters)
    : slot_(slot),
      is_free_(matcher == nullptr),
      buffers_(std::move(buffers)),
      counters_(std::move(counters)),
      matcher_(std::move(matcher)),
      filled_(buffers_->num_nodes()) {}

// Runs an operation that must not throw; counts it as done whatever became of it.
template <typename Function>
void Walk::guarded(int64_t iteration, Function function) {
  if (iteration != iteration_) {
    iteration_ = iteration;
    num_accepts_ = num_fills_ = num_rollbacks_ = 0;
  }
  if (!failed_.load(std::memory_order_relaxed) && !finished_.load(std::memory_order_relaxed)) {
    const auto begin = Clock::now();
    try {
      function();
    } catch (const std::exception& error) {
      fail("the matcher failed " + after_tokens() + ": " + error.what());
    } catch (...) {
      fail("the matcher failed " + after_tokens());
    }
    const auto took = Clock::now() - begin;
    add(counters_->mine().busy_ns, std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }
  num_done_.fetch_add(1, std::memory_order_release);
}

void Walk::start(int64_t iteration) {
  guarded(iteration, [this] {
    if (matcher_->is_terminated()) return finish();
    fill(0);
    require_way_out();
  });
}

void Walk::golden(int64_t iteration, int num_accepted, int32_t token) {
  guarded(iteration, [&] {
    std::fill(filled_.begin(), filled_.end(), 0);
    if (ended_ && num_accepted >= depth_) return finish();  // what was verified beyond the end token does not count
    if (num_accepted > depth_) {
      return fail("the verification accepted " + std::to_string(num_accepted) + " drafts where the grammar follows " +
                  std::to_string(depth_) + ", " + after_tokens());
    }
    if (depth_ > num_accepted) rollback(depth_ - num_accepted);
    num_tokens_ += num_accepted;
    depth_ = 0;
    stopped_ = ended_ = false;
    if (token < 0) return fail("the grammar allows no token " + after_tokens());
    if (!accept(token)) return fail_by_refusal(token);
    ++num_tokens_;
    if (matcher_->is_terminated()) return finish();
    fill(0);
    require_way_out();
  });
}

void Walk::draft(int64_t iteration, int node, int32_t token) {
  guarded(iteration, [&] {
    if (stopped_ || ended_) return;
    if (token < 0 || !accept(token)) {
      // The drafter may have guessed, its row being late; but the target relies on what a row allows.
      if (token >= 0 && row_allows(node - 1, token)) return fail_by_refusal(token);
      stopped_ = true;
      return;
    }
    depth_ = node;
    ended_ = matcher_->is_terminated();
    if (!ended_) fill(node);
  });
}

void Walk::release() {
  matcher_.reset();
  released_.store(true, std::memory_order_release);
}

std::optional<std::string> Walk::error() const {
  if (!is_failed()) return std::nullopt;
  std::lock_guard lock(error_mutex_);
  return error_;
}

bool Walk::accept(int32_t token) {
  if (token >= buffers_->vocab_size) return false;
  add(counters_->mine().accepts, 1);
  raise_to(counters_->mine().max_accepts, ++num_accepts_);
  return matcher_->accept(token);
}

void Walk::fill(int node) {
  add(counters_->mine().fills, 1);
  raise_to(counters_->mine().max_fills, ++num_fills_);
  matcher_->fill(buffers_->row(slot_, node));
  filled_[node] = 1;
}

void Walk::rollback(int num_tokens) {
  add(counters_->mine().rollbacks, 1);
  raise_to(counters_->mine().max_rollbacks, ++num_rollbacks_);
  matcher_->rollback(num_tokens);
}

void Walk::fail(const std::string& message) {
  std::fill(filled_.begin(), filled_.end(), 0);
  {
    std::lock_guard lock(error_mutex_);
    error_ = message;
  }
  failed_.store(true, std::memory_order_release);
}

void Walk::fail_by_refusal(int32_t token) {
  fail("the grammar refused token " + std::to_string(token) + ", which its row had allowed, " + after_tokens());
}

void Walk::finish() {
  std::fill(filled_.begin(), filled_.end(), 0);
  finished_.store(true, std::memory_order_release);
}

bool Walk::row_allows(int node, int32_t token) const {
  if (token >= buffers_->vocab_size) return false;
  const auto word = static_cast<uint32_t>(buffers_->row(slot_, node)[token / 32]);
  return (word >> (token % 32)) & 1u;
}

void Walk::require_way_out() {
  const int32_t* row = buffers_->row(slot_, 0);
  const bool is_empty = std::all_of(row, row + buffers_->num_words(), [](int32_t word) { return word == 0; });
  if (is_empty) fail("the grammar allows no token " + after_tokens());
}

std::string Walk::after_tokens() const {
  return "after " + std::to_string(num_tokens_) + (num_tokens_ == 1 ? " token" : " tokens");
}

}  // namespace specguide
