// Owns the bindings of CUDA streams.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings.h"
#include "cuda_stream.h"

namespace py = pybind11;

namespace specguide {

namespace {

std::optional<std::string> cuda_unavailable_reason() {
  const std::string& reason = CudaDriver::unavailable_reason();
  if (reason.empty()) return std::nullopt;
  return reason;
}

}  // namespace

void bind_cuda(py::module_& m) {
  m.def("cuda_unavailable_reason", &cuda_unavailable_reason);
  py::class_<CudaEvent, Event, std::shared_ptr<CudaEvent>>(m, "CudaEvent");
  py::class_<CudaStream, Stream, std::shared_ptr<CudaStream>>(m, "CudaStream")
      .def(py::init([](uintptr_t handle, std::string name, double timeout) {
             return std::make_shared<CudaStream>(handle, std::move(name), Timeout(timeout));
           }),
           py::arg("handle"), py::arg("name") = "cuda", py::arg("timeout") = kDefaultTimeout.count())
      .def_property_readonly("handle", &CudaStream::handle);
}

}  // namespace specguide
