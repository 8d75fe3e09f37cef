// Owns the search for forced tokens. It only looks at rows, so it works for every matcher.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

constexpr int kMaxForcedTokens = 32;

// The token that a row forces: the longest allowed token whose text is a beginning or a continuation of every allowed
// token's text. -1 if allowed tokens differ from the first byte, if the grammar may end, or if nothing is allowed.
int32_t forced_token(const int32_t* row, const Vocabulary& vocabulary);

// At most kMaxForcedTokens forced tokens from the matcher's present state, which is restored. `row` is scratch memory
// of vocabulary.num_words() words.
std::vector<int32_t> find_forced_tokens(Matcher& matcher, const Vocabulary& vocabulary, int32_t* row);

// The forced text from token `first` on, in at most `limit` tokens, spelled by the tokenizer or, where `spelling` has a
// habit, by the target. The last one is left out if the grammar accepts a longer token in its place: then the following
// text may be spelled together with it.
std::vector<SpeltToken> find_forced_drafts(Matcher& matcher, const Vocabulary& vocabulary, int32_t first, size_t limit,
                                           const Spelling& spelling, int32_t* row);

}  // namespace specguide
