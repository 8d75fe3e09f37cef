// Owns upper bounds for what texts of a grammar still need to end, computed from its expressions alone. This takes a
// fifth of the time of building a network, and is enough if there is room for much more.
#pragma once

#include <cstdint>

#include "endings/expression.h"
#include "endings/lengths.h"

namespace specguide {

// Bounds in bytes; if all bytes are tokens, each byte is at most one token.
struct Bounds {
  static constexpr int64_t kUnknown = kEndless;
  // For a product that is also too large for a network, which uses its first part instead.
  static constexpr int64_t kTooLarge = 2 * kUnknown;

  int64_t least = kUnknown;    // bytes of the shortest text
  int64_t missing = kUnknown;  // bytes missing behind the beginnings of texts that one token can reach
};

class ProductBounds;

Bounds find_bounds(const Grammar& grammar, ProductBounds& of_products);

}  // namespace specguide
