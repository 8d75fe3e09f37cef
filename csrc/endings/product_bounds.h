// Owns the bounds for products in a grammar: found by visiting their states, and cached for every grammar with the same
// product, such as texts of one format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "endings/bounds.h"
#include "endings/builder.h"
#include "endings/expression.h"
#include "endings/network.h"

namespace specguide {

class ProductBounds {
 public:
  // The arguments must outlive this object.
  ProductBounds(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact)
      : grammar_(grammar), is_exact_(is_exact), products_(grammar, vocabulary, is_exact) {}

  // The `least` and `missing` of a product's Bounds; unknown if there are too many states.
  int64_t least(const Expression& product) { return kept_or_found(product, least_of_product, '<'); }
  int64_t missing(const Expression& product) { return kept_or_found(product, missing_of_product, '>'); }

 private:
  using Find = int64_t (*)(const Product&, size_t& num_states_left);

  int64_t kept_or_found(const Expression& product, Find find, char mark);
  const Product& made(const Expression& product);

  const Grammar& grammar_;
  const bool is_exact_;
  Products products_;
  std::unordered_map<const Expression*, Product> made_{};  // building one takes as long as visiting its states
  size_t num_states_left_ = kMostStatesOfProducts / 10;
};

}  // namespace specguide
