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

// automaton: that of the factor's texts; what it finds out serves other products, too
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

// Adds nodes for a product's texts before `next` and returns the first; adds none and returns nothing where there are
// too many states.
// num_states_left: number of states that there may be; those that were met are taken off
std::optional<int32_t> add_product(Network& network, int32_t rule, const Product& product, int32_t next,
                                   size_t& num_states_left);

// Bytes of a product's shortest text, found without going through all states, or of some text that is found sooner; and
// the most bytes that are missing behind the beginning of a text. Unknown where too many states are met, and where the product has no text;
// `missing_of_product` says Bounds::kTooLarge for a product that has too many states itself.
int64_t least_of_product(const Product& product, size_t& num_states_left);
int64_t missing_of_product(const Product& product, size_t& num_states_left);

}  // namespace specguide
