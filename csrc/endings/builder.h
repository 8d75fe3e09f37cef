// Owns the way from a grammar's expressions to a network.
#pragma once

#include <memory>

#include "endings/expression.h"
#include "endings/network.h"
#include "endings/product.h"

namespace specguide {

// is_exact: with the texts of the grammar and no others; else there may be more of them
// Throws std::invalid_argument where a rule is missing, and where parts are too large to be told.
std::shared_ptr<const Network> build_network(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact = false);

// The products that a grammar's expressions of kBoth, kNot and kFirst are. What one factor's automaton finds out serves
// others, too.
class Products {
 public:
  Products(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact);
  ~Products();

  // Throws std::invalid_argument as build_network.
  Product of(const Expression& expression);

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace specguide
