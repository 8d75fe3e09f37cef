// Owns crossing into Python from threads that Python does not know, and letting go of Python objects there.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

namespace specguide {

// Holds the GIL. Throws EngineError when the interpreter is shutting down, where taking it would hang the thread.
class PythonCall {
 public:
  PythonCall();
  ~PythonCall();
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;

 private:
  std::unique_ptr<pybind11::gil_scoped_acquire> gil_;
};

// Lets go of the GIL for as long as it lives. It is no call guard for a `py::init`: that would also cover the object's
// entry into pybind11's table of instances, which the GIL protects. A thread that is to take the GIL again while
// another one ends the interpreter stays there instead: Python would unwind its stack, which destructors do not allow.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Shares a Python object among native owners. The last one may let go anywhere: where the GIL is not held, the object
// waits for the main thread, or for the next drain. (Call with the GIL held.)
std::shared_ptr<PyObject> share(pybind11::object object);

// Releases the objects that wait for it. Call with the GIL held.
void drain_python_releases();

// The words of an error: "ValueError: message", or with the traceback. Call with the GIL held.
std::string describe(pybind11::error_already_set& error, bool with_traceback);

// Closes the crossing when the interpreter exits. From then on a thread stays where it is if Python unwinds it and the
// code of a library does not allow that.
void register_python_exit();

// An owner of `object` for Python: the destructor may join threads that need the GIL, so it runs without the GIL.
template <typename T>
std::shared_ptr<T> destroyed_without_gil(T* object) {
  return std::shared_ptr<T>(object, [](T* last) {
    if (!PyGILState_Check()) {
      delete last;
      return;
    }
    WithoutGil unlocked;
    delete last;
  });
}

}  // namespace specguide
