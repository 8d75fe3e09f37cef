#include "host_event.h"

#include "spin.h"

namespace specguide {

void Completion::settle(State state, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (settled()) return;
    reason_ = reason;
    state_.store(state, std::memory_order_release);
  }
  settled_.notify_all();
}

void Completion::complete() { settle(State::kDone, ""); }

void Completion::abandon(const std::string& reason) { settle(State::kAbandoned, reason); }

bool Completion::wait(Timeout timeout) {
  if (!spin_until([this] { return settled(); }, timeout < spin_time() ? std::chrono::nanoseconds(0) : spin_time())) {
    std::unique_lock lock(mutex_);
    if (!settled_.wait_for(lock, timeout, [this] { return settled(); })) return false;
  }
  if (!done()) {
    std::lock_guard lock(mutex_);
    throw EngineError(reason_);
  }
  return true;
}

HostEvent::Mark HostEvent::mark() const {
  std::lock_guard lock(mutex_);
  return mark_;
}

void HostEvent::set_mark(Mark mark) {
  std::lock_guard lock(mutex_);
  mark_ = std::move(mark);
}

void HostEvent::check_outside_capture(const Mark& mark) const {
  if (mark.capture) throw std::invalid_argument("event '" + name() + "' was recorded in a capture, where nothing runs");
}

bool HostEvent::query() {
  const Mark last = mark();
  check_outside_capture(last);
  return !last.completion || last.completion->done();
}

void HostEvent::synchronize(Timeout timeout) {
  const Mark last = mark();
  check_outside_capture(last);
  if (last.completion && !last.completion->wait(timeout)) {
    throw EngineError("event '" + name() + "' was not reached within " + format_seconds(timeout));
  }
}

}  // namespace specguide
