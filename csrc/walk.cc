#include "walk.h"

#include "row.h"

namespace specguide {

Walk::Walk(int slot, std::shared_ptr<Matcher> matcher, std::unique_ptr<Lookup> lookup, double least_probability,
           std::shared_ptr<Spelling> spelling, std::shared_ptr<const GrammarBuffers> buffers,
           std::shared_ptr<WalkCounters> counters, std::shared_ptr<RowNumbers> numbers, Restart restart)
    : slot_(slot),
      is_free_(matcher == nullptr),
      has_operations_(matcher || lookup),
      least_probability_(least_probability),
      spelling_(std::move(spelling)),
      buffers_(std::move(buffers)),
      counters_(std::move(counters)),
      numbers_(std::move(numbers)),
      matcher_(std::move(matcher), buffers_->vocab_size, counters_),
      path_(matcher_, buffers_->num_nodes()),
      contents_(static_cast<size_t>(buffers_->num_nodes())),
      lookup_(std::move(lookup)),
      restart_(std::move(restart)) {
  const int num_nodes = buffers_->num_nodes();
  given_.reserve(num_nodes);
  for (int node = 0; node < num_nodes; ++node) given_.push_back({node - 1, -1});
  for (int node = 1; node <= buffers_->max_chain_len(); ++node) accepted_.push_back(node);
  stage_.reserve(num_nodes);
  proposed_.reserve(num_nodes);
}

// Runs an operation that must not throw, and counts it as done whatever happens in it.
template <typename Function>
void Walk::guarded(int64_t iteration, Function function) {
  matcher_.enter(iteration);
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
    counters_->mine().busy_ns.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count(),
                                        std::memory_order_relaxed);
  }
  num_done_.fetch_add(1, std::memory_order_release);
}

void Walk::start(int64_t iteration) {
  guarded(iteration, [this] {
    if (matcher_.is_terminated()) return finish();
    fill(0);
    require_way_out();
  });
}

void Walk::golden(int64_t iteration, int num_accepted, int32_t token, DraftLimits limits, Haste haste) {
  guarded(iteration, [&] {
    settle_guesses();
    limits_ = limits;
    const int num_followed = path_.num_followed(accepted_, num_accepted);
    take_verified(num_followed, token);
    learn_spelling(num_followed, token);
    const int last = num_followed == 0 ? 0 : accepted_[static_cast<size_t>(num_followed) - 1];
    if (path_[last].is_ended) return finish();  // drafts that were verified beyond the end token do not count
    if (num_accepted > num_followed) return fail(why_not_followed(num_followed, num_accepted));
    if (failure_of([&] { path_.move_to(last); })) path_.move_to(last);
    for (int i = 0; i < num_followed; ++i) tokens_.push_back(path_[accepted_[static_cast<size_t>(i)]].token);
    path_.take_root();
    failures_.clear();
    if (token < 0) return is_free_ ? void() : fail("the grammar allows no token " + after_tokens());
    if (!matcher_.accept(token)) return fail_by_refusal(token);
    tokens_.push_back(token);
    if (matcher_.is_terminated()) return finish();
    if (may_guess(haste)) return fill_at_once(0);
    fill(0);
    require_way_out();
    if (!is_failed()) propose();
  });
}

void Walk::drafts(int64_t iteration, int begin, int end, Haste haste) {
  guarded(iteration, [&] {
    if (!may_guess(haste)) settle_guesses();
    if (failure_of([&] { forget_drafts(begin); })) forget_drafts(begin);
    stage_.clear();
    for (int node = begin; node < end; ++node) {
      const Given& draft = given_[static_cast<size_t>(node)];
      if (draft.token < 0) continue;
      if (draft.parent < 0 || draft.parent >= begin) {
        return fail("draft " + std::to_string(node) + " is behind draft " + std::to_string(draft.parent) +
                    ", which no earlier stage has, " + after_tokens());
      }
      if (!path_[draft.parent].can_go_on() && !path_[draft.parent].is_open) continue;
      path_.add(node, draft.parent, {draft.token, -1});
      stage_.push_back(node);
    }
    path_.sort_depth_first(stage_);
    for (int node : stage_) {
      // The drafter may have guessed because its row was late, but the target relies on what a row allows.
      const WalkPath::Node& draft = path_[node];
      bool is_refused = false;
      const auto failure =
          failure_of([&] { is_refused = may_guess(haste) ? !guess_draft(node) : !take_draft(node); });
      if (failure) fail_draft(node, *failure);
      if (is_refused && allowed(draft.parent, draft.token)) return fail_by_refusal(draft.token);
    }
    if (path_.here() >= begin) propose();
  });
}

