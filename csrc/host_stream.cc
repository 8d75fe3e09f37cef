#include "host_stream.h"

#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "spin.h"

namespace specguide {

namespace {

// How long the destructor waits for a function that does not return.
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::microseconds kWordNap{50};

HostEvent& as_host_event(Event& event, const Stream& stream) {
  auto* host_event = dynamic_cast<HostEvent*>(&event);
  if (!host_event) {
    throw std::invalid_argument("event '" + event.name() + "' is no host event: make it with make_event() of '" +
                                stream.name() + "'");
  }
  return *host_event;
}

std::string late_message(const std::string& stream, const std::string& event, Timeout timeout) {
  return "stream '" + stream + "' waited " + format_seconds(timeout) + " in vain for event '" + event + "'";
}

}  // namespace

std::shared_ptr<Event> CapturableStream::make_event(const std::string& name) {
  return std::make_shared<HostEvent>(name);
}

void CapturableStream::launch(HostFunctionRef function) {
  if (is_capturing()) {
    capture_->add_node(lane_, std::move(function));
  } else {
    do_launch(std::move(function));
  }
}

void CapturableStream::record(Event& event) {
  HostEvent& host_event = as_host_event(event, *this);
  if (is_capturing()) {
    host_event.set_mark({nullptr, capture_, lane_.tail()});
    return;
  }
  auto completion = std::make_shared<Completion>();
  do_record(completion);
  host_event.set_mark({std::move(completion), nullptr, {}});
}

void CapturableStream::wait(Event& event) {
  const HostEvent::Mark mark = as_host_event(event, *this).mark();
  if (mark.capture && !mark.capture->active()) {
    throw std::invalid_argument("event '" + event.name() + "' was recorded in a capture that has ended");
  }
  if (!is_capturing() && !mark.capture) {
    if (mark.completion) do_wait(mark.completion, event.name());
    return;
  }
  if (!mark.capture) {
    if (!mark.completion) return;
    throw std::invalid_argument("event '" + event.name() + "' was recorded outside the capture of stream '" + name() +
                                "'");
  }
  if (!is_capturing()) {
    capture_ = mark.capture;
    lane_ = capture_->add_lane(mark.nodes);
    is_origin_ = false;
  } else if (capture_ == mark.capture) {
    capture_->add_wait(lane_, mark.nodes);
  } else {
    throw std::invalid_argument("event '" + event.name() + "' belongs to another capture than stream '" + name() + "'");
  }
}

void CapturableStream::write_value(WordRef word, int32_t value) {
  auto call = [word = std::move(word), value] { store_word(word.get(), value); };
  launch(std::make_shared<HostFunction>(HostFunction{"write of a word", std::move(call)}));
}

void CapturableStream::wait_value(WordRef word, int32_t value) {
  auto call = [word = std::move(word), value, limit = timeout()] {
    const auto is_reached = [&] { return load_word(word.get()) >= value; };
    const auto end = Clock::now() + limit;
    bool reached = spin_until(is_reached, spin_time());
    for (; !reached && Clock::now() < end; reached = is_reached()) std::this_thread::sleep_for(kWordNap);
    if (!reached) {
      throw EngineError("the word did not reach " + std::to_string(value) + " within " + format_seconds(limit));
    }
  };
  launch(std::make_shared<HostFunction>(HostFunction{"wait for a word", std::move(call)}));
}

void CapturableStream::begin_capture() {
  check_not_capturing("begin another capture");
  capture_ = std::make_shared<HostCapture>();
  lane_ = capture_->add_lane({});
  is_origin_ = true;
}

std::shared_ptr<HostGraph> CapturableStream::end_capture() {
  if (!is_capturing()) throw std::invalid_argument("stream '" + name() + "' is not capturing");
  if (!is_origin_) {
    throw std::invalid_argument("the capture began on another stream than '" + name() + "': end it there");
  }
  return std::exchange(capture_, nullptr)->finish(lane_);
}

void CapturableStream::check_not_capturing(const char* what) const {
  if (is_capturing()) throw std::invalid_argument("stream '" + name() + "' is capturing and cannot " + what);
}

// The thread of a HostStream with its queue. The thread shares ownership, so that the stream may be dropped on any
// thread.
class HostStream::Worker {
 public:
  struct Operation {
    HostFunctionRef function;
    std::shared_ptr<Completion> record;
    std::shared_ptr<Completion> wait;
    std::string event_name;
  };

  Worker(std::string name, Timeout timeout) : name_(std::move(name)), timeout_(timeout) {}

  static std::shared_ptr<Worker> start(const std::string& name, Timeout timeout) {
    auto worker = std::make_shared<Worker>(name, timeout);
    worker->thread_ = std::thread([worker] { worker->loop(); });
    return worker;
  }

