// Owns the bindings of host functions, events, streams and graphs.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "bind_python.h"
#include "bindings.h"
#include "host_stream.h"
#include "polling_stream.h"
#include "reclaimer.h"
#include "spin.h"

namespace py = pybind11;

namespace specguide {

namespace {

using unlocked = py::call_guard<WithoutGil>;

BoundHostFunction python_host_function(const py::object& function, const py::tuple& args, const py::dict& kwargs,
                                       std::string name) {
  const auto payload = share(py::make_tuple(function, args, kwargs));
  auto call = [payload] {
    PythonCall python;
    try {
      const auto part = [&payload](int i) { return PyTuple_GET_ITEM(payload.get(), i); };
      PyObject* result = PyObject_Call(part(0), part(1), part(2));
      if (!result) throw py::error_already_set();
      Py_DECREF(result);
    } catch (py::error_already_set& error) {
      throw std::runtime_error(describe(error, /*with_traceback=*/true));
    }
  };
  return {std::make_shared<HostFunction>(HostFunction{std::move(name), std::move(call)})};
}

void bind_events(py::module_& m) {
  py::class_<Event, std::shared_ptr<Event>>(m, "Event")
      .def_property_readonly("name", &Event::name)
      .def("query", &Event::query)
      .def(
          "synchronize",
          [](Event& event, std::optional<double> timeout) {
            event.synchronize(timeout ? Timeout(*timeout) : kDefaultTimeout);
          },
          py::arg("timeout") = py::none(), unlocked());
  py::class_<HostEvent, Event, std::shared_ptr<HostEvent>>(m, "HostEvent")
      .def(py::init<std::string>(), py::arg("name") = "event");
}

void drain_releases() {
  {
    WithoutGil released;
    Reclaimer::instance().drain();
  }
  drain_python_releases();
}

void synchronize(Stream& stream, std::optional<double> timeout) {
  {
    WithoutGil released;
    stream.synchronize(timeout ? Timeout(*timeout) : stream.timeout());
  }
  drain_python_releases();
}

void bind_stream(py::module_& m) {
  py::class_<Stream, std::shared_ptr<Stream>>(m, "Stream")
      .def_property_readonly("name", &Stream::name)
      .def("make_event", &Stream::make_event, py::arg("name") = "event")
      .def(
          "launch", [](Stream& stream, const BoundHostFunction& function) { stream.launch(function.ref); },
          py::arg("function"), unlocked())
      .def("record", &Stream::record, py::arg("event"), unlocked())
      .def("wait", &Stream::wait, py::arg("event"), unlocked())
      .def(
          "write_value",
          [](Stream& stream, uintptr_t address, int32_t value) {
            if (!address) throw std::invalid_argument("write_value needs the address of an int32");
            stream.write_value(unowned(reinterpret_cast<int32_t*>(address)), value);
          },
          py::arg("address"), py::arg("value"), unlocked())
      .def("synchronize", &synchronize, py::arg("timeout") = py::none())
      .def("check", &Stream::check)
      .def_property_readonly("is_capturing", &Stream::is_capturing);
}

template <typename T>
void bind_host_stream(py::module_& m, const char* name, const char* default_name) {
  py::class_<T, CapturableStream, std::shared_ptr<T>>(m, name).def(
      py::init([](std::string stream_name, double timeout) {
        return destroyed_without_gil(new T(std::move(stream_name), Timeout(timeout)));
      }),
      py::arg("name") = default_name, py::arg("timeout") = kDefaultTimeout.count());
}

void bind_polling_stream(py::module_& m) {
  const auto make = [](std::shared_ptr<Stream> stream, uintptr_t words, int capacity, py::object owner) {
    PollingWords polled{reinterpret_cast<int32_t*>(words), capacity, share(std::move(owner))};
    return destroyed_without_gil(new PollingStream(std::move(stream), std::move(polled)));
  };
  py::class_<PollingStream::Words>(m, "HeldWords")
      .def_readonly("due", &PollingStream::Words::due)
      .def_readonly("done", &PollingStream::Words::done);
  py::class_<PollingStream, Stream, std::shared_ptr<PollingStream>>(m, "PollingStream")
      .def(py::init(make), py::arg("stream"), py::arg("words"), py::arg("capacity"), py::arg("owner"))
      .def(
          "hold", [](PollingStream& stream, const BoundHostFunction& function) { return stream.hold(function.ref); },
          py::arg("function"), unlocked())
      .def("end_thread", &PollingStream::end_thread, py::arg("times") = 1, py::arg("after_running") = false);
}

void replay(const HostGraph& graph, const py::args& streams) {
  std::vector<CapturableStream*> on;
  for (const py::handle& stream : streams) on.push_back(stream.cast<CapturableStream*>());
  if (on.empty()) throw std::invalid_argument("replay needs a stream");
  WithoutGil released;
  graph.replay(on);
}

}  // namespace

void bind_streams(py::module_& m) {
  py::class_<BoundHostFunction>(m, "HostFunction").def_property_readonly("name", [](const BoundHostFunction& function) {
    return function.ref->name;
  });
  m.def("python_host_function", &python_host_function, py::arg("function"), py::arg("args"), py::arg("kwargs"),
        py::arg("name"));
  bind_events(m);
  bind_stream(m);
  py::class_<CapturableStream, Stream, std::shared_ptr<CapturableStream>>(m, "CapturableStream")
      .def("begin_capture", &CapturableStream::begin_capture)
      .def("end_capture", &CapturableStream::end_capture);
  bind_host_stream<HostStream>(m, "HostStream", "host");
  bind_host_stream<CallerStream>(m, "CallerStream", "caller");
  bind_polling_stream(m);
  py::class_<HostGraph, std::shared_ptr<HostGraph>>(m, "HostGraph")
      .def_property_readonly("num_nodes", &HostGraph::num_nodes)
      .def_property_readonly("num_streams", &HostGraph::num_streams)
      .def("replay", &replay);
  m.def("drain_releases", &drain_releases);
  m.def("set_num_cores", [](int count) { num_cores = count; }, py::arg("count"));
}

}  // namespace specguide
