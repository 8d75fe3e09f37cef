#include "cuda_stream.h"

#include <thread>

#include "reclaimer.h"
#include "spin.h"

namespace specguide {

namespace {

constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kUserObjectNoDestructorSync = 1;
constexpr unsigned kGraphUserObjectMove = 1;
constexpr unsigned kWriteValueDefault = 0;
constexpr unsigned kWaitValueGreaterOrEqual = 0;

// The payload that CUDA holds for a launched function.
struct Launch {
  HostFunctionRef function;
  std::shared_ptr<ErrorLatch> latch;
};

void run(void* data) {
  auto* launch = static_cast<Launch*>(data);
  launch->latch->run(*launch->function);
}

template <typename Payload>
void let_go(void* data) {
  Reclaimer::instance().give(std::shared_ptr<Payload>(static_cast<Payload*>(data)));
}

void run_once(void* data) {
  run(data);
  let_go<Launch>(data);
}

// The payload is owned by the graph, and by what is instantiated from it.
template <typename Payload>
Payload* keep(const CudaDriver& driver, CudaHandle graph, std::unique_ptr<Payload> payload, const std::string& what) {
  CudaHandle object = nullptr;
  driver.check(driver.user_object_create(&object, payload.get(), let_go<Payload>, 1, kUserObjectNoDestructorSync),
               what);
  Payload* const kept = payload.release();  // the user object owns it from here on
  const CudaResult retained = driver.graph_retain_user_object(graph, object, 1, kGraphUserObjectMove);
  if (retained != kCudaSuccess) driver.user_object_release(object, 1);
  driver.check(retained, what);
  return kept;
}

// Makes a context current in a scope; a thread that never called CUDA has none.
class ScopedContext {
 public:
  ScopedContext(const CudaDriver& driver, CudaHandle context) : driver_(driver) {
    driver_.check(driver_.ctx_get_current(&previous_), "asking for the current CUDA context");
    changed_ = previous_ != context;
    if (changed_) driver_.check(driver_.ctx_set_current(context), "setting the CUDA context");
  }
  ~ScopedContext() {
    if (changed_) driver_.ctx_set_current(previous_);
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  const CudaDriver& driver_;
  CudaHandle previous_ = nullptr;
  bool changed_ = false;
};

// Polls, because CUDA's own waits cannot time out. False when the time is up.
template <typename Query>
bool wait_for(const CudaDriver& driver, Query query, Timeout timeout, const std::string& what) {
  CudaResult result = kCudaNotReady;
  const auto is_over = [&] { return (result = query()) != kCudaNotReady; };
  const auto end = Clock::now() + timeout;
  bool over = spin_until(is_over, spin_time());
  while (!over && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    over = is_over();
  }
  if (over) driver.check(result, what);
  return over;
}

CudaEvent& as_cuda_event(Event& event, const Stream& stream) {
  if (auto* cuda_event = dynamic_cast<CudaEvent*>(&event)) return *cuda_event;
  throw std::invalid_argument("event '" + event.name() + "' is no CUDA event: make it with make_event() of '" +
                              stream.name() + "'");
}

}  // namespace

CudaEvent::CudaEvent(std::string name, CudaHandle context)
    : Event(std::move(name)), driver_(CudaDriver::get()), context_(context) {
  const ScopedContext scope(driver_, context_);
  driver_.check(driver_.event_create(&handle_, kEventDisableTiming), "making CUDA event '" + this->name() + "'");
}

CudaEvent::~CudaEvent() {
  if (handle_) driver_.event_destroy(handle_);
}

bool CudaEvent::query() {
  const CudaResult result = driver_.event_query(handle_);
  if (result == kCudaNotReady) return false;
  driver_.check(result, "asking for CUDA event '" + name() + "'");
  return true;
}

void CudaEvent::synchronize(Timeout timeout) {
  const auto query = [this] { return driver_.event_query(handle_); };
  if (wait_for(driver_, query, timeout, "waiting for CUDA event '" + name() + "'")) return;
  throw EngineError("CUDA event '" + name() + "' was not reached within " + format_seconds(timeout));
}

CudaStream::CudaStream(uintptr_t handle, std::string name, Timeout timeout)
    : Stream(std::move(name), timeout), driver_(CudaDriver::get()), handle_(reinterpret_cast<CudaHandle>(handle)) {
  driver_.check(driver_.stream_get_ctx(handle_, &context_),
                "finding the context of CUDA stream '" + this->name() + "'");
}

bool CudaStream::is_capturing() const { return driver_.capturing_graph(handle_) != nullptr; }

std::shared_ptr<Event> CudaStream::make_event(const std::string& name) {
  return std::make_shared<CudaEvent>(name, context_);
}

void CudaStream::launch(HostFunctionRef function) {
  const std::string what = "launching host function '" + function->name + "' on CUDA stream '" + name() + "'";
  const ScopedContext scope(driver_, context_);
  auto launch = std::make_unique<Launch>(Launch{std::move(function), latch_});
  const CudaHandle graph = driver_.capturing_graph(handle_);
  if (!graph) {
    driver_.check(driver_.launch_host_func(handle_, run_once, launch.get()), what);
    launch.release();  // freed by run_once
    return;
  }
  Launch* const kept = keep(driver_, graph, std::move(launch), what);
  driver_.check(driver_.launch_host_func(handle_, run, kept), what);
}

void CudaStream::record(Event& event) {
  const ScopedContext scope(driver_, context_);
  driver_.check(driver_.event_record(as_cuda_event(event, *this).handle(), handle_),
                "recording event '" + event.name() + "' on CUDA stream '" + name() + "'");
}

void CudaStream::wait(Event& event) {
  const ScopedContext scope(driver_, context_);
  driver_.check(driver_.stream_wait_event(handle_, as_cuda_event(event, *this).handle(), 0),
                "making CUDA stream '" + name() + "' wait for event '" + event.name() + "'");
}

CudaAddress CudaStream::address_of(WordRef word, const std::string& what) const {
  const auto address = reinterpret_cast<CudaAddress>(word.get());
  const CudaHandle graph = driver_.capturing_graph(handle_);
  if (graph && word.use_count() > 0) keep(driver_, graph, std::make_unique<WordRef>(std::move(word)), what);
  return address;
}

void CudaStream::write_value(WordRef word, int32_t value) {
  const std::string what = "writing a word on CUDA stream '" + name() + "'";
  const ScopedContext scope(driver_, context_);
  const CudaAddress address = address_of(std::move(word), what);
  driver_.check(driver_.stream_write_value(handle_, address, static_cast<uint32_t>(value), kWriteValueDefault), what);
}

void CudaStream::wait_value(WordRef word, int32_t value) {
  const std::string what = "making CUDA stream '" + name() + "' wait for a word";
  const ScopedContext scope(driver_, context_);
  const CudaAddress address = address_of(std::move(word), what);
  driver_.check(driver_.stream_wait_value(handle_, address, static_cast<uint32_t>(value), kWaitValueGreaterOrEqual),
                what);
}

void CudaStream::synchronize(Timeout timeout) {
  const ScopedContext scope(driver_, context_);
  const auto query = [this] { return driver_.stream_query(handle_); };
  if (!wait_for(driver_, query, timeout, "waiting for CUDA stream '" + name() + "'")) {
    throw EngineError("CUDA stream '" + name() + "' did not finish within " + format_seconds(timeout));
  }
  latch_->raise_if_set();
}

}  // namespace specguide
