// Owns one request's operations: it accepts the golden token, then the drafts, and fills a row of the grammar after
// each. Behind the golden token, or behind the last but one of a model's drafts, it may propose drafts itself: first
// what the grammar forces, then what a lookup finds. A chain is a tree in which each draft is behind the one before it.
//
// A walk belongs to one slot from the request's first iteration to its end. Its operations run on worker threads, one
// at a time and in order; `num_done` publishes their results to the callback thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "counted_matcher.h"
#include "grammar_buffers.h"
#include "lookup.h"
#include "row_numbers.h"
#include "thread_pool.h"
#include "walk_path.h"

namespace specguide {

class Walk {
 public:
  // Makes a matcher that has accepted these tokens of the walk. Throws if that is impossible.
  using Restart = std::function<std::shared_ptr<Matcher>(const std::vector<int32_t>&)>;

  // A null matcher is a free request: its rows are free, and without a lookup it has no operations. Without `restart`,
  // a matcher that fails at a draft ends its request, whichever way the target goes.
  Walk(int slot, std::shared_ptr<Matcher> matcher, std::unique_ptr<Lookup> lookup, double least_probability,
       std::shared_ptr<Spelling> spelling, std::shared_ptr<const GrammarBuffers> buffers,
       std::shared_ptr<WalkCounters> counters, std::shared_ptr<RowNumbers> numbers, Restart restart = nullptr);

  // For the callback thread: the input of an operation that has not been pushed yet. Only that operation reads it; the
  // accepted drafts are given after all operations before it are done. For a chain the parents and the accepted drafts
  // are known.
  void give_draft(int node, int parent, int32_t token) { given_[static_cast<size_t>(node)] = {parent, token}; }
  void give_accepted(int index, int node) { accepted_[static_cast<size_t>(index)] = node; }

  // Whether rows are only needed for the next draft, so that a guess suffices: the exact ones are filled before
  // anything is verified.
  enum class Haste { kNone, kForDrafts };

  // Operations, for workers only. `iteration` is the one whose budget they count towards.

  // Fills row 0 in the matcher's start state.
  void start(int64_t iteration);
  // Moves to the last of the `num_accepted` drafts that the verification accepted, accepts the golden token that it
  // chose (-1: its row allowed none), and fills row 0. The tree is dropped; `limits` apply to the following drafts.
  void golden(int64_t iteration, int num_accepted, int32_t token, DraftLimits limits, Haste haste);
  // Accepts the drafts `begin` … `end` - 1 (token -1: there is none), each behind its parent, as far as the grammar
  // allows them, and fills their rows. First it takes back what the walk proposed itself in a chain from `begin` on,
  // which came too late to count.
  void drafts(int64_t iteration, int begin, int end, Haste haste);
  // Asks the matcher again for everything that was guessed. Whoever waits for it waits for all operations before it.
  void settle(int64_t iteration);
  // Releases matcher and lookup. Call it only when no operation runs or will run.
  void release();

  // A draft that the walk proposed itself.
  struct Draft {
    int32_t token;
    DraftOrigin origin;
  };

  // Any thread may call these.
  void mark_detached() { detached_.store(true, std::memory_order_release); }
  bool is_detached() const { return detached_.load(std::memory_order_acquire); }
  int slot() const { return slot_; }
  bool is_free() const { return is_free_; }
  bool has_operations() const { return has_operations_; }
  bool is_failed() const { return failed_.load(std::memory_order_acquire); }
  bool is_finished() const { return finished_.load(std::memory_order_acquire); }  // the end token is verified
  bool is_released() const { return released_.load(std::memory_order_acquire); }
  int64_t num_done() const { return num_done_.load(std::memory_order_acquire); }  // number of operations
  std::optional<std::string> error() const;
  ThreadPool::Lane& lane() { return lane_; }

