// Owns products: texts that some grammars must allow and others must not, optionally only up to their first end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "endings/automaton.h"
#include "endings/bounds.h"
#include "endings/network.h"

namespace specguide {

// automaton: that of the factor's texts; what it finds out is reused by other products
// is_not:    the factor's texts are excluded
// is_first:  nothing may follow an end
struct Product {
  struct Factor {
    std::shared_ptr<Automaton> automaton;
    bool is_not = false;
  };
  std::vector<Factor> factors;
  bool is_first = false;
};

// Maximum states of one product, and of all products of a grammar.
constexpr size_t kMostProductStates = 4'000, kMostStatesOfProducts = 200'000;

// Adds nodes for a product's texts before `next` and returns the first; adds none and returns nothing if there are too
// many states.
// num_states_left: number of states that are still allowed; the visited ones are subtracted
std::optional<int32_t> add_product(Network& network, int32_t rule, const Product& product, int32_t next,
                                   size_t& num_states_left);

// Bytes of a product's shortest text, or of a text that is found sooner, without visiting all states; and the most
// bytes that are missing behind the beginning of a text. Unknown if too many states are visited, or if the product has
// no text; `missing_of_product` returns Bounds::kTooLarge for a product that has too many states itself.
int64_t least_of_product(const Product& product, size_t& num_states_left);
int64_t missing_of_product(const Product& product, size_t& num_states_left);

}  // namespace specguide
