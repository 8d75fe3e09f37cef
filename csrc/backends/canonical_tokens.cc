#include "backends/canonical_tokens.h"

#include <algorithm>

namespace specguide {

std::vector<int32_t> canonical_tokens(std::string_view text, const Vocabulary& vocabulary) {
  std::vector<size_t> bounds;  // of the tokens so far
  for (size_t i = 0; i <= text.size(); ++i) bounds.push_back(i);
  const auto token = [&](size_t begin, size_t end) { return vocabulary.find(text.substr(begin, end - begin)); };
  const auto merged = [&](size_t i) { return i + 2 < bounds.size() ? token(bounds[i], bounds[i + 2]) : -1; };
  std::vector<int32_t> merges;  // the token that each token makes together with the next one
  for (size_t i = 0; i < text.size(); ++i) merges.push_back(merged(i));
  // Ascending, with -1 last.
  const auto rank = [](int32_t a, int32_t b) { return static_cast<uint32_t>(a) < static_cast<uint32_t>(b); };
  while (!merges.empty()) {
    const auto best = std::min_element(merges.begin(), merges.end(), rank);
    if (*best < 0) break;
    const auto i = static_cast<size_t>(best - merges.begin());
    bounds.erase(bounds.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    merges.erase(best);
    merges[i] = merged(i);
    if (i > 0) merges[i - 1] = merged(i - 1);
  }
  std::vector<int32_t> tokens;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    tokens.push_back(token(bounds[i], bounds[i + 1]));
    if (tokens.back() < 0) return {};
  }
  return tokens;
}

}  // namespace specguide
