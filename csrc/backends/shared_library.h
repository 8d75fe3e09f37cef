// Owns the lookup of symbols in a shared library that Python has already loaded.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace specguide {

class SharedLibrary {
 public:
  // Opens the library at `path`; one that is loaded is not loaded again. It is never closed, since objects it made
  // outlive us.
  explicit SharedLibrary(const std::string& path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(std::string("cannot open the library: ") + dlerror());
  }

  // Points `function` at the named symbol. Throws if the library does not export it.
  template <typename Function>
  void resolve(Function*& function, const char* name) const {
    void* symbol = dlsym(handle_, name);
    if (symbol == nullptr) throw std::runtime_error(path_ + " does not export " + name);
    function = reinterpret_cast<Function*>(symbol);
  }

 private:
  std::string path_;
  void* handle_;
};

}  // namespace specguide
