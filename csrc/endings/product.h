// Owns texts that several grammars say something of: all of some, none of others, and only up to their first end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "endings/automaton.h"
#include "endings/bounds.h"
#include "endings/network.h"

namespace specguide {

// automaton: of the factor's texts; what it finds out serves other products, too
// is_not:    the factor's texts are left out
// is_first:  nothing follows an end
struct Product {
  struct Factor {
    std::shared_ptr<Automaton> automaton;
    bool is_not = false;
  };
  std::vector<Factor> factors;
  bool is_first = false;
};

// States that a product may have, and all of a grammar's.
constexpr size_t kMostProductStates = 4'000, kMostStatesOfProducts = 200'000;

// Nodes for its texts before `next`; returns the first, or nothing, and adds none, where there are too many states.
// num_states_left: as many as there may be; those that were met are taken off
std::optional<int32_t> add_product(Network& network, int32_t rule, const Product& product, int32_t next,
                                   size_t& num_states_left);

// Bytes of its shortest text, found without going through all states; and what is missing behind a beginning of a text at
// most. Unknown where too many states are met, and where it has no text; `missing_of_product` tells of a product that has
// too many itself, by Bounds::kTooLarge.
int64_t least_of_product(const Product& product, size_t& num_states_left);
int64_t missing_of_product(const Product& product, size_t& num_states_left);

}  // namespace specguide
