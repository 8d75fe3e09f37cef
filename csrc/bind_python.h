// Owns calls into Python from threads that Python does not know, and the release of Python objects on such threads.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

namespace specguide {

// Holds the GIL. Throws EngineError if the interpreter is shutting down, when taking the GIL would hang the thread.
class PythonCall {
 public:
  PythonCall();
  ~PythonCall();
  PythonCall(const PythonCall&) = delete;
  PythonCall& operator=(const PythonCall&) = delete;

 private:
  std::unique_ptr<pybind11::gil_scoped_acquire> gil_;
};

// Releases the GIL during its lifetime. It cannot be a call guard of a `py::init`: that would also cover pybind11's
// table of instances, which the GIL protects. If another thread ends the interpreter meanwhile, a thread that would
// take the GIL again stays here: Python would unwind its stack, which destructors do not allow.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Shares a Python object among native owners. The last owner may release it on any thread: without the GIL, the object
// waits for the main thread, or for the next drain. (Call with the GIL held.)
std::shared_ptr<PyObject> share(pybind11::object object);

// Releases the waiting objects. Call with the GIL held.
void drain_python_releases();

// The text of an error: "ValueError: message", or with the traceback. Call with the GIL held.
std::string describe(pybind11::error_already_set& error, bool with_traceback);

// Blocks calls into Python from the interpreter's exit on. A thread that Python then unwinds stays where it is if the
// code of a library on its stack does not allow that.
void register_python_exit();

// An owner of `object` for Python that destroys it without the GIL, because its destructor may join threads that need
// the GIL.
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
