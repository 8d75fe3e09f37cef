// Owns the way along one request's path: the golden token, then the drafts, a row of the grammar filled after each. Behind
// each token that it is given it may go on by itself: by what the grammar forces, then by what a lookup finds.
//
// A walk belongs to one slot from the request's first iteration to its end. Its operations run on worker threads, one
// at a time and in order; what they leave for the callback thread is published by `num_done`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "guide_buffers.h"
#include "lookup.h"
#include "matcher.h"
#include "thread_pool.h"

namespace specguide {

// What the workers did for all walks of an executor; counted by thread, so that no cache line goes back and forth.
class WalkCounters {
 public:
  struct Counts {
    std::atomic<int64_t> accepts{0}, fills{0}, rollbacks{0}, busy_ns{0};
    std::atomic<int64_t> max_accepts{0}, max_fills{0}, max_rollbacks{0};  // in one iteration of one request
  };

  Counts& mine();
  int64_t sum(std::atomic<int64_t> Counts::*counter) const;
  int64_t max(std::atomic<int64_t> Counts::*counter) const;

 private:
  struct alignas(64) Shard : Counts {};
  std::array<Shard, 32> shards_;  // threads beyond that share
};

class Walk {
 public:
  // A null matcher is a free request: its rows are free, and without a lookup it has no operations.
  Walk(int slot, std::shared_ptr<Matcher> matcher, std::unique_ptr<Lookup> lookup, double least_probability,
       std::shared_ptr<const GuideBuffers> buffers, std::shared_ptr<WalkCounters> counters);

  // Operations, for workers only. `iteration` says whose budget they count towards.

  // Fills row 0 at the matcher's start state.
  void start(int64_t iteration);
  // Takes back the drafts beyond the `num_accepted` that the verification accepted, accepts the golden token that it
  // chose (-1: its row allowed none), and fills row 0.
  void golden(int64_t iteration, int num_accepted, int32_t token);
  // Accepts draft `node` (1 … W; token -1: there is none) and fills its row. What the walk has of the path from there on,
  // which came too late to count, it takes back before.
  void draft(int64_t iteration, int node, int32_t token);
  // Nothing: who waits for it waits for all operations before it.
  void catch_up(int64_t iteration);
  // Lets go of matcher and lookup. Only when no operation runs or will run.
  void release();

  // A draft that the walk went on by.
  struct Draft {
    int32_t token;
    DraftOrigin origin;
  };

  // For any thread.
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

  // True when the row of `node` holds what may follow the current path. Only while no operation is under way.
  bool is_filled(int node) const { return filled_[node] != 0; }
  // What the last operation went on by, behind the token that it was given. Only while no operation is under way.
  const std::vector<Draft>& proposed() const { return proposed_; }

 private:
  template <typename Function>
  void guarded(int64_t iteration, Function function);
  void take_verified(int num_accepted, int32_t token);
  bool take_draft(int32_t token);
  void propose();
  Draft forced_draft(int limit);
  Draft looked_up_draft();
  void give_draft_row();
  bool is_terminated() const { return matcher_ && matcher_->is_terminated(); }
  bool accept(int32_t token);
  void fill(int node);
  void rollback_to(int depth);
  void fail(const std::string& message);
  void fail_by_refusal(int32_t token);
  void finish();
  bool row_allows(int node, int32_t token) const;
  void require_way_out();
  std::string after_tokens() const;  // "after 12 tokens"

  const int slot_;
  const bool is_free_, has_operations_;
  const double least_probability_;
  const std::shared_ptr<const GuideBuffers> buffers_;
  const std::shared_ptr<WalkCounters> counters_;

  // Touched by operations only.
  std::shared_ptr<Matcher> matcher_;
  std::unique_ptr<Lookup> lookup_;
  std::vector<int32_t> path_;  // drafts that the matcher holds
  std::vector<Draft> proposed_;
  std::vector<int32_t> forced_;  // tokens to come, the next one last
  double probability_ = 1;       // of the chain's looked-up tokens, as estimated
  bool stopped_ = false;   // the grammar does not follow the drafts beyond them
  bool ended_ = false;     // the last of them is the end token
  int64_t num_tokens_ = 0;  // verified tokens that the matcher holds
  std::vector<uint8_t> filled_;
  int64_t iteration_ = -1;
  int num_accepts_ = 0, num_fills_ = 0, num_rollbacks_ = 0;  // in iteration_

  std::atomic<int64_t> num_done_{0};
  std::atomic<bool> failed_{false}, finished_{false}, detached_{false}, released_{false};
  mutable std::mutex error_mutex_;
  std::string error_;
  ThreadPool::Lane lane_;
};

}  // namespace specguide
