// Owns the Python module specguide.native._native: binds the core library, one bind_*.cc per part.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>

#include "matcher.h"

namespace py = pybind11;

void bind_backends(py::module_& m);

namespace {

void fill_buffer(specguide::Matcher& matcher, const py::buffer& row) {
  py::buffer_info info = row.request(/*writable=*/true);
  if (info.itemsize != 4 || info.ndim != 1 || info.strides[0] != 4) {
    throw py::value_error("a row must be a contiguous one-dimensional int32 buffer");
  }
  auto* words = static_cast<int32_t*>(info.ptr);
  py::gil_scoped_release unlocked;
  matcher.fill(words);
}

void bind_matcher(py::module_& m) {
  using specguide::Matcher;
  using release = py::call_guard<py::gil_scoped_release>;
  py::class_<Matcher, std::shared_ptr<Matcher>>(m, "Matcher")
      .def("accept", &Matcher::accept, py::arg("token"), release())
      .def("fill", &fill_buffer, py::arg("row"))
      .def("rollback", &Matcher::rollback, py::arg("n"), release())
      .def_property_readonly("is_terminated",
                             [](const Matcher& matcher) {
                               py::gil_scoped_release unlocked;
                               return matcher.is_terminated();
                             })
      .def("forced_tokens", &Matcher::forced_tokens, release());
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  bind_matcher(m);
#ifdef SPECGUIDE_HAS_BIND_BACKENDS
  bind_backends(m);
#endif
}
