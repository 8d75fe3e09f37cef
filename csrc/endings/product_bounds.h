// Owns what texts of a grammar's products need to be ended: found by going through their states, and kept for every
// grammar that has the same product, as those with texts of one format have.
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
  // The arguments must live as long as this object.
  ProductBounds(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact)
      : grammar_(grammar), is_exact_(is_exact), products_(grammar, vocabulary, is_exact) {}

  // The `least` and `missing` of a product's Bounds; unknown where there are too many states.
  int64_t least(const Expression& product) { return kept_or_found(product, least_of_product, '<'); }
  int64_t missing(const Expression& product) { return kept_or_found(product, missing_of_product, '>'); }

 private:
  using Find = int64_t (*)(const Product&, size_t& num_states_left);

  int64_t kept_or_found(const Expression& product, Find find, char mark);
  const Product& made(const Expression& product);

  const Grammar& grammar_;
  const bool is_exact_;
  Products products_;
  std::unordered_map<const Expression*, Product> made_{};  // to build one takes as long as to go through its states
  size_t num_states_left_ = kMostStatesOfProducts / 10;
};

}  // namespace specguide
