// Owns how a tokenizer spells a text, as far as a vocabulary alone tells.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/vocabulary.h"

namespace specguide {

// Byte-pair encoding (Sennrich et al. 2016): of all neighbours that make a token those merge first whose token has the
// lowest id, which is the order in which tokenizers are trained and numbered. Empty where a byte is no token.
// What a tokenizer does before, splitting into words, seldom tells: tokens of the vocabulary do not span such splits.
std::vector<int32_t> canonical_tokens(std::string_view text, const Vocabulary& vocabulary);

}  // namespace specguide