  void push(Operation operation) {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw EngineError(failure_);
    queue_.push_back(std::move(operation));
    num_queued_.store(queue_.size(), std::memory_order_release);
    changed_.notify_one();
  }

  void stop() {
    const bool is_own_thread = thread_.get_id() == std::this_thread::get_id();
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
    const bool has_ended = !is_own_thread && ended_.wait_for(lock, kPatience, [this] { return is_over_; });
    lock.unlock();
    if (has_ended) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  void check() {
    latch_.raise_if_set();
    check_alive();
  }

  // Does not throw what functions threw, until all functions have finished.
  void check_alive() {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw EngineError(failure_);
  }

  std::string doing() {
    std::lock_guard lock(mutex_);
    return doing_;
  }

 private:
  void loop() {
    while (std::optional<Operation> operation = next()) {
      if (operation->function) {
        latch_.run(*operation->function);
      } else if (operation->record) {
        operation->record->complete();
      } else {
        run_wait(*operation);
      }
    }
    std::lock_guard lock(mutex_);
    is_over_ = true;
    ended_.notify_all();
  }

  std::optional<Operation> next() {
    spin_until([this] { return num_queued_.load(std::memory_order_acquire) > 0; }, spin_time());
    std::unique_lock lock(mutex_);
    doing_ = "nothing";
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return std::nullopt;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    num_queued_.store(queue_.size(), std::memory_order_release);
    if (operation.function) doing_ = "running host function '" + operation.function->name + "'";
    if (operation.wait) doing_ = "waiting for event '" + operation.event_name + "'";
    return operation;
  }

  void run_wait(const Operation& operation) {
    const auto end = Clock::now() + timeout_;
    const Timeout slice{0.05};  // to notice when the stream is being closed
    try {
      while (!operation.wait->wait(std::min(timeout_, slice))) {
        if (is_stopping()) return fail("stream '" + name_ + "' was closed, waiting for '" + operation.event_name + "'");
        if (Clock::now() >= end) return fail(late_message(name_, operation.event_name, timeout_));
      }
    } catch (const EngineError& error) {
      fail("stream '" + name_ + "' waited for event '" + operation.event_name + "': " + error.what());
    }
  }

  bool is_stopping() {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

  void fail(const std::string& reason) {
    std::deque<Operation> dropped;
    {
      std::lock_guard lock(mutex_);
      failure_ = reason;
      dropped.swap(queue_);
      num_queued_.store(0, std::memory_order_release);
    }
    for (Operation& operation : dropped) {
      if (operation.record) operation.record->abandon(reason);
    }
  }

  const std::string name_;
  const Timeout timeout_;
  ErrorLatch latch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ended_;
  std::deque<Operation> queue_;
  std::atomic<size_t> num_queued_{0};
  std::string doing_ = "nothing";
  std::string failure_;
  bool stopping_ = false;
  bool is_over_ = false;
  std::thread thread_;
};

HostStream::HostStream(std::string name, Timeout timeout)
    : CapturableStream(std::move(name), timeout), worker_(Worker::start(this->name(), timeout)) {}

HostStream::~HostStream() { worker_->stop(); }

void HostStream::do_launch(HostFunctionRef function) { worker_->push({std::move(function), nullptr, nullptr, ""}); }

void HostStream::do_record(std::shared_ptr<Completion> completion) {
  worker_->push({nullptr, std::move(completion), nullptr, ""});
}

void HostStream::do_wait(std::shared_ptr<Completion> completion, const std::string& event_name) {
  worker_->push({nullptr, nullptr, std::move(completion), event_name});
}

void HostStream::synchronize(Timeout timeout) {
  check_not_capturing("be waited for");
  worker_->check_alive();
  auto completion = std::make_shared<Completion>();
  do_record(completion);
  if (!completion->wait(timeout)) {
    throw EngineError("stream '" + name() + "' did not finish within " + format_seconds(timeout) + ": it is " +
                      worker_->doing());
  }
  worker_->check();
}

void HostStream::check() { worker_->check(); }

void CallerStream::synchronize(Timeout) {
  check_not_capturing("be waited for");
  latch_.raise_if_set();
}

void CallerStream::do_launch(HostFunctionRef function) { latch_.run(*function); }

void CallerStream::do_record(std::shared_ptr<Completion> completion) { completion->complete(); }

void CallerStream::do_wait(std::shared_ptr<Completion> completion, const std::string& event_name) {
  if (!completion->wait(timeout())) throw EngineError(late_message(name(), event_name, timeout()));
}

}  // namespace specguide
