// Owns what texts of a grammar need at most to be ended, told from its expressions alone: it takes a fifth of the time
// in which a network is built, and is enough where there is room for much more.
#pragma once

#include <cstdint>

#include "endings/expression.h"
#include "endings/lengths.h"

namespace specguide {

// Bounds in bytes, each of which is one token at most where all bytes are tokens.
struct Bounds {
  static constexpr int64_t kUnknown = kEndless;
  // Of a product that a network is not built of either: its first part stands for it.
  static constexpr int64_t kTooLarge = 2 * kUnknown;

  int64_t least = kUnknown;    // bytes of the shortest text
  int64_t missing = kUnknown;  // bytes missing behind the beginnings of texts that one token reaches
};

class ProductBounds;

Bounds find_bounds(const Grammar& grammar, ProductBounds& of_products);

}  // namespace specguide
