// Owns callbacks without host functions: a thread polls words that streams write, and a second thread watches the
// first.
//
// A launch is three operations of the stream on two words: due := 1; wait until done ≥ 1; done := 0. The polling thread
// finds `due`, resets it, runs the function and writes the value of `due` to `done`. Whoever holds the words of a
// function may call it with other values, and then need not reset them. If two functions are due, the one with the
// smaller words runs first. Values in captured graphs are constants, so the words are set and reset. A captured launch
// keeps its words for the replays of its graph, and all captured launches of a function share the same words; so graphs
// that share a function must not be replayed at the same time.
//
// If the polling thread ends or is not seen for long, the watching thread starts another one, which runs what is due
// and not yet begun, and lets streams continue whose function has finished. If that fails repeatedly, or a function
// takes longer than the stream's timeout, the poller fails for good: it runs nothing more, lets every stream continue,
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

// Two words for each captured function and each other launch in flight: 2 · capacity zeros, in pinned memory for a CUDA
// stream.
struct PollingWords {
  int32_t* words;
  int capacity;
  std::shared_ptr<const void> owner;
};

class Poller : public std::enable_shared_from_this<Poller> {
 public:
  // The threads end when the last owner that `start` returned is released.
  static std::shared_ptr<Poller> start(PollingWords words, Timeout timeout);
  // Ends the threads of all pollers, when the process exits.
  static void stop_all();

  Poller(PollingWords words, Timeout timeout);

  // Reserves two words for a launch of `function`. Words of captured launches are reserved until `free` has been called
  // as often as `reserve`; those of any other launch until its stream has passed. Throws EngineError if none are left.
  int reserve(const HostFunctionRef& function, bool is_captured);
  void free(int launch);
  int32_t* due(int launch) const { return words_.words + launch; }
  int32_t* done(int launch) const { return words_.words + words_.capacity + launch; }

  // Throws what a function threw, once; and why the poller failed for good, each time.
  void check();

  // For tests; see PollingStream.
  void end_thread(int times, bool after_running) { (after_running ? end_after_ : end_before_) = times; }

 private:
  enum class State {
    kFree,
    kReady,      // the stream may come here
    kRunning,    // the stream has come
    kRan,
    kFinishing,  // the stream is being let through
    kSpent,      // launched outside a capture: free once the stream has passed
  };

  struct Slot {
    std::atomic<State> state{State::kFree};
    HostFunctionRef function;
    std::atomic<int32_t> value{0};  // value of `due` when it was last reset
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
  std::atomic<int> num_slots_{0};  // slots that were ever used
  std::atomic<int64_t> num_run_{0};
  std::atomic<Clock::time_point> seen_{Clock::time_point{}};  // when the polling thread last looked
  std::atomic<bool> is_inside_{false};                        // whether the polling thread is inside a function
  std::atomic<int> generation_{0};                            // number of the polling thread
  std::atomic<bool> stopping_{false};
  std::atomic<int> end_before_{0}, end_after_{0};  // functions before and after which the thread must end

  std::mutex mutex_;  // guards what follows, and the reservation of slots
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  int num_threads_ = 0;     // threads that have not ended
  bool has_ended_ = false;  // whether the polling thread has ended too early
  bool has_failed_ = false;
  std::string failure_;
};

}  // namespace specguide
