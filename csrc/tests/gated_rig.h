// Owns an executor with one matcher that waits until a test lets it continue.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "executor_rig.h"

namespace gated {

using namespace specguide;
using namespace std::chrono_literals;
using fake::CalledMatcher;
using fake::FakeMatcher;
using fake::Grammar;
using fake::Path;

// Lets a test decide when an operation continues.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++num_waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return num_waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int num_waiting_ = 0;
};

class GatedMatcher : public FakeMatcher {
 public:
  GatedMatcher(Grammar grammar, std::shared_ptr<Gate> gate, int at)
      : FakeMatcher(grammar), gate_(std::move(gate)), at_(at) {}
  void fill(int32_t* row) override {
    if (++num_fills_ == at_) gate_->pass();
    FakeMatcher::fill(row);
  }

 private:
  const std::shared_ptr<Gate> gate_;
  const int at_;
  int num_fills_ = 0;
};

// An executor in which slot 0's matcher waits at a gate in fill number `at`; matchers of other slots never wait.
struct GatedRig : ExecutorRig {
  GatedRig(int max_batch_size, int num_draft_tokens, int num_threads, GrammarExecutor::Waits waits, int at)
      : ExecutorRig(max_batch_size, num_draft_tokens, num_threads, waits), path(grammar, num_draft_tokens + 1) {
    std::vector<GrammarExecutor::Start> started{{0, std::make_shared<GatedMatcher>(grammar, gate, at)}};
    for (int slot = 1; slot < max_batch_size; ++slot) started.emplace_back(slot, std::make_shared<CalledMatcher>());
    for (int slot = 0; slot < max_batch_size; ++slot) slots.push_back(slot);
    executor->submit(started, {});
  }
  ~GatedRig() { gate->open(); }  // also after a failed check

  // Runs one more iteration up to its first callback.
  void begin() {
    executor->submit({}, slots);
    call(0);
  }

  // Runs to the first iteration in which slot 0 is not held, since a busy machine may miss a deadline; sets its golden
  // token.
  void take_up() {
    call(0);
    for (int i = 0; i < 1000 && held[0] == 1; ++i) {
      std::this_thread::sleep_for(1ms);
      begin();
    }
    token(0, 0) = path.tokens[0];
  }

  // Whether the row of a node is there and is the right one for its place on the path.
  bool has_row(int node) const { return is_guided(0, node) && row(0, node) == grammar.row(path.states[node + 1]); }

  const Grammar grammar{10};
  const Path path;
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::vector<int> slots;
};

// Runs a function on another thread after a delay, and waits for it at the end of the scope.
class Later {
 public:
  Later(Clock::duration delay, std::function<void()> action)
      : thread_([delay, action = std::move(action)] {
          std::this_thread::sleep_for(delay);
          action();
        }) {}
  ~Later() { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace gated
