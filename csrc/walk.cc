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

Walk::Walk(int slot, std::shared_ptr<Matcher> matcher, std::unique_ptr<Lookup> lookup, double least_probability,
           std::shared_ptr<const GuideBuffers> buffers, std::shared_ptr<WalkCounters> counters)
    : slot_(slot),
      is_free_(matcher == nullptr),
      has_operations_(matcher || lookup),
      least_probability_(least_probability),
      buffers_(std::move(buffers)),
      counters_(std::move(counters)),
      matcher_(std::move(matcher)),
      lookup_(std::move(lookup)),
      filled_(buffers_->num_nodes()) {
  path_.reserve(buffers_->num_nodes());
  proposed_.reserve(buffers_->num_nodes());
}

// Runs an operation that must not throw; counts it as done whatever became of it.
template <typename Function>
void Walk::guarded(int64_t iteration, Function function) {
  if (iteration != iteration_) {
    iteration_ = iteration;
    num_accepts_ = num_fills_ = num_rollbacks_ = 0;
  }
  proposed_.clear();
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
    const int depth = static_cast<int>(path_.size());
    std::fill(filled_.begin(), filled_.end(), 0);
    take_verified(std::min(num_accepted, depth), token);
    if (ended_ && num_accepted >= depth) return finish();  // what was verified beyond the end token does not count
    if (num_accepted > depth) {
      return fail("the verification accepted " + std::to_string(num_accepted) + " drafts where the grammar follows " +
                  std::to_string(depth) + ", " + after_tokens());
    }
    rollback_to(num_accepted);
    num_tokens_ += num_accepted;
    path_.clear();
    stopped_ = ended_ = false;
    if (token < 0) return is_free_ ? void() : fail("the grammar allows no token " + after_tokens());
    if (!accept(token)) return fail_by_refusal(token);
    ++num_tokens_;
    if (is_terminated()) return finish();
    fill(0);
    require_way_out();
    if (!is_failed()) propose();
  });
}

void Walk::draft(int64_t iteration, int node, int32_t token) {
  guarded(iteration, [&] {
    if (static_cast<int>(path_.size()) >= node) {
      rollback_to(node - 1);
      stopped_ = ended_ = false;
      std::fill(filled_.begin() + node, filled_.end(), 0);
    }
    if (stopped_ || ended_) return;
    if (token < 0 || !take_draft(token)) {
      // The drafter may have guessed, its row being late; but the target relies on what a row allows.
      if (token >= 0 && row_allows(node - 1, token)) return fail_by_refusal(token);
      stopped_ = true;
      return;
    }
    propose();
  });
}

// Accepts the token behind the path and fills its row. False, and nothing is changed, where the grammar refuses it.
bool Walk::take_draft(int32_t token) {
  if (!accept(token)) return false;
  path_.push_back(token);
  ended_ = is_terminated();
  if (!ended_) fill(static_cast<int>(path_.size()));
  return true;
}

// Goes on until nothing is known, or refused, or the window is full. What is forced goes first.
void Walk::propose() {
  if (!buffers_->has_proposals()) return;
  forced_.clear();
  probability_ = 1;
  int num_forced = 0, num_looked_up = 0;
  while (static_cast<int>(path_.size()) < buffers_->max_chain_len() && !ended_) {
    Draft draft = forced_draft(buffers_->num_forced_tokens - num_forced);
    if (draft.token < 0 && num_looked_up < buffers_->num_lookup_tokens) draft = looked_up_draft();
    if (draft.token < 0 || !take_draft(draft.token)) break;
    ++(draft.origin == DraftOrigin::kForced ? num_forced : num_looked_up);
    proposed_.push_back(draft);
  }
  give_draft_row();
}

Walk::Draft Walk::forced_draft(int limit) {
  if (!matcher_ || limit == 0) return {-1, DraftOrigin::kForced};
  if (forced_.empty()) {
    const int32_t* row = buffers_->row(slot_, static_cast<int>(path_.size()));
    forced_ = matcher_->forced_drafts(row, buffers_->num_words(), static_cast<size_t>(limit));
    std::reverse(forced_.begin(), forced_.end());
  }
  if (forced_.empty()) return {-1, DraftOrigin::kForced};
  const int32_t token = forced_.back();
  forced_.pop_back();
  return {token, DraftOrigin::kForced};
}

Walk::Draft Walk::looked_up_draft() {
  const LookedUp found = lookup_->next(path_);
  probability_ *= found.probability;
  return {probability_ >= least_probability_ ? found.token : -1, DraftOrigin::kLookup};
}

// To where the model's next draft is chosen.
void Walk::give_draft_row() {
  const int node = static_cast<int>(path_.size());
  if (buffers_->num_draft_tokens == 0 || !is_filled(node)) return;
  std::copy_n(buffers_->row(slot_, node), buffers_->num_words(), buffers_->draft_row(slot_));
}

void Walk::take_verified(int num_accepted, int32_t token) {
  if (!lookup_) return;
  for (int i = 0; i < num_accepted; ++i) lookup_->append(path_[static_cast<size_t>(i)]);
  if (token >= 0) lookup_->append(token);
}

void Walk::catch_up(int64_t iteration) {
  guarded(iteration, [] {});
}

void Walk::release() {
  matcher_.reset();
  if (lookup_) lookup_->finish();
  lookup_.reset();
  released_.store(true, std::memory_order_release);
}

std::optional<std::string> Walk::error() const {
  if (!is_failed()) return std::nullopt;
  std::lock_guard lock(error_mutex_);
  return error_;
}

bool Walk::accept(int32_t token) {
  if (!matcher_) return true;
  if (token >= buffers_->vocab_size) return false;
  add(counters_->mine().accepts, 1);
  raise_to(counters_->mine().max_accepts, ++num_accepts_);
  return matcher_->accept(token);
}

void Walk::fill(int node) {
  if (!matcher_) return;
  add(counters_->mine().fills, 1);
  raise_to(counters_->mine().max_fills, ++num_fills_);
  matcher_->fill(buffers_->row(slot_, node));
  filled_[node] = 1;
}

void Walk::rollback_to(int depth) {
  const int num_tokens = static_cast<int>(path_.size()) - depth;
  path_.resize(static_cast<size_t>(depth));
  if (num_tokens == 0 || !matcher_) return;
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
  if (!matcher_) return;
  const int32_t* row = buffers_->row(slot_, 0);
  const bool is_empty = std::all_of(row, row + buffers_->num_words(), [](int32_t word) { return word == 0; });
  if (is_empty) fail("the grammar allows no token " + after_tokens());
}

std::string Walk::after_tokens() const {
  return "after " + std::to_string(num_tokens_) + (num_tokens_ == 1 ? " token" : " tokens");
}

}  // namespace specguide
