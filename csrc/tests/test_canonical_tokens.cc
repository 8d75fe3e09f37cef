// Canonical spelling: neighbours merge in the order of token ids.
#include "backends/canonical_tokens.h"

#include "check.h"

using namespace specguide;
using Tokens = std::vector<int32_t>;

TEST(tokens_merge_in_the_order_of_their_ids) {
  const Vocabulary vocabulary({"<end>", "a", "b", "c", "bc", "ab", "abc", "cc"}, {0});
  CHECK(canonical_tokens("abc", vocabulary) == (Tokens{6}));  // a, bc → abc: bc is older than ab
  CHECK(canonical_tokens("abb", vocabulary) == (Tokens{5, 2}));
  CHECK(canonical_tokens("abcc", vocabulary) == (Tokens{6, 3}));
  CHECK(canonical_tokens("cccc", vocabulary) == (Tokens{7, 7}));
  CHECK(canonical_tokens("ccc", vocabulary) == (Tokens{7, 3}));
  CHECK(canonical_tokens("", vocabulary).empty());
}

TEST(the_longest_token_is_not_always_the_first) {
  const Vocabulary vocabulary({"<end>", "N", "o", "t", "e", "s", "es", "No", "tes", "Not", "Note"}, {0});
  CHECK(canonical_tokens("Notes", vocabulary) == (Tokens{7, 8}));
}

TEST(a_byte_without_a_token_spells_nothing) {
  CHECK(canonical_tokens("ax", Vocabulary({"<end>", "a", "b"}, {0})).empty());
}

TEST(of_tokens_with_the_same_bytes_the_last_is_the_one) {
  CHECK(canonical_tokens("a", Vocabulary({"<end>", "a", "a"}, {0})) == (Tokens{2}));
}