// Accepts the draft's token and fills its row. False if the grammar refuses the token.
bool Walk::take_draft(int node) {
  if (!path_.follow(node)) return false;
  if (!path_[node].is_ended) fill(node);
  return true;
}

// Like take_draft, as far as the matcher answers immediately, by a guess if necessary. False if the grammar is known to
// refuse the token.
bool Walk::guess_draft(int node) {
  const std::optional<bool> is_followed = path_.follow_at_once(node);
  if (path_[node].can_go_on()) fill_at_once(node);
  return is_followed.value_or(true);
}

void Walk::settle(int64_t iteration) {
  guarded(iteration, [this] { settle_guesses(); });
}

void Walk::settle_guesses() {
  if (!path_.has_guesses()) return;
  path_.take_guesses();
  failure_of([this] { path_.move_to(0); });
  settle_guess(0);
  for (int node = 1; node < buffers_->num_nodes() && !is_failed(); ++node) {
    if (failures_.count(node) > 0) continue;
    const auto failure = failure_of([&] { settle_guess(node); });
    if (failure) fail_draft(node, *failure);
  }
}

void Walk::settle_guess(int node) {
  const WalkPath::Node& known = path_[node];
  const bool is_exact = !known.is_open && !known.is_guessed;
  const bool is_refused = known.is_open ? !path_.follow_again(node) : known.token >= 0 && !known.is_followed;
  if (is_refused && allowed(known.parent, known.token)) return fail_by_refusal(known.token);
  if (is_exact || !known.can_go_on()) return;
  path_.move_to(node);
  fill(node);
  if (node == 0) require_way_out();
}

// The target may go another way. If it accepts the draft, nothing may follow, and the request ends.
void Walk::fail_draft(int node, const std::string& cause) {
  const int num_drafts = path_[node].depth - (path_[node].is_followed ? 0 : 1);
  failures_[node] = "the matcher failed " + after_tokens(num_drafts) + cause;
  std::fill_n(buffers_->row(slot_, node), buffers_->num_words(), 0);
  path_.mark_failed(node, number_filled(node, {nullptr}));
}

void Walk::forget_drafts(int first) {
  path_.forget_from(first);
  failures_.erase(failures_.lower_bound(first), failures_.end());
}

void Walk::release() {
  matcher_.release();
  restart_ = nullptr;
  if (lookup_) lookup_->finish();
  lookup_.reset();
  released_.store(true, std::memory_order_release);
}

std::optional<std::string> Walk::error() const {
  if (!is_failed()) return std::nullopt;
  std::lock_guard lock(error_mutex_);
  return error_;
}

void Walk::fill(int node) {
  FilledRow row = row_to_fill(node);
  if (matcher_.refill(row)) path_.mark_filled(node, number_filled(node, row));
}

int64_t Walk::number_filled(int node, const FilledRow& row) {
  contents_[static_cast<size_t>(node)] = row.content;
  return numbers_->of(row.content);
}

void Walk::fill_at_once(int node) {
  FilledRow row = row_to_fill(node);
  switch (matcher_.refill_draft(row)) {
    case Matcher::Answer::kYes:
      return path_[node].is_open ? path_.mark_guessed(node, number_filled(node, row))
                                 : path_.mark_filled(node, number_filled(node, row));
    case Matcher::Answer::kYesByGuess:
      return path_.mark_guessed(node, number_filled(node, row));
    case Matcher::Answer::kNoByGuess:
      return path_.mark_guessed(node, 0);
    case Matcher::Answer::kNo:
      return;
  }
}

void Walk::fail(const std::string& message) {
  path_.take_root();
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
  path_.take_root();
  finished_.store(true, std::memory_order_release);
}

bool Walk::allowed(int node, int32_t token) const {
  if (!is_filled(node) || path_[node].is_guessed || token >= buffers_->vocab_size) return false;
  return has_bit(buffers_->row(slot_, node), token);
}

void Walk::require_way_out() {
  if (is_free_) return;
  if (is_empty(buffers_->row(slot_, 0), buffers_->num_words())) fail("the grammar allows no token " + after_tokens());
}

std::string Walk::why_not_followed(int num_followed, int num_accepted) const {
  const auto is_there = static_cast<size_t>(num_followed) < accepted_.size();
  const auto failure = failures_.find(is_there ? accepted_[static_cast<size_t>(num_followed)] : -1);
  if (failure != failures_.end()) return failure->second;
  return "the verification accepted " + std::to_string(num_accepted) + " drafts where the grammar follows " +
         std::to_string(num_followed) + ", " + after_tokens();
}

std::string Walk::after_tokens(int num_drafts) const {
  const size_t num_tokens = tokens_.size() + static_cast<size_t>(num_drafts);
  return "after " + std::to_string(num_tokens) + (num_tokens == 1 ? " token" : " tokens");
}

}  // namespace specguide
