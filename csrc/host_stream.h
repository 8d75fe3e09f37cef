// Owns streams without a GPU: a HostStream has a worker thread, a CallerStream runs on the calling thread.
#pragma once

#include <memory>
#include <string>

#include "host_event.h"
#include "host_graph.h"
#include "stream.h"

namespace specguide {

// What host streams have in common: their events, and capture into a HostGraph.
class CapturableStream : public Stream {
 public:
  using Stream::Stream;

  std::shared_ptr<Event> make_event(const std::string& name) override;
  void launch(HostFunctionRef function) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void write_value(WordRef word, int32_t value) override;
  void wait_value(WordRef word, int32_t value) override;

  bool is_capturing() const override { return capture_ && capture_->active(); }
  void begin_capture();
  std::shared_ptr<HostGraph> end_capture();

 protected:
  virtual void do_launch(HostFunctionRef function) = 0;
  virtual void do_record(std::shared_ptr<Completion> completion) = 0;
  virtual void do_wait(std::shared_ptr<Completion> completion, const std::string& event_name) = 0;
  void check_not_capturing(const char* what) const;

 private:
  std::shared_ptr<HostCapture> capture_;
  HostCapture::Lane lane_;
  bool is_origin_ = false;
};

// Runs its operations in order on a worker thread. If a wait times out the stream fails for good: later operations are
// dropped, and every later call says why. Its destructor lets operations that can still run finish; a function that
// takes longer than some seconds is left running.
class HostStream final : public CapturableStream {
 public:
  explicit HostStream(std::string name, Timeout timeout = kDefaultTimeout);
  ~HostStream() override;

  void synchronize(Timeout timeout) override;
  void check() override;

 protected:
  void do_launch(HostFunctionRef function) override;
  void do_record(std::shared_ptr<Completion> completion) override;
  void do_wait(std::shared_ptr<Completion> completion, const std::string& event_name) override;

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

// Runs its operations immediately on the calling thread: a record is done at once, a wait blocks.
class CallerStream final : public CapturableStream {
 public:
  explicit CallerStream(std::string name, Timeout timeout = kDefaultTimeout)
      : CapturableStream(std::move(name), timeout) {}

  void synchronize(Timeout timeout) override;
  void check() override { latch_.raise_if_set(); }

 protected:
  void do_launch(HostFunctionRef function) override;
  void do_record(std::shared_ptr<Completion> completion) override;
  void do_wait(std::shared_ptr<Completion> completion, const std::string& event_name) override;

 private:
  ErrorLatch latch_;
};

}  // namespace specguide
