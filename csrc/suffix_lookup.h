// Owns suffix drafting (Oliaro et al. 2024): it proposes what most often followed the longest suffix of the text that
// occurred before, in the request's own text or in outputs of earlier requests.
#pragma once

#include <memory>

#include "lookup.h"

namespace specguide {

class SuffixCache;

class SuffixSource final : public LookupSource {
 public:
  // max_nodes: maximum nodes, of some 40 bytes each, that are kept of outputs; when there are that many, the older half
  //            is dropped. Throws std::invalid_argument unless max_depth is 2 … 64, max_nodes at least 2 and 0 <=
  //            least_probability <= 1.
  SuffixSource(int max_depth, size_t max_nodes, double least_probability);
  std::unique_ptr<Lookup> start(std::vector<int32_t> text) override;
  double least_probability() const override { return least_probability_; }
  size_t num_nodes() const;

 private:
  const std::shared_ptr<SuffixCache> cache_;
  const double least_probability_;
};

}  // namespace specguide
