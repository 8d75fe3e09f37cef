// Owns streams whose host functions run on a polling thread; see poller.h.
#pragma once

#include <memory>
#include <string>

#include "poller.h"
#include "stream.h"

namespace specguide {

// A stream whose functions run on a polling thread; all else is done by `stream`. The lifetime of functions is that of
// Stream::launch. The thread looks all the time while launches come, and after some milliseconds without one more and
// more seldom, at last once in a millisecond: that much later the next one may begin.
class PollingStream final : public Stream {
 public:
  PollingStream(std::shared_ptr<Stream> stream, PollingWords words);

  std::shared_ptr<Event> make_event(const std::string& name) override { return stream_->make_event(name); }
  // Launches a function. Throws EngineError when there are no words left.
  void launch(HostFunctionRef function) override;
  void record(Event& event) override { stream_->record(event); }
  void wait(Event& event) override { stream_->wait(event); }
  void write_value(WordRef word, int32_t value) override { stream_->write_value(std::move(word), value); }
  void wait_value(WordRef word, int32_t value) override { stream_->wait_value(std::move(word), value); }
  bool is_capturing() const override { return stream_->is_capturing(); }
  void synchronize(Timeout timeout) override;
  // Also throws EngineError, each time, when the poller has failed for good.
  void check() override;

  // The words of a function, kept for whoever calls it by them without a launch: it writes another value than 0 to word
  // `due`, and the function is over when word `done` has that value. Functions are numbered in the order of these
  // calls.
  struct Words {
    int due, done;  // places among the words of the stream
    std::shared_ptr<const void> lease;
  };
  Words hold(const HostFunctionRef& function);

  // For tests: the polling thread ends the next `times` that it comes across a function, before or after running it.
  void end_thread(int times, bool after_running);

 private:
  const std::shared_ptr<Stream> stream_;
  const std::shared_ptr<Poller> poller_;
};

}  // namespace specguide
