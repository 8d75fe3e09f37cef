// Owns prompt lookup (Saxena 2023): it proposes what followed the most recent occurrence of the last n tokens.
#pragma once

#include "lookup.h"

namespace specguide {

// Looks for the last max_n tokens first, then for fewer, down to min_n.
class NgramSource final : public LookupSource {
 public:
  // Throws std::invalid_argument unless 1 <= min_n <= max_n <= 16.
  NgramSource(int min_n, int max_n);
  std::unique_ptr<Lookup> start(std::vector<int32_t> text) override;

 private:
  const int min_n_, max_n_;
};

}  // namespace specguide
