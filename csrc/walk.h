// Owns one request's operations: it takes the golden token, then the drafts, and fills a row of the grammar after each.
// Behind the golden token, or behind the last draft but one of a model, it may go on by itself: by what the grammar
// forces, then by what a lookup finds. A chain is a tree in which each draft is behind the one before it.
//
// A walk belongs to one slot from the request's first iteration to its end. Its operations run on worker threads, one
// at a time and in order; what they leave for the callback thread is published by `num_done`.
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
  // Makes a matcher that stands behind these tokens of the walk. Throws where that cannot be.
  using Restart = std::function<std::shared_ptr<Matcher>(const std::vector<int32_t>&)>;

  // A null matcher is a free request: its rows are free, and without a lookup it has no operations. Without `restart` a
  // matcher that fails at a draft ends its request, whichever way the target goes.
  Walk(int slot, std::shared_ptr<Matcher> matcher, std::unique_ptr<Lookup> lookup, double least_probability,
       std::shared_ptr<Spelling> spelling, std::shared_ptr<const GrammarBuffers> buffers,
       std::shared_ptr<WalkCounters> counters, std::shared_ptr<RowNumbers> numbers, Restart restart = nullptr);

  // For the callback thread: what an operation that is yet to be pushed takes. Only that operation reads it, and what
  // is accepted is given when all operations before it are done. A chain's parents and accepted drafts are known.
  void give_draft(int node, int parent, int32_t token) { given_[static_cast<size_t>(node)] = {parent, token}; }
  void give_accepted(int index, int node) { accepted_[static_cast<size_t>(index)] = node; }

  // Whether the rows are for the next draft, so that a guess will do: the exact ones come before anything is verified.
  enum class Haste { kNone, kForDrafts };

  // Operations, for workers only. `iteration` says whose budget they count towards.

  // Fills row 0 at the matcher's start state.
  void start(int64_t iteration);
  // Goes to the last of the `num_accepted` drafts that the verification accepted, accepts the golden token that it
  // chose (-1: its row allowed none), and fills row 0. The tree is gone then; `limits` hold for the drafts that follow.
  void golden(int64_t iteration, int num_accepted, int32_t token, DraftLimits limits, Haste haste);
  // Accepts the drafts `begin` … `end` - 1 (token -1: there is none), each behind its parent, as far as the grammar
  // takes them, and fills their rows. What the walk has of a chain from `begin` on, which came too late to count, it
  // takes back before.
  void drafts(int64_t iteration, int begin, int end, Haste haste);
  // Asks the matcher again for all that was guessed. Whoever waits for it waits for all operations before it.
  void settle(int64_t iteration);
  // Lets go of matcher and lookup. Only when no operation runs or will run.
  void release();

  // A draft that the walk went on by.
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
  int64_t num_done() const { return num_done_.load(std::memory_order_acquire); }  // operations
  std::optional<std::string> error() const;
  ThreadPool::Lane& lane() { return lane_; }

  // True when the row of `node` holds what may follow it. Only while no operation is under way.
  bool is_filled(int node) const { return path_[node].fill_id != 0; }
  // The number of the row of `node`, as in RowNumbers; 0 where it is not filled.
  int64_t fill_id(int node) const { return path_[node].fill_id; }
  // True when the row of `node` was filled for a state that is like this one, or when nothing was known at once.
  bool is_guessed(int node) const { return path_[node].is_guessed; }
  // Whether an operation without haste must come before its rows count. Only while no operation is under way.
  bool has_guesses() const { return path_.has_guesses(); }
  // The drafts by which the last operation went on behind the token that it was given. Only while no operation is under
  // way.
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
  std::string after_tokens(int num_drafts = 0) const;  // "after 12 tokens", these drafts included

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

  // Touched by operations only.
  CountedMatcher matcher_;
  WalkPath path_;
  std::vector<int64_t> contents_;  // of the rows, by node, as in FilledRow
  std::unique_ptr<Lookup> lookup_;
  DraftLimits limits_;
  std::vector<int> stage_;  // nodes
  std::vector<Draft> proposed_;
  std::vector<SpeltToken> forced_;  // to come, the next one last
  double probability_ = 1;          // of the chain's looked-up tokens, as estimated
  std::vector<int32_t> tokens_;     // verified ones, which the matcher holds
  std::map<int, std::string> failures_;  // of the matcher at drafts, by node
  Restart restart_;

  std::atomic<int64_t> num_done_{0};
  std::atomic<bool> failed_{false}, finished_{false}, detached_{false}, released_{false};
  mutable std::mutex error_mutex_;
  std::string error_;
  ThreadPool::Lane lane_;
};

// Asks the matcher for the sake of drafts. Where it fails, nothing is known of its state: another one goes on, from the
// verified tokens, and the cause of the failure is returned.
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
