// Owns the way from a grammar's expressions to a network.
#pragma once

#include <memory>

#include "endings/expression.h"
#include "endings/network.h"
#include "endings/product.h"

namespace specguide {

// The network of a grammar. is_exact: it has the texts of the grammar and no others; else it may have more. Throws
// std::invalid_argument where a rule is missing, and where parts are too large to be told.
std::shared_ptr<const Network> build_network(const Grammar& grammar, const Vocabulary& vocabulary,
                                             bool is_exact = false);

struct SharedParts;

// The products that a grammar's expressions of kBoth, kNot and kFirst are. What the automaton of one factor finds out
// serves other products, too.
class Products {
 public:
  Products(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact);
  ~Products();

  // The product of an expression. Throws std::invalid_argument as build_network does.
  Product of(const Expression& expression);

 private:
  const std::unique_ptr<SharedParts> parts_;
};

}  // namespace specguide
