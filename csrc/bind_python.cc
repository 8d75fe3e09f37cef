#include "bind_python.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "errors.h"
#include "poller.h"

namespace py = pybind11;

namespace specguide {

namespace {

std::atomic<bool> closing{false};
std::atomic<std::thread::id> closing_thread;
std::atomic<int> num_inside{0};
std::terminate_handler terminate_before = nullptr;

struct ReleaseQueue {
  std::mutex mutex;
  std::vector<PyObject*> objects;
};

ReleaseQueue& release_queue() {
  static auto* queue = new ReleaseQueue;  // never destroyed: threads may outlive static objects
  return *queue;
}

int drain_as_pending_call(void*) {
  drain_python_releases();
  return 0;
}

void release(PyObject* object) {
  if (Py_IsInitialized() && PyGILState_Check()) {
    Py_DECREF(object);
    return;
  }
  if (closing) return;  // the process is about to exit
  {
    std::lock_guard lock(release_queue().mutex);
    release_queue().objects.push_back(object);
  }
  Py_AddPendingCall(drain_as_pending_call, nullptr);  // if its queue is full, the next drain finds the object
}

[[noreturn]] void stay() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));  // the process is about to exit
}

// Python unwinds a thread that asks for the GIL while another thread ends the interpreter, and does so by something
// that is not a C++ exception. Frames of libraries that do not let it pass would end the process, so threads with such
// frames stay here instead.
[[noreturn]] void stay_if_unwound() {
  if (closing_thread.load() != std::this_thread::get_id() && !std::current_exception()) stay();
  if (terminate_before) terminate_before();
  std::abort();
}

void close() {
  closing_thread = std::this_thread::get_id();
  closing = true;
  terminate_before = std::set_terminate(stay_if_unwound);
  WithoutGil unlocked;
  Poller::stop_all();
  for (int ms = 0; ms < 2000 && num_inside > 0; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

PythonCall::PythonCall() {
  ++num_inside;
  if (closing) {
    --num_inside;
    throw EngineError("the interpreter is shutting down");
  }
  gil_ = std::make_unique<py::gil_scoped_acquire>();
}

PythonCall::~PythonCall() {
  gil_.reset();
  --num_inside;
}

WithoutGil::~WithoutGil() {
  ++num_inside;
  if (closing && closing_thread.load() != std::this_thread::get_id()) {
    --num_inside;
    stay();
  }
  PyEval_RestoreThread(state_);
  --num_inside;
}

std::shared_ptr<PyObject> share(py::object object) { return {object.release().ptr(), release}; }

void drain_python_releases() {
  std::vector<PyObject*> objects;
  {
    std::lock_guard lock(release_queue().mutex);
    objects.swap(release_queue().objects);
  }
  for (PyObject* object : objects) Py_DECREF(object);
}

std::string describe(py::error_already_set& error, bool with_traceback) {
  const auto traceback = py::module_::import("traceback");
  const auto lines = with_traceback
                         ? traceback.attr("format_exception")(error.type(), error.value(), error.trace())
                         : traceback.attr("format_exception_only")(error.type(), error.value());
  auto text = py::str("").attr("join")(lines).attr("rstrip")().cast<std::string>();
  return text;
}

void register_python_exit() { py::module_::import("atexit").attr("register")(py::cpp_function(close)); }

}  // namespace specguide
