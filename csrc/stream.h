// Owns the stream interface that host and CUDA streams share: a FIFO of host functions, event records, event waits, and
// writes of and waits for words.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "errors.h"
#include "word.h"

namespace specguide {

using Clock = std::chrono::steady_clock;
using Timeout = std::chrono::duration<double>;  // seconds

inline constexpr Timeout kDefaultTimeout{60.0};

std::string format_seconds(Timeout time);  // "60 s", "0.25 s"

// A callable without arguments. Whoever may still call it shares ownership of it, and thereby of the payload in `call`.
// What `call` throws is latched on the stream that ran it.
struct HostFunction {
  std::string name;
  std::function<void()> call;
};
using HostFunctionRef = std::shared_ptr<const HostFunction>;

// Keeps the first error of a stream until someone asks for it.
class ErrorLatch {
 public:
  void set(const std::string& message);
  void raise_if_set();  // throws EngineError, and clears it

  // Runs `function`; what it throws is latched.
  void run(const HostFunction& function) noexcept;

 private:
  std::mutex mutex_;
  std::optional<std::string> message_;
};

// Marks a point of a stream. An event that was never recorded counts as done; if it is recorded several times, the last
// record counts.
class Event {
 public:
  explicit Event(std::string name) : name_(std::move(name)) {}
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  const std::string& name() const { return name_; }
  virtual bool query() = 0;
  // Throws EngineError, naming the event, when the time is up.
  virtual void synchronize(Timeout timeout) = 0;

 private:
  std::string name_;
};

class Stream {
 public:
  Stream(std::string name, Timeout timeout) : name_(std::move(name)), timeout_(timeout) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const std::string& name() const { return name_; }
  Timeout timeout() const { return timeout_; }

  virtual std::shared_ptr<Event> make_event(const std::string& name) = 0;
  virtual void launch(HostFunctionRef function) = 0;
  virtual void record(Event& event) = 0;
  // What follows on this stream waits for the last record of `event` that was made before this call.
  virtual void wait(Event& event) = 0;
  // Writes the word when the stream gets here, at each replay of a graph. A graph keeps the word alive; outside a
  // capture the caller must. For a CUDA stream the word is in pinned memory.
  virtual void write_value(WordRef word, int32_t value) = 0;
  // What follows on this stream waits until the word is at least `value`; on a CUDA stream this wait has no time-out.
  virtual void wait_value(WordRef word, int32_t value) = 0;
  virtual bool is_capturing() const = 0;
  // Waits until everything is done, then throws the latched error, if any, as EngineError.
  virtual void synchronize(Timeout timeout) = 0;
  virtual void check() = 0;

 private:
  std::string name_;
  Timeout timeout_;
};

}  // namespace specguide
