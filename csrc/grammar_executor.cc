// Owns the host's side of the executor: snapshots, slots, errors and counters; see grammar_executor.h.
#include "grammar_executor.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace specguide {

namespace {

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

void check_tree(const GrammarBuffers& buffers) {
  const std::vector<int>& begins = buffers.stage_begins;
  require(begins.size() == static_cast<size_t>(buffers.num_draft_tokens) + 2,
          "stage_begins needs num_draft_tokens + 2 entries: where each stage begins, and where the last one ends");
  require(begins[0] == 0 && begins[1] == 1, "stage_begins must begin with 0, 1: stage 0 is the golden token alone");
  require(std::adjacent_find(begins.begin(), begins.end(), std::greater_equal<>()) == begins.end(),
          "stage_begins must rise: a stage has at least one node");
  require(!buffers.has_proposals(), "forced and looked-up drafts go with chains, not with trees");
  require(buffers.parents && buffers.accepted_path, "every buffer of a tree needs its address");
}

GrammarBuffers checked(GrammarBuffers buffers, int num_threads, const GrammarExecutor::Waits& waits, bool has_lookup) {
  require(buffers.max_batch_size >= 1, "max_batch_size must be at least 1");
  require(buffers.num_draft_tokens >= 0, "num_draft_tokens must not be negative");
  require(buffers.vocab_size >= 1, "vocab_size must be at least 1");
  require(num_threads >= 1, "num_threads must be at least 1");
  require(waits.deadline > Clock::duration::zero(), "deadline_us must be at least 1");
  require(waits.draft >= Clock::duration::zero(), "draft_wait_us must not be negative");
  require(waits.target.value_or(waits.deadline) >= Clock::duration::zero(), "target_wait_us must not be negative");
  require(
      buffers.bitmask && buffers.fill_ids && buffers.held && buffers.tokens && buffers.num_accepted && buffers.needed,
      "every buffer needs its address");
  require(buffers.num_forced_tokens >= 0, "num_forced_tokens must not be negative");
  require((buffers.num_lookup_tokens > 0) == has_lookup && buffers.num_lookup_tokens >= 0,
          "num_lookup_tokens must be positive with a lookup, and 0 without one");
  require(buffers.num_lookup_tokens == 0 || buffers.num_draft_tokens == 0, "lookups go without a draft model");
  require(!buffers.has_proposals() || (buffers.chain_len && buffers.origins),
          "every buffer of the proposals needs its address");
  if (buffers.is_tree()) check_tree(buffers);
  const int num_rows = buffers.max_batch_size * buffers.num_nodes();
  require(buffers.num_kept_rows == 0 || buffers.num_kept_rows >= 4 * num_rows,
          "num_kept_rows must be at least four times the rows, or 0");
  return buffers;
}

GrammarExecutor::Waits waits_of(const ExecutorOptions& options) {
  using std::chrono::microseconds;
  GrammarExecutor::Waits waits{microseconds(options.deadline_us),
                               microseconds(options.draft_wait_us.value_or(options.deadline_us)),
                               {}};
  if (options.target_wait_us) waits.target = microseconds(*options.target_wait_us);
  return waits;
}

}  // namespace

GrammarExecutor::GrammarExecutor(GrammarBuffers buffers, const ExecutorOptions& options,
                                 std::shared_ptr<LookupSource> lookup)
    : GrammarExecutor(std::move(buffers), options.num_threads, waits_of(options), std::move(lookup)) {}

GrammarExecutor::GrammarExecutor(GrammarBuffers buffers, int num_threads, Waits waits,
                                 std::shared_ptr<LookupSource> lookup)
    : buffers_(std::make_shared<GrammarBuffers>(checked(std::move(buffers), num_threads, waits, lookup != nullptr))),
      waits_(waits),
      lookup_(std::move(lookup)),
      spelling_(std::make_shared<Spelling>(buffers_->num_forced_tokens > 0 ? buffers_->vocab_size : 0)),
      row_numbers_(std::make_shared<RowNumbers>(buffers_->num_kept_rows)),
      slots_(buffers_->max_batch_size),
      current_(std::make_shared<Snapshot>()),
      progress_(buffers_->max_batch_size),
      in_iteration_(buffers_->max_batch_size),
      iteration_time_(waits.deadline),
      pool_(num_threads, num_threads + buffers_->max_batch_size, waits.deadline) {}

GrammarExecutor::~GrammarExecutor() {
  for (int slot = 0; slot < buffers_->max_batch_size; ++slot) detach(slot);
}

