// Owns callbacks without host functions: a thread that polls words which a stream writes, and the one that watches it.
//
// A launch is three operations of the stream on two words: due := 1; wait until done ≥ 1; done := 0. The polling thread
// finds `due`, takes it back, runs the function and writes `done`. Values in captured graphs are constants, so the words
// are set and reset, and a launch has words of its own, which its graph keeps for its replays.
//
// When the polling thread ends or is not seen for long, the watching thread starts another, which runs what was due and
// not yet begun and lets the stream go on where a function is through. When that fails again and again, or a function
// takes longer than the stream's timeout, the poller fails for good: it runs nothing more and lets every stream go on,
// and check() says why.
#pragma once

#include <memory>
#include <string>

#include "stream.h"

namespace specguide {

struct Poller;

// Two words for each launch that is captured or under way: 2 · capacity zeros, in pinned memory for a CUDA stream.
struct PollingWords {
  int32_t* words;
  int capacity;
  std::shared_ptr<const void> owner;
};

// A stream whose functions run on a polling thread; all else is done by `stream`. The lifetime of functions is that of
// Stream::launch. The thread looks all the time while launches come, and after some milliseconds without one more and
// more seldom, at last once in a millisecond: that much later the next one may begin.
class PollingStream final : public Stream {
 public:
  PollingStream(std::shared_ptr<Stream> stream, PollingWords words);

  std::shared_ptr<Event> make_event(const std::string& name) override { return stream_->make_event(name); }
  // Throws EngineError when there are no words left.
  void launch(HostFunctionRef function) override;
  void record(Event& event) override { stream_->record(event); }
  void wait(Event& event) override { stream_->wait(event); }
  void write_value(WordRef word, int32_t value) override { stream_->write_value(std::move(word), value); }
  void wait_value(WordRef word, int32_t value) override { stream_->wait_value(std::move(word), value); }
  bool is_capturing() const override { return stream_->is_capturing(); }
  void synchronize(Timeout timeout) override;
  // Also throws EngineError, each time, when the poller has failed for good.
  void check() override;

  // For tests: the polling thread ends the next `times` that it comes across a function, before or after running it.
  void end_thread(int times, bool after_running);

  // Ends all threads, at the end of the process.
  static void stop_all();

 private:
  const std::shared_ptr<Stream> stream_;
  const std::shared_ptr<Poller> poller_;
};

}  // namespace specguide
