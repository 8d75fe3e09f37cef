// Owns the declarations that the parts of the Python module share.
#pragma once

#include <pybind11/pybind11.h>

#include "stream.h"

namespace specguide {

// A HostFunctionRef in the form that Python holds.
struct BoundHostFunction {
  HostFunctionRef ref;
};

void bind_matcher(pybind11::module_& m);
void bind_streams(pybind11::module_& m);
void bind_cpu(pybind11::module_& m);
void bind_cuda(pybind11::module_& m);  // after the streams
void bind_executor(pybind11::module_& m);
void bind_backends(pybind11::module_& m);  // after the matcher
void bind_endings(pybind11::module_& m);  // after the backends

}  // namespace specguide
