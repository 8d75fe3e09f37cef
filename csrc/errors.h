// Owns the error type of the core itself; a caller's mistakes are std::invalid_argument.
#pragma once

#include <stdexcept>
#include <string>

namespace specguide {

// Thrown if a stream, an event or the executor failed; Python sees specguide.errors.EngineError.
class EngineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace specguide
