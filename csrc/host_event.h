// Owns events of host streams, and the completion that each record of one makes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stream.h"

namespace specguide {

// A completion is done once, or is abandoned if the stream that should complete it never will.
class Completion {
 public:
  void complete();
  void abandon(const std::string& reason);
  bool done() const { return state_.load(std::memory_order_acquire) == State::kDone; }

  // False when the time is up. Throws EngineError with the reason if it was abandoned.
  bool wait(Timeout timeout);

 private:
  enum class State { kPending, kDone, kAbandoned };
  bool settled() const { return state_.load(std::memory_order_acquire) != State::kPending; }
  void settle(State state, const std::string& reason);

  std::atomic<State> state_{State::kPending};
  std::mutex mutex_;
  std::condition_variable settled_;
  std::string reason_;
};

class HostCapture;

class HostEvent final : public Event {
 public:
  using Event::Event;
  bool query() override;
  void synchronize(Timeout timeout) override;

 private:
  friend class CapturableStream;
  friend class HostCapture;

  // What the event's last record refers to: a point of a running stream, or nodes of a capture.
  struct Mark {
    std::shared_ptr<Completion> completion;
    std::shared_ptr<HostCapture> capture;
    std::vector<int> nodes;
  };
  Mark mark() const;
  void set_mark(Mark mark);
  void check_outside_capture(const Mark& mark) const;

  mutable std::mutex mutex_;
  Mark mark_;
};

}  // namespace specguide
