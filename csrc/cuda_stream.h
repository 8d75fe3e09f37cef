// Owns host functions on CUDA streams: launched eagerly, or captured into a graph that then owns their payloads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda_driver.h"
#include "stream.h"

namespace specguide {

// An event made by CudaStream::make_event, in that stream's context; without timing.
class CudaEvent final : public Event {
 public:
  CudaEvent(std::string name, CudaHandle context);
  ~CudaEvent() override;

  CudaHandle handle() const { return handle_; }
  bool query() override;
  void synchronize(Timeout timeout) override;

 private:
  const CudaDriver& driver_;
  CudaHandle context_;
  CudaHandle handle_ = nullptr;
};

// A CUDA stream that someone else owns, given by its handle. A function that is launched during capture is kept by the
// graph (and by what is instantiated from it) and runs at each replay; any other function is released after its one
// call. What a function throws is latched here, even if the graph is replayed on another stream.
class CudaStream final : public Stream {
 public:
  explicit CudaStream(uintptr_t handle, std::string name = "cuda", Timeout timeout = kDefaultTimeout);

  uintptr_t handle() const { return reinterpret_cast<uintptr_t>(handle_); }

  std::shared_ptr<Event> make_event(const std::string& name) override;
  void launch(HostFunctionRef function) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void write_value(WordRef word, int32_t value) override;
  void wait_value(WordRef word, int32_t value) override;
  bool is_capturing() const override;
  void synchronize(Timeout timeout) override;
  void check() override { latch_->raise_if_set(); }

 private:
  // The address of a word on the device. If this stream is capturing, the graph keeps the word.
  CudaAddress address_of(WordRef word, const std::string& what) const;

  const CudaDriver& driver_;
  CudaHandle handle_;
  CudaHandle context_ = nullptr;
  std::shared_ptr<ErrorLatch> latch_ = std::make_shared<ErrorLatch>();
};

}  // namespace specguide