  // True if the row of `node` holds what may follow it. Call it only while no operation is in progress.
  bool is_filled(int node) const { return path_[node].fill_id != 0; }
  // The number of the row of `node`, see RowNumbers; 0 if it is not filled.
  int64_t fill_id(int node) const { return path_[node].fill_id; }
  // True if the row of `node` was filled for a similar state, or if nothing was known immediately.
  bool is_guessed(int node) const { return path_[node].is_guessed; }
  // Whether an operation without haste must run before its rows are valid. Call it only while no operation is in
  // progress.
  bool has_guesses() const { return path_.has_guesses(); }
  // The drafts that the last operation proposed behind its tokens. Call it only while no operation is in progress.
  const std::vector<Draft>& proposed() const { return proposed_; }

 private:
  template <typename Function>
  void guarded(int64_t iteration, Function function);
  void take_verified(int num_accepted, int32_t token);
  void learn_spelling(int num_accepted, int32_t token);
  bool take_draft(int node);
  bool guess_draft(int node);
  void settle_guesses();
  void settle_guess(int node);
  template <typename Function>
  std::optional<std::string> failure_of(Function function);
  void fail_draft(int node, const std::string& cause);
  void forget_drafts(int first);
  bool may_guess(Haste haste) const { return haste == Haste::kForDrafts && !buffers_->has_proposals(); }
  void propose();
  int most_forced() const;
  SpeltToken forced_draft(int limit);
  SpeltToken looked_up_draft();
  void fill(int node);
  void fill_at_once(int node);
  FilledRow row_to_fill(int node) {
    return {buffers_->row(slot_, node), std::exchange(contents_[static_cast<size_t>(node)], 0)};
  }
  int64_t number_filled(int node, const FilledRow& row);
  void fail(const std::string& message);
  void fail_by_refusal(int32_t token);
  void finish();
  bool allowed(int node, int32_t token) const;
  void require_way_out();
  std::string why_not_followed(int num_followed, int num_accepted) const;
  std::string after_tokens(int num_drafts = 0) const;  // "after 12 tokens", including these drafts

  const int slot_;
  const bool is_free_, has_operations_;
  const double least_probability_;
  const std::shared_ptr<Spelling> spelling_;
  const std::shared_ptr<const GrammarBuffers> buffers_;
  const std::shared_ptr<WalkCounters> counters_;
  const std::shared_ptr<RowNumbers> numbers_;

  // Written by the callback thread, then read by an operation.
  struct Given {
    int parent;
    int32_t token;
  };
  std::vector<Given> given_;   // by node
  std::vector<int> accepted_;  // nodes, from the root on

  // Used by operations only.
  CountedMatcher matcher_;
  WalkPath path_;
  std::vector<int64_t> contents_;  // content numbers of the rows, by node, see FilledRow
  std::unique_ptr<Lookup> lookup_;
  DraftLimits limits_;
  std::vector<int> stage_;  // nodes
  std::vector<Draft> proposed_;
  std::vector<SpeltToken> forced_;  // still to come, the next one last
  double probability_ = 1;          // of the chain's looked-up tokens, as estimated
  std::vector<int32_t> tokens_;     // verified ones, which the matcher has accepted
  std::map<int, std::string> failures_;  // of the matcher at drafts, by node
  Restart restart_;

  std::atomic<int64_t> num_done_{0};
  std::atomic<bool> failed_{false}, finished_{false}, detached_{false}, released_{false};
  mutable std::mutex error_mutex_;
  std::string error_;
  ThreadPool::Lane lane_;
};

// Calls the matcher for the sake of drafts. If it fails, its state is unknown: a new matcher replaces it, which
// continues from the verified tokens, and the cause of the failure is returned.
template <typename Function>
std::optional<std::string> Walk::failure_of(Function function) {
  std::string cause;
  try {
    function();
    return std::nullopt;
  } catch (const std::exception& error) {
    if (!restart_) throw;
    cause = std::string(": ") + error.what();
  } catch (...) {
    if (!restart_) throw;
  }
  matcher_.replace(restart_(tokens_));
  path_.restart();
  return cause;
}

}  // namespace specguide
