// Owns how a tokenizer spells a text, as far as the vocabulary alone can tell.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/vocabulary.h"

namespace specguide {

// Byte-pair encoding (Sennrich et al. 2016): among all neighbours that form a token, those whose token has the lowest
// id merge first; tokenizers are trained and numbered in this order. Empty if a byte is no token.
// A tokenizer's splitting into words, which comes before, seldom matters: tokens of the vocabulary do not span such
// splits.
std::vector<int32_t> canonical_tokens(std::string_view text, const Vocabulary& vocabulary);

}  // namespace specguide
