// Owns what the executor's callbacks do: read tokens, start the walks' operations, wait for them, and publish which
// rows are valid.
#include <algorithm>
#include <utility>

#include "grammar_executor.h"

namespace specguide {

namespace {

// How often per deadline a waiting callback looks for stuck workers.
constexpr int kLooksPerDeadline = 4;

// Operations that are pushed at once: workers begin with them while the callback prepares others.
constexpr size_t kPushedTogether = 16;

}  // namespace

void GrammarExecutor::run_callback(int index) noexcept {
  const auto begin = Clock::now();
  try {
    index == 0 ? begin_iteration() : advance(index);
  } catch (const std::exception& error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = "grammar callback " + std::to_string(index) + " failed: " + error.what();
  }
  const auto end = Clock::now();
  callback_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
  callback_log_.add(iteration_, index, begin, end);
}

// Callback 0, beside the target forward: completes the paths, then publishes which rows and which slots are valid.
void GrammarExecutor::begin_iteration() {
  const auto last = std::exchange(current_, std::make_shared<Snapshot>());
  current_ = pop_snapshot();
  ++iteration_;
  forget_rows_of_left(*last);
  const auto last_begin = std::exchange(iteration_begin_, Clock::now());
  if (iteration_ > 1) iteration_time_ = iteration_begin_ - last_begin;
  Batch batch(0);
  start(batch);
  for (const Entry& entry : *current_) {
    Progress& progress = progress_of(entry);
    const bool is_left = progress.has_one_left() && push_token(batch, progress, progress.next_token);
    progress.next_token = buffers_->num_draft_tokens + 1;
    progress.limits = entry.limits;
    if (entry.started && !entry.walk->is_free()) {
      push(batch, progress, [walk = entry.walk, i = iteration_] { walk->start(i); });
    } else if (!is_left && !progress.late &&
               (progress.in_time() ? entry.walk->has_guesses() : buffers_->has_proposals())) {
      push(batch, progress, [walk = entry.walk, i = iteration_] { walk->settle(i); });
    }
  }
  push_rest(batch);
  finish(batch);
  for (const Entry& entry : *current_) set_target_flags(progress_of(entry));
}

// Clears the row numbers of slots that have left the iteration, so that the device is never given old numbers. They are
// published again if the slot comes back.
void GrammarExecutor::forget_rows_of_left(const Snapshot& last) {
  for (const Entry& entry : *current_) in_iteration_[entry.walk->slot()] = iteration_;
  for (const Entry& entry : last) {
    const int slot = entry.walk->slot();
    if (in_iteration_[slot] == iteration_) continue;
    for (int node = 0; node < buffers_->num_nodes(); ++node) buffers_->fill_ids[buffers_->row_index(slot, node)] = 0;
  }
}

// The callbacks after the verification and after each draft step: callback `index` takes the model's token index - 1,
// and publishes what follows from it.
void GrammarExecutor::advance(int index) {
  Batch batch(index);
  std::vector<Progress*> advancing;
  start(batch);
  for (const Entry& entry : *current_) {
    Progress& progress = progress_of(entry);
    const bool is_next = progress.next_token == index - 1;
    if (is_next && push_token(batch, progress, index - 1)) advancing.push_back(&progress);
  }
  push_rest(batch);
  finish(batch);
  for (Progress* progress : advancing) publish(*progress, index - 1);
}

// Publishes the rows of the accepted tokens, and the walk's own proposals behind them.
void GrammarExecutor::publish(Progress& progress, int model_token) {
  const Walk& walk = *progress.walk;
  const int slot = walk.slot();
  const bool in_time = progress.in_time();
  const auto [begin, end] = buffers_->stage(model_token);
  if (!in_time) {
    progress.late_for_drafts = true;
    if (!walk.is_free()) late_draft_rows_ += end - begin;
  }
  for (int node = begin; node < end; ++node) {
    const int64_t fill_id = in_time ? row_numbers_->told(walk.fill_id(node)) : 0;
    buffers_->fill_ids[buffers_->row_index(slot, node)] = fill_id;
    if (in_time && walk.is_guessed(node)) ++(fill_id != 0 ? guessed_draft_rows_ : late_draft_rows_);
  }
  if (!buffers_->has_proposals()) return;
  if (in_time) {
    for (const Walk::Draft& draft : walk.proposed()) {
      const size_t index = buffers_->node_index(slot, ++progress.chain_len);
      buffers_->tokens[index] = draft.token;
      buffers_->origins[index] = static_cast<uint8_t>(draft.origin);
    }
  }
  const bool is_closed = progress.next_token <= buffers_->num_draft_tokens && !progress.may_grow();
  buffers_->chain_len[slot] = is_closed ? buffers_->max_chain_len() : progress.chain_len;
}

std::shared_ptr<const GrammarExecutor::Snapshot> GrammarExecutor::pop_snapshot() {
  std::lock_guard lock(mutex_);
  if (snapshots_.empty()) throw EngineError("an iteration began without a snapshot: submit one for each iteration");
  auto snapshot = std::move(snapshots_.front());
  snapshots_.pop_front();
  return snapshot;
}

GrammarExecutor::Progress& GrammarExecutor::progress_of(const Entry& entry) {
  Progress& progress = progress_[entry.walk->slot()];
  if (progress.walk != entry.walk) {
    progress = {};
    progress.walk = entry.walk;
    progress.next_token = buffers_->num_draft_tokens + 1;
  }
  return progress;
}

// False if there is nothing to take: the request has ended, the step held its slot, or the chain is full.
bool GrammarExecutor::push_token(Batch& batch, Progress& progress, int model_token) {
  const Walk& walk = *progress.walk;
  if (model_token == 0 && buffers_->num_accepted[walk.slot()] >= 0) clear_chain(progress);
  if (walk.is_failed() || walk.is_finished() || walk.is_detached()) return false;
  if (!(model_token == 0 ? push_golden(batch, progress) : push_drafts(batch, progress, model_token))) {
    progress.next_token = buffers_->num_draft_tokens + 1;
    return false;
  }
  progress.next_token = model_token + 1;
  return true;
}

bool GrammarExecutor::push_golden(Batch& batch, Progress& progress) {
  const std::shared_ptr<Walk>& walk = progress.walk;
  const int num_accepted = buffers_->num_accepted[walk->slot()];
  if (num_accepted < 0) return false;  // its path is unchanged
  const int32_t token = buffers_->token(walk->slot(), 0);
  if (!walk->has_operations()) return true;
  if (buffers_->is_tree()) {
    const int depth = buffers_->num_draft_tokens;
    const int32_t* path = buffers_->accepted_path + static_cast<size_t>(walk->slot()) * depth;
    for (int i = 0; i < std::min(num_accepted, depth); ++i) walk->give_accepted(i, path[i]);
  }
  push(batch, progress, [walk, i = iteration_, num_accepted, token, limits = progress.limits, haste = haste_of(batch)] {
    walk->golden(i, num_accepted, token, limits, haste);
  });
  return true;
}

bool GrammarExecutor::push_drafts(Batch& batch, Progress& progress, int model_token) {
  const std::shared_ptr<Walk>& walk = progress.walk;
  if (!progress.may_grow()) return false;
  GrammarBuffers::Stage stage = buffers_->stage(model_token);
  if (buffers_->has_proposals()) {
    const int node = ++progress.chain_len;
    buffers_->origins[buffers_->node_index(walk->slot(), node)] = static_cast<uint8_t>(DraftOrigin::kModel);
    stage = {node, node + 1};
  } else if (buffers_->is_tree() && model_token == progress.limits.num_draft_tokens) {
    stage.end = buffers_->num_nodes();
  }
  if (!walk->has_operations()) return true;
  for (int node = stage.begin; node < stage.end; ++node) {
    walk->give_draft(node, buffers_->parent(walk->slot(), node), buffers_->token(walk->slot(), node));
  }
  push(batch, progress, [walk, i = iteration_, stage, haste = haste_of(batch)] {
    walk->drafts(i, stage.begin, stage.end, haste);
  });
  return true;
}

void GrammarExecutor::clear_chain(Progress& progress) {
  progress.chain_len = 0;
  if (!buffers_->has_proposals()) return;
  const int slot = progress.walk->slot();
  const size_t first = buffers_->node_index(slot, 1), num_drafts = static_cast<size_t>(buffers_->max_chain_len());
  std::fill_n(buffers_->tokens + first, num_drafts, -1);
  std::fill_n(buffers_->origins + first, num_drafts, static_cast<uint8_t>(DraftOrigin::kNone));
  buffers_->chain_len[slot] = 0;
}

template <typename Function>
void GrammarExecutor::push(Batch& batch, Progress& progress, Function function) {
  if (progress.in_time()) progress.late = progress.late_for_drafts = false;
  ++progress.num_pushed;
  ThreadPool::Operation operation{std::move(function), nullptr};
  if (!progress.late && !(batch.is_for_drafts() && progress.late_for_drafts)) {
    batch.countdown->expect();
    operation.countdown = batch.countdown;
  }
  batch.operations.emplace_back(ThreadPool::LaneRef(progress.walk, &progress.walk->lane()), std::move(operation));
  if (batch.operations.size() == kPushedTogether) push_rest(batch);
}

void GrammarExecutor::start(Batch& batch) {
  batch.end = Clock::now() + waits_.deadline;
  batch.operations.reserve(kPushedTogether);
  pool_.rank_again();
}

void GrammarExecutor::push_rest(Batch& batch) {
  if (batch.operations.empty()) return;
  pool_.push(std::exchange(batch.operations, {}));
  batch.operations.reserve(kPushedTogether);
}

// Waits until its operations are done, or until the forward stream has waited for their rows for `wait_when_needed`.
void GrammarExecutor::wait_until_needed(Batch& batch) {
  const auto is_needed = [&] { return load_word(buffers_->needed) > batch.callback; };
  if (wait(*batch.countdown, batch.end, is_needed)) return;
  batch.end = std::min(batch.end, Clock::now() + wait_when_needed(batch));
}

void GrammarExecutor::finish(Batch& batch) {
  const bool waits_by_gain = is_tail(batch) && !waits_.target;
  if (!waits_by_gain && wait_when_needed(batch) < waits_.deadline) wait_until_needed(batch);
  const bool is_done = waits_by_gain ? wait_for_tail(batch) : wait(*batch.countdown, batch.end, nullptr);
  if (!is_done) batch.countdown->give_up();
}

// Draft rows may be guessed only if the wait for them is shorter than for other rows.
Walk::Haste GrammarExecutor::haste_of(const Batch& batch) const {
  const bool is_hasty = batch.is_for_drafts() && waits_.draft < waits_.deadline;
  return is_hasty ? Walk::Haste::kForDrafts : Walk::Haste::kNone;
}

Clock::duration GrammarExecutor::wait_when_needed(const Batch& batch) const {
  if (batch.is_for_drafts() && !is_tail(batch)) return waits_.draft;
  return waits_.target.value_or(iteration_time_ / std::max<int64_t>(1, current_->size()));
}

// A request that goes on without its proposals may lose an iteration's gain. So everyone waits as long as the requests
// still missing would lose more than all requests lose by waiting.
bool GrammarExecutor::wait_for_tail(const Batch& batch) {
  const auto time_each = iteration_time_ / std::max<int64_t>(1, current_->size());
  Countdown& countdown = *batch.countdown;
  std::optional<Clock::time_point> needed_since;
  return wait(countdown, batch.end, [&] {
    const auto now = Clock::now();
    if (!needed_since && load_word(buffers_->needed) > batch.callback) needed_since = now;
    return needed_since && now - *needed_since >= time_each * countdown.num_left();
  });
}

// True when all operations are done. If a worker is stuck in one operation, another worker stands in for it, so that
// the operations of other requests continue.
bool GrammarExecutor::wait(Countdown& countdown, Clock::time_point end, const std::function<bool()>& stop) {
  const auto look = waits_.deadline / kLooksPerDeadline;
  while (true) {
    pool_.compensate(look);
    const auto until = std::min(Clock::now() + look, end);
    if (stop ? countdown.wait_until(until, stop) : countdown.wait_until(until)) return true;
    if (Clock::now() >= end || (stop && stop())) return false;
  }
}

void GrammarExecutor::set_target_flags(Progress& progress) {
  const Walk& walk = *progress.walk;
  const bool counts = !walk.is_free() && !walk.is_detached() && !walk.is_finished();
  const bool in_time = progress.in_time();
  const bool failed = walk.is_failed();
  const bool is_ready = counts && in_time && !failed;
  for (int node = 0; node < buffers_->num_nodes(); ++node) {
    buffers_->fill_ids[buffers_->row_index(walk.slot(), node)] = is_ready ? row_numbers_->told(walk.fill_id(node)) : 0;
  }
  buffers_->held[walk.slot()] = counts && !is_ready;
  if (is_ready || (walk.is_free() && buffers_->has_proposals())) progress.next_token = 0;
  if (!counts || failed) return;
  ++iterations_;
  if (is_ready) return;
  progress.late = true;
  ++held_;
}

}  // namespace specguide