void GrammarExecutor::submit(std::vector<Start> started, const std::vector<int>& continued,
                             std::optional<DraftLimits> iteration_limits) {
  const DraftLimits limits = iteration_limits.value_or(buffers_->limits());
  std::lock_guard lock(mutex_);
  check_snapshot(started, continued, limits);
  auto snapshot = std::make_shared<Snapshot>();
  for (Start& start : started) {
    Slot& slot = slots_[start.slot];
    slot.leaving = nullptr;
    slot.walk = std::make_shared<Walk>(start.slot, std::move(start.matcher),
                                       lookup_ ? lookup_->start(std::move(start.text)) : nullptr,
                                       lookup_ ? lookup_->least_probability() : 0, spelling_, buffers_, walk_counters_,
                                       row_numbers_, std::move(start.restart));
    slot.limits = start.limits.value_or(buffers_->limits());
    snapshot->push_back({slot.walk, slot.limits.and_also(limits), true});
  }
  for (int slot : continued) {
    snapshot->push_back({slots_[slot].walk, slots_[slot].limits.and_also(limits), false});
  }
  snapshots_.push_back(std::move(snapshot));
}

void GrammarExecutor::check_snapshot(const std::vector<Start>& started, const std::vector<int>& continued,
                                     const DraftLimits& limits) {
  if (!limits.is_within(buffers_->limits())) {
    throw std::invalid_argument("an iteration has limits of drafts beyond the executor's");
  }
  std::vector<bool> named(slots_.size());
  const auto check_new = [&](int slot) {
    check_slot(slot);
    if (named[slot]) throw std::invalid_argument("slot " + std::to_string(slot) + " is named twice in one iteration");
    named[slot] = true;
  };
  for (const Start& start : started) {
    check_new(start.slot);
    if (start.limits && !start.limits->is_within(buffers_->limits())) {
      throw std::invalid_argument("slot " + std::to_string(start.slot) + " has limits of drafts beyond the executor's");
    }
    if (is_idle_locked(slots_[start.slot])) continue;
    throw std::invalid_argument("slot " + std::to_string(start.slot) + " is busy: detach it and wait until it is idle");
  }
  for (int slot : continued) {
    check_new(slot);
    if (!slots_[slot].walk) throw std::invalid_argument("slot " + std::to_string(slot) + " has no request to continue");
  }
}

void GrammarExecutor::check_slot(int slot) const {
  if (slot >= 0 && slot < buffers_->max_batch_size) return;
  throw std::invalid_argument("slot " + std::to_string(slot) + " is not in 0 … " +
                              std::to_string(buffers_->max_batch_size - 1));
}

void GrammarExecutor::discard_snapshots() {
  std::lock_guard lock(mutex_);
  snapshots_.clear();
}

void GrammarExecutor::detach(int slot) {
  std::shared_ptr<Walk> walk;
  {
    std::lock_guard lock(mutex_);
    check_slot(slot);
    walk = std::exchange(slots_[slot].walk, nullptr);
    if (walk) slots_[slot].leaving = walk;
  }
  if (!walk) return;
  walk->mark_detached();
  pool_.close(ThreadPool::LaneRef(walk, &walk->lane()), [walk] { walk->release(); });
}

bool GrammarExecutor::is_idle_locked(Slot& slot) const {
  if (slot.leaving && slot.leaving->is_released()) slot.leaving = nullptr;
  return !slot.walk && !slot.leaving;
}

bool GrammarExecutor::is_idle(int slot) {
  std::lock_guard lock(mutex_);
  check_slot(slot);
  return is_idle_locked(slots_[slot]);
}

std::optional<std::string> GrammarExecutor::error(int slot) const {
  std::lock_guard lock(mutex_);
  check_slot(slot);
  return slots_[slot].walk ? slots_[slot].walk->error() : std::nullopt;
}

void GrammarExecutor::check() const {
  std::lock_guard lock(mutex_);
  if (error_) throw EngineError(*error_);
}

std::vector<HostFunctionRef> GrammarExecutor::callbacks() {
  std::vector<HostFunctionRef> functions;
  const int num_callbacks = 1 + std::max(buffers_->num_draft_tokens, buffers_->has_proposals() ? 1 : 0);
  for (int i = 0; i < num_callbacks; ++i) {
    auto call = [self = shared_from_this(), i] { self->run_callback(i); };
    functions.push_back(std::make_shared<HostFunction>(HostFunction{"grammar callback " + std::to_string(i), call}));
  }
  return functions;
}

ExecutorCounters GrammarExecutor::counters() const {
  using Counts = WalkCounters::Counts;
  const WalkCounters& walks = *walk_counters_;
  ExecutorCounters counters{};
  counters.accepts = walks.sum(&Counts::accepts);
  counters.fills = walks.sum(&Counts::fills);
  counters.rollbacks = walks.sum(&Counts::rollbacks);
  counters.busy_ns = walks.sum(&Counts::busy_ns);
  counters.max_accepts = walks.max(&Counts::max_accepts);
  counters.max_fills = walks.max(&Counts::max_fills);
  counters.max_rollbacks = walks.max(&Counts::max_rollbacks);
  counters.iterations = iterations_;
  counters.held = held_;
  counters.late_draft_rows = late_draft_rows_;
  counters.guessed_draft_rows = guessed_draft_rows_;
  counters.callback_ns = callback_ns_;
  return counters;
}

}  // namespace specguide
