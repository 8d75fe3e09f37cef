// Owns callbacks without host functions: a thread that polls words which streams write, and a thread that watches it.
//
// A launch is three operations of the stream on two words: due := 1; wait until done ≥ 1; done := 0. The polling thread
// finds `due`, takes it back, runs the function and writes its value to `done`. Whoever holds the words of a function
// may call it by other values, so that it need not set them back. Where two functions are due, the one with the smaller
// words comes first. Values in captured graphs are constants, so the words are set and reset. A captured launch keeps
// its words for the replays of its graph, and all captured launches of one function have the same ones, so graphs that
// share a function must not be replayed at once.
//
// When the polling thread ends or is not seen for long, the watching thread starts another, which runs what was due and
// not yet begun and lets the stream go on where a function is through. When that fails again and again, or a function
// takes longer than the stream's timeout, the poller fails for good: it runs nothing more and lets every stream go on,
// and check() says why.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stream.h"

namespace specguide {

// Two words for each function that is captured and each other launch under way: 2 · capacity zeros, in pinned memory
// for a CUDA stream.
struct PollingWords {
  int32_t* words;
  int capacity;
  std::shared_ptr<const void> owner;
};

class Poller : public std::enable_shared_from_this<Poller> {
 public:
  // The threads end when the last owner that `start` made lets go.
  static std::shared_ptr<Poller> start(PollingWords words, Timeout timeout);
  // Ends the threads of all pollers, at the end of the process.
  static void stop_all();

  Poller(PollingWords words, Timeout timeout);

  // Takes two words for a launch of `function`. Words of captured launches are taken until `free` is called as often as
  // `reserve`, any other launch's until its stream has gone on. Throws EngineError when there are none left.
  int reserve(const HostFunctionRef& function, bool is_captured);
  void free(int launch);
  int32_t* due(int launch) const { return words_.words + launch; }
  int32_t* done(int launch) const { return words_.words + words_.capacity + launch; }

  // Throws what a function threw, once, and each time why the poller failed for good.
  void check();

  // For tests; see PollingStream.
  void end_thread(int times, bool after_running) { (after_running ? end_after_ : end_before_) = times; }

 private:
  enum class State {
    kFree,
    kReady,      // the stream may come here
    kRunning,    // the stream has come
    kRan,
    kFinishing,  // the stream is being let go on
    kSpent,      // launched outside a capture: free once the stream has gone on
  };

  struct Slot {
    std::atomic<State> state{State::kFree};
    HostFunctionRef function;
    std::atomic<int32_t> value{0};  // value of `due` when it was last taken
    bool is_captured = false;
    int num_leases = 0;  // number of captured launches

    bool change(State from, State to) { return state.compare_exchange_strong(from, to); }
    bool is_in_progress() const;
  };

  void stop();
  bool is_consumed(int i) const;
  bool is_under_way() const;

  // The polling thread.
  void poll(int generation);
  bool run_due();
  bool run_if_due(int i);
  void finish(int i);

  // The watching thread, which holds the mutex.
  void watch();
  bool is_busy() const;
  void take_over(int num_takeovers);
  void fail(const std::string& reason);
  void let_go();
  template <typename Function>
  void start_thread(Function function);
  void start_polling();

  const PollingWords words_;
  const Timeout timeout_;
  ErrorLatch latch_;
  std::vector<Slot> slots_;
  std::atomic<int> num_slots_{0};  // slots that were ever in use
  std::atomic<int64_t> num_run_{0};
  std::atomic<Clock::time_point> seen_{Clock::time_point{}};  // when the polling thread last looked
  std::atomic<bool> is_inside_{false};                        // whether the polling thread is inside a function
  std::atomic<int> generation_{0};                            // number of the polling thread
  std::atomic<bool> stopping_{false};
  std::atomic<int> end_before_{0}, end_after_{0};  // functions before and after which the thread is to end

  std::mutex mutex_;  // guards what follows, and the taking of slots
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  int num_threads_ = 0;     // threads that have not ended
  bool has_ended_ = false;  // whether the polling thread has ended before it should
  bool has_failed_ = false;
  std::string failure_;
};

}  // namespace specguide
