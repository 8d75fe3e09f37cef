// Owns the translation of a grammar's expressions to a network.
#pragma once

#include <memory>

#include "endings/expression.h"
#include "endings/network.h"
#include "endings/product.h"

namespace specguide {

// The network of a grammar. is_exact: it has exactly the texts of the grammar; otherwise it may have more. Throws
// std::invalid_argument if a rule is missing, or if parts are too large to represent.
std::shared_ptr<const Network> build_network(const Grammar& grammar, const Vocabulary& vocabulary,
                                             bool is_exact = false);

struct SharedParts;

// The products that a grammar's expressions of kBoth, kNot and kFirst stand for. What the automaton of a factor finds
// out is reused by other products.
class Products {
 public:
  Products(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact);
  ~Products();

  // The product of an expression. Throws std::invalid_argument like build_network.
  Product of(const Expression& expression);

 private:
  const std::unique_ptr<SharedParts> parts_;
};

}  // namespace specguide
