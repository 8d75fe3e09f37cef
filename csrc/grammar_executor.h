// Owns the walks of all slots: the host callbacks of an iteration drive them, and the host starts and detaches them.
//
// Callback 0 publishes which target rows are valid. Callback 1 takes the golden token, callback j + 1 the model's draft
// j; the last draft is taken by callback 0 of the next iteration. An iteration that drafts less, because of its own
// limits, omits the last callbacks, and leaves its last token, which may be the golden one, to the next iteration.
// Proposals are placed by the callback that takes the token before them: the golden one, or the last but one of a
// model's drafts. Only callbacks write proposals and chain lengths, and only for walks that are in time. In a tree a
// "draft" is a whole stage, whose tokens and parents are read only by its callback.
//
// The host submits one immutable snapshot per iteration; apart from the buffers nothing else is shared between the two.
// Callbacks run on one thread (the stream's), operations on the pool's workers, everything else anywhere. A callback
// waits at most until its deadline, or until the forward stream has waited for its rows long enough, and never throws.
// Rows are written only by workers, flags only by callbacks.
//
// The word `needed` counts the callbacks of the iteration whose rows the forward stream is waiting for, or soon will
// be. Whoever launches callback 0 resets it to 0 before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "callback_log.h"
#include "lookup.h"
#include "stream.h"
#include "thread_pool.h"
#include "walk.h"

namespace specguide {

// Totals since construction.
//
// iterations:         guided requests in iterations, each counted once per iteration
// held:               guided requests in iterations that accepted nothing
// late_draft_rows:    rows that the drafter had to do without
// guessed_draft_rows: rows of similar states that the drafter used in place of exact ones
// max_*:              the maximum per iteration and guided request
struct ExecutorCounters {
  int64_t accepts, fills, rollbacks;
  int64_t iterations, held, late_draft_rows, guessed_draft_rows;
  int64_t callback_ns, busy_ns;
  int64_t max_accepts, max_fills, max_rollbacks;
};

// How long callbacks wait, in microseconds, and how many workers walk. The default of draft_wait_us is deadline_us; for
// that of target_wait_us see `Waits`.
struct ExecutorOptions {
  int num_threads = 1;
  int64_t deadline_us = 0;
  std::optional<int64_t> draft_wait_us = {}, target_wait_us = {};
};

class GrammarExecutor : public std::enable_shared_from_this<GrammarExecutor> {
 public:
  // Longest waits for rows. `deadline` counts from the beginning of a callback, the others from when `needed` reaches
  // it; if they are no shorter than the deadline, `needed` is not looked at. The default for target rows is an
  // iteration's time divided by the number of its requests: that is what holding one of them costs.
  struct Waits {
    Clock::duration deadline, draft;
    std::optional<Clock::duration> target;
  };
  // lookup: finds the looked-up drafts; null: there are none
  GrammarExecutor(GrammarBuffers buffers, const ExecutorOptions& options,
                  std::shared_ptr<LookupSource> lookup = nullptr);
  GrammarExecutor(GrammarBuffers buffers, int num_threads, Waits waits, std::shared_ptr<LookupSource> lookup = nullptr);
  ~GrammarExecutor();

  // matcher: null for a free request
  // text:    the request's tokens so far, for lookups
  // limits:  limits of its chains; none: those of the buffers
  // restart: makes its matcher again; null: that is not possible
  struct Start {
    Start(int slot_, std::shared_ptr<Matcher> matcher_, std::vector<int32_t> text_ = {},
          std::optional<DraftLimits> limits_ = {}, Walk::Restart restart_ = nullptr)
        : slot(slot_),
          matcher(std::move(matcher_)),
          text(std::move(text_)),
          limits(limits_),
          restart(std::move(restart_)) {}
    int slot;
    std::shared_ptr<Matcher> matcher;
    std::vector<int32_t> text;
    std::optional<DraftLimits> limits;
    Walk::Restart restart;
  };

  // Queues the snapshot of one more iteration, which drafts within `limits` (none: those of the buffers). Throws
  // std::invalid_argument, and queues nothing, for limits beyond the buffers', and for a slot that is out of range,
  // named twice, started while it is busy, or continued without a request.
  void submit(std::vector<Start> started, const std::vector<int>& continued, std::optional<DraftLimits> limits = {});

  // Drops the snapshots of iterations that will not run. Only while no callback runs.
  void discard_snapshots();

  // Takes the request out of the slot; queued snapshots no longer apply to it.
  void detach(int slot);

  // True if another request may start in the slot, because nothing touches its rows any longer.
  bool is_idle(int slot);

  // Why the slot's request failed; it is held until it is detached.
  std::optional<std::string> error(int slot) const;

  // Throws EngineError if the executor as a whole failed.
  void check() const;

