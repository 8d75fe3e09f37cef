// Owns host functions made of C++ callables, for the tests of streams.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "stream.h"

inline specguide::HostFunctionRef function(std::string name, std::function<void()> call) {
  return std::make_shared<specguide::HostFunction>(specguide::HostFunction{std::move(name), std::move(call)});
}
