// Owns streams whose host functions run on a polling thread; see poller.h.
#pragma once

#include <memory>
#include <string>

#include "poller.h"
#include "stream.h"

namespace specguide {

// A stream whose functions run on a polling thread; `stream` does everything else. Functions live as long as
// Stream::launch says. The thread polls continuously while launches come. After some milliseconds without one it polls
// less and less often, at last once per millisecond; the next function may start that much later.
class PollingStream final : public Stream {
 public:
  PollingStream(std::shared_ptr<Stream> stream, PollingWords words);

  std::shared_ptr<Event> make_event(const std::string& name) override { return stream_->make_event(name); }
  // Launches a function. Throws EngineError if there are no words left.
  void launch(HostFunctionRef function) override;
  void record(Event& event) override { stream_->record(event); }
  void wait(Event& event) override { stream_->wait(event); }
  void write_value(WordRef word, int32_t value) override { stream_->write_value(std::move(word), value); }
  void wait_value(WordRef word, int32_t value) override { stream_->wait_value(std::move(word), value); }
  bool is_capturing() const override { return stream_->is_capturing(); }
  void synchronize(Timeout timeout) override;
  // Also throws EngineError, each time, if the poller has failed for good.
  void check() override;

  // The words of a function, reserved for a caller that uses them without launches: it writes a value other than 0 to
  // word `due`, and the function has finished when word `done` has that value. Functions are numbered in the order of
  // these calls.
  struct Words {
    int due, done;  // indices into the stream's words
    std::shared_ptr<const void> lease;
  };
  Words hold(const HostFunctionRef& function);

  // For tests: the polling thread ends the next `times` that it meets a function, before or after running it.
  void end_thread(int times, bool after_running);

 private:
  const std::shared_ptr<Stream> stream_;
  const std::shared_ptr<Poller> poller_;
};

}  // namespace specguide