  // The callbacks of an iteration, in order; they share ownership of the executor.
  std::vector<HostFunctionRef> callbacks();

  ExecutorCounters counters() const;

  // The times of callbacks, kept once the log has been started.
  CallbackLog& callback_log() { return callback_log_; }

 private:
  // A walk in one iteration's snapshot.
  struct Entry {
    std::shared_ptr<Walk> walk;
    DraftLimits limits;
    bool started;
  };
  using Snapshot = std::vector<Entry>;

  struct Slot {
    std::shared_ptr<Walk> walk;
    DraftLimits limits;
    std::shared_ptr<Walk> leaving;  // a detached walk, perhaps with an operation still running
  };

  // What the callback thread knows about the walk in a slot.
  struct Progress {
    std::shared_ptr<Walk> walk;
    int next_token = 0;      // 0: the golden token comes next; j: the model's draft j; K + 1: the path is complete
    int chain_len = 0;       // number of drafts, if there are proposals
    DraftLimits limits;      // limits of the chain
    int64_t num_pushed = 0;  // operations pushed
    // The wait for its target rows or its draft rows ended without them. Callbacks that fill such rows do not wait for
    // it until it has caught up.
    bool late = false, late_for_drafts = false;
    bool in_time() const { return walk->num_done() == num_pushed; }
    // True if the last token was left to the next iteration: its proposals follow the golden token.
    bool has_one_left() const {
      return next_token == limits.num_draft_tokens && (next_token > 0 || !limits.has_proposals());
    }
    // True if a draft of the model may come next.
    bool may_grow() const { return std::max(next_token, chain_len + 1) <= limits.num_draft_tokens; }
  };

  // The operations of one callback that still have to be pushed, and the countdown of all that it waits for, until
  // `end`.
  struct Batch {
    explicit Batch(int index) : callback(index) {}
    std::vector<std::pair<ThreadPool::LaneRef, ThreadPool::Operation>> operations;
    std::shared_ptr<Countdown> countdown = std::make_shared<Countdown>();
    int callback;
    Clock::time_point end{};
    bool is_for_drafts() const { return callback > 0; }
  };

  void run_callback(int index) noexcept;
  void begin_iteration();
  void forget_rows_of_left(const Snapshot& last);
  void advance(int index);
  std::shared_ptr<const Snapshot> pop_snapshot();
  Progress& progress_of(const Entry& entry);
  bool push_token(Batch& batch, Progress& progress, int model_token);
  bool push_golden(Batch& batch, Progress& progress);
  bool push_drafts(Batch& batch, Progress& progress, int model_token);
  void clear_chain(Progress& progress);
  void publish(Progress& progress, int model_token);
  template <typename Function>
  void push(Batch& batch, Progress& progress, Function function);
  void start(Batch& batch);
  void push_rest(Batch& batch);
  void wait_until_needed(Batch& batch);
  void finish(Batch& batch);
  bool wait_for_tail(const Batch& batch);
  Walk::Haste haste_of(const Batch& batch) const;
  Clock::duration wait_when_needed(const Batch& batch) const;
  bool is_tail(const Batch& batch) const { return batch.callback > buffers_->num_draft_tokens; }
  bool wait(Countdown& countdown, Clock::time_point end, const std::function<bool()>& stop);
  void set_target_flags(Progress& progress);

  void check_slot(int slot) const;
  bool is_idle_locked(Slot& slot) const;
  void check_snapshot(const std::vector<Start>& started, const std::vector<int>& continued, const DraftLimits& limits);

  const std::shared_ptr<const GrammarBuffers> buffers_;
  const Waits waits_;
  const std::shared_ptr<LookupSource> lookup_;
  const std::shared_ptr<Spelling> spelling_;
  const std::shared_ptr<WalkCounters> walk_counters_ = std::make_shared<WalkCounters>();
  const std::shared_ptr<RowNumbers> row_numbers_;
  std::atomic<int64_t> iterations_{0}, held_{0}, late_draft_rows_{0}, guessed_draft_rows_{0}, callback_ns_{0};
  CallbackLog callback_log_;

  mutable std::mutex mutex_;  // guards slots_, snapshots_ and error_
  std::vector<Slot> slots_;
  std::deque<std::shared_ptr<const Snapshot>> snapshots_;
  std::optional<std::string> error_;

  // Used only by the callback thread.
  std::shared_ptr<const Snapshot> current_;
  std::vector<Progress> progress_;  // by slot
  int64_t iteration_ = 0;
  std::vector<int64_t> in_iteration_;  // by slot: the last iteration in which it was
  Clock::time_point iteration_begin_;
  Clock::duration iteration_time_;  // time of the last iteration

  ThreadPool pool_;  // declared last, so that its workers end first
};

}  // namespace specguide
