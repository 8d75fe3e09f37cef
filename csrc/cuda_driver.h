// Owns the CUDA driver's entry points, found at run time: building needs no CUDA toolkit, and running needs no CUDA if
// there is no GPU.
//
// Names, values and signatures are those of the CUDA driver API (stream and graph management, user objects).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specguide {

using CudaResult = int;
using CudaHandle = void*;  // CUstream, CUevent, CUgraph, CUuserObject, CUcontext
using CudaAddress = unsigned long long;  // CUdeviceptr; for pinned memory the host's address
using CudaHostFunction = void (*)(void*);

inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaNotReady = 600;

class CudaDriver {
 public:
  // The driver of this process. Throws EngineError with unavailable_reason() if there is none.
  static const CudaDriver& get();

  // Why there is no driver; "" if there is one.
  static const std::string& unavailable_reason();

  // Throws EngineError, which names the failed action `what`, if `result` is an error.
  void check(CudaResult result, const std::string& what) const;

  // The graph that `stream` is being captured into, or null.
  CudaHandle capturing_graph(CudaHandle stream) const;

  CudaResult (*ctx_get_current)(CudaHandle* context);
  CudaResult (*ctx_set_current)(CudaHandle context);
  CudaResult (*stream_get_ctx)(CudaHandle stream, CudaHandle* context);
  CudaResult (*stream_query)(CudaHandle stream);
  CudaResult (*stream_wait_event)(CudaHandle stream, CudaHandle event, unsigned flags);
  CudaResult (*stream_wait_value)(CudaHandle stream, CudaAddress address, uint32_t value, unsigned flags);
  CudaResult (*stream_write_value)(CudaHandle stream, CudaAddress address, uint32_t value, unsigned flags);
  CudaResult (*launch_host_func)(CudaHandle stream, CudaHostFunction function, void* data);
  CudaResult (*event_create)(CudaHandle* event, unsigned flags);
  CudaResult (*event_record)(CudaHandle event, CudaHandle stream);
  CudaResult (*event_query)(CudaHandle event);
  CudaResult (*event_destroy)(CudaHandle event);
  CudaResult (*user_object_create)(CudaHandle* object, void* data, CudaHostFunction destroy, unsigned initial_count,
                                   unsigned flags);
  CudaResult (*user_object_release)(CudaHandle object, unsigned count);
  CudaResult (*graph_retain_user_object)(CudaHandle graph, CudaHandle object, unsigned count, unsigned flags);

 private:
  CudaDriver() = default;
  static const CudaDriver& instance();
  void load();

  CudaResult (*get_error_string_)(CudaResult result, const char** text);
  CudaResult (*stream_get_capture_info_v2_)(CudaHandle stream, int* status, uint64_t* id, CudaHandle* graph,
                                            const CudaHandle** dependencies, size_t* num_dependencies);
  CudaResult (*stream_get_capture_info_v3_)(CudaHandle stream, int* status, uint64_t* id, CudaHandle* graph,
                                            const CudaHandle** dependencies, const void** edges,
                                            size_t* num_dependencies);
  std::string unavailable_reason_;
};

}  // namespace specguide
