// Owns the way from a grammar's expressions to a network.
#pragma once

#include <memory>

#include "endings/expression.h"
#include "endings/network.h"

namespace specguide {

// is_exact: with the texts of the grammar and no others; else there may be more of them
// Throws std::invalid_argument where a rule is missing, and where parts are too large to be told.
std::shared_ptr<const Network> build_network(const Grammar& grammar, const Vocabulary& vocabulary, bool is_exact = false);

}  // namespace specguide
