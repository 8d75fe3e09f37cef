// Owns the Python module specguide.native._native: the translation of errors, and one bind_*.cc for each part.
#include "bindings.h"

#include "bind_python.h"

namespace py = pybind11;

namespace {

// EngineError becomes the package's own; std::invalid_argument, a caller's mistake, is ValueError by pybind11's
// default.
void translate_errors(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const specguide::EngineError& error) {
    const auto type = py::module_::import("specguide.errors").attr("EngineError");
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  py::register_exception_translator(&translate_errors);
  specguide::register_python_exit();
  specguide::bind_matcher(m);
  specguide::bind_streams(m);
  specguide::bind_cpu(m);
  specguide::bind_cuda(m);
  specguide::bind_executor(m);
  specguide::bind_backends(m);
  specguide::bind_endings(m);
}
