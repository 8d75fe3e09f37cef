#include "cuda_driver.h"

#include <dlfcn.h>

#include "errors.h"

namespace specguide {

namespace {

constexpr int kCaptureNone = 0;
constexpr int kCaptureActive = 1;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

void CudaDriver::load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    unavailable_reason_ = std::string("no CUDA driver: ") + dlerror();
    return;
  }
  const auto require = [&](const char* name, auto& function) {
    if (find(library, name, function) || !unavailable_reason_.empty()) return;
    unavailable_reason_ = std::string("the CUDA driver is too old: it has no ") + name;
  };
  require("cuCtxGetCurrent", ctx_get_current);
  require("cuCtxSetCurrent", ctx_set_current);
  require("cuStreamGetCtx", stream_get_ctx);
  require("cuStreamQuery", stream_query);
  require("cuStreamWaitEvent", stream_wait_event);
  require("cuStreamWaitValue32_v2", stream_wait_value);
  require("cuStreamWriteValue32_v2", stream_write_value);
  require("cuLaunchHostFunc", launch_host_func);
  require("cuEventCreate", event_create);
  require("cuEventRecord", event_record);
  require("cuEventQuery", event_query);
  require("cuEventDestroy_v2", event_destroy);
  require("cuUserObjectCreate", user_object_create);
  require("cuUserObjectRelease", user_object_release);
  require("cuGraphRetainUserObject", graph_retain_user_object);
  require("cuGetErrorString", get_error_string_);
  if (!find(library, "cuStreamGetCaptureInfo_v2", stream_get_capture_info_v2_)) {
    require("cuStreamGetCaptureInfo_v3", stream_get_capture_info_v3_);
  }
}

const CudaDriver& CudaDriver::instance() {
  static const CudaDriver* driver = [] {
    auto* loaded = new CudaDriver;  // never destroyed: CUDA's threads outlive static objects
    loaded->load();
    return loaded;
  }();
  return *driver;
}

const CudaDriver& CudaDriver::get() {
  const CudaDriver& driver = instance();
  if (!driver.unavailable_reason_.empty()) throw EngineError(driver.unavailable_reason_);
  return driver;
}

const std::string& CudaDriver::unavailable_reason() { return instance().unavailable_reason_; }

void CudaDriver::check(CudaResult result, const std::string& what) const {
  if (result == kCudaSuccess) return;
  const char* text = nullptr;
  get_error_string_(result, &text);
  throw EngineError(what + " failed: " + (text ? text : "CUDA error " + std::to_string(result)));
}

CudaHandle CudaDriver::capturing_graph(CudaHandle stream) const {
  int status = kCaptureNone;
  uint64_t id = 0;
  CudaHandle graph = nullptr;
  const CudaResult result =
      stream_get_capture_info_v2_
          ? stream_get_capture_info_v2_(stream, &status, &id, &graph, nullptr, nullptr)
          : stream_get_capture_info_v3_(stream, &status, &id, &graph, nullptr, nullptr, nullptr);
  check(result, "asking a CUDA stream whether it captures");
  if (status == kCaptureNone) return nullptr;
  if (status != kCaptureActive) throw EngineError("the capture of a CUDA stream was invalidated by an earlier error");
  return graph;
}

}  // namespace specguide
