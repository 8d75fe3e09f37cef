// Owns the search for forced tokens: it asks rows alone, so it holds for every matcher.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

constexpr int kMaxForcedTokens = 32;

// The token that a row forces: the longest allowed token whose text every allowed token begins with or continues.
// -1 where allowed tokens part at once, where the grammar may end, or where nothing is allowed.
int32_t forced_token(const int32_t* row, const Vocabulary& vocabulary);

// At most kMaxForcedTokens forced tokens from the matcher's state on, which is the same afterwards.
// `row` is scratch of vocabulary.num_words() words.
std::vector<int32_t> find_forced_tokens(Matcher& matcher, const Vocabulary& vocabulary, int32_t* row);

// The text that is forced from the token `first` on, as the tokenizer would spell it, or as the target does by its
// `spelling`: at most `limit` tokens. The last one is left out where the grammar takes a longer token in its place:
// what follows the text may be spelt together with it.
std::vector<SpeltToken> find_forced_drafts(Matcher& matcher, const Vocabulary& vocabulary, int32_t first, size_t limit,
                                           const Spelling& spelling, int32_t* row);

}  // namespace specguide
