// Owns the search for forced tokens; see forced_tokens.h.
#include "backends/forced_tokens.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "backends/canonical_tokens.h"

namespace specguide {
namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t end = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < end && a[length] == b[length]) ++length;
  return length;
}

// Calls visit(token) for each set bit until it returns false. Rows of forced text are almost empty.
template <typename Visit>
void each_allowed(const int32_t* row, int num_words, Visit visit) {
  constexpr int kBlock = 16;
  for (int word = 0; word < num_words; ++word) {
    if (word % kBlock == 0 && word + kBlock <= num_words) {
      int32_t any = 0;
      for (int i = 0; i < kBlock; ++i) any |= row[word + i];
      if (any == 0) {
        word += kBlock - 1;
        continue;
      }
    }
    for (uint32_t bits = static_cast<uint32_t>(row[word]); bits != 0; bits &= bits - 1) {
      if (!visit(word * 32 + __builtin_ctz(bits))) return;
    }
  }
}

}  // namespace

int32_t forced_token(const int32_t* row, const Vocabulary& vocabulary) {
  // `text` is the common beginning of all allowed tokens seen so far: the longest of them, or up to where they differ.
  std::string_view text;
  size_t agreed = SIZE_MAX;
  each_allowed(row, vocabulary.num_words(), [&](int32_t token) {
    std::string_view bytes = vocabulary.token_bytes[static_cast<size_t>(token)];
    if (bytes.empty()) {
      agreed = 0;
    } else {
      const size_t common = common_prefix(text, bytes);
      if (common < std::min({text.size(), bytes.size(), agreed})) agreed = common;
      if (bytes.size() > text.size() && common == text.size()) text = bytes;
    }
    return agreed > 0;
  });
  if (agreed == 0 || text.empty()) return -1;
  text = text.substr(0, agreed);

  int32_t longest = -1;
  size_t length = 0;
  each_allowed(row, vocabulary.num_words(), [&](int32_t token) {
    std::string_view bytes = vocabulary.token_bytes[static_cast<size_t>(token)];
    if (bytes.size() > length && bytes.size() <= text.size()) {
      longest = token;
      length = bytes.size();
    }
    return true;
  });
  return longest;
}

namespace {

// Continues from `tokens`, which the matcher has accepted, as long as the row forces a token.
void walk_forced(Matcher& matcher, const Vocabulary& vocabulary, size_t limit, int32_t* row,
                 std::vector<int32_t>& tokens) {
  while (tokens.size() < limit && !matcher.is_terminated()) {
    matcher.fill(row);
    const int32_t token = forced_token(row, vocabulary);
    if (token < 0 || !matcher.accept(token)) break;
    tokens.push_back(token);
  }
}

// Rolls back the tokens that `walk` lets the matcher accept: all those in its vector.
template <typename Walk>
std::vector<int32_t> walk_and_back(Matcher& matcher, Walk walk) {
  std::vector<int32_t> tokens;
  const auto go_back = [&] {
    if (!tokens.empty()) matcher.rollback(static_cast<int>(tokens.size()));
  };
  try {
    walk(tokens);
  } catch (...) {
    go_back();
    throw;
  }
  go_back();
  return tokens;
}

// Whether the matcher also accepts, in place of the last of `tokens`, a longer token that begins with it.
bool may_be_longer(Matcher& matcher, const Vocabulary& vocabulary, const std::vector<SpeltToken>& tokens,
                   int32_t* row) {
  if (tokens.empty()) return false;
  walk_and_back(matcher, [&](std::vector<int32_t>& taken) {
    while (taken.size() + 1 < tokens.size() && matcher.accept(tokens[taken.size()].token)) {
      taken.push_back(tokens[taken.size()].token);
    }
    matcher.fill(row);
  });
  const std::string& last = vocabulary.token_bytes[static_cast<size_t>(tokens.back().token)];
  bool may_be = false;
  each_allowed(row, vocabulary.num_words(), [&](int32_t token) {
    const std::string& bytes = vocabulary.token_bytes[static_cast<size_t>(token)];
    may_be = bytes.size() > last.size() && bytes.compare(0, last.size(), last) == 0;
    return !may_be;
  });
  return may_be;
}

// The tokens of a text in the tokenizer's spelling. Where the target has a habit of its own, its token is used, and the
// rest is spelled by the tokenizer again.
std::vector<SpeltToken> spell(std::string_view text, const Vocabulary& vocabulary, const Spelling& spelling) {
  std::vector<SpeltToken> spelt;
  std::vector<int32_t> canonical;  // of `text`, the next one last
  while (!text.empty()) {
    if (canonical.empty()) {
      canonical = canonical_tokens(text, vocabulary);
      if (canonical.empty()) return {};
      std::reverse(canonical.begin(), canonical.end());
    }
    const int32_t expected = canonical.back(), habitual = spelling.of(expected);
    const std::string& bytes = vocabulary.token_bytes[static_cast<size_t>(habitual)];
    const bool is_habit = habitual != expected && !bytes.empty() && text.compare(0, bytes.size(), bytes) == 0;
    spelt.push_back({is_habit ? habitual : expected, expected});
    text.remove_prefix(vocabulary.token_bytes[static_cast<size_t>(spelt.back().token)].size());
    canonical.pop_back();
    if (is_habit) canonical.clear();
  }
  return spelt;
}

}  // namespace

std::vector<int32_t> find_forced_tokens(Matcher& matcher, const Vocabulary& vocabulary, int32_t* row) {
  return walk_and_back(matcher, [&](std::vector<int32_t>& tokens) {
    walk_forced(matcher, vocabulary, kMaxForcedTokens, row, tokens);
  });
}

std::vector<SpeltToken> find_forced_drafts(Matcher& matcher, const Vocabulary& vocabulary, int32_t first, size_t limit,
                                           const Spelling& spelling, int32_t* row) {
  std::vector<int32_t> tokens = walk_and_back(matcher, [&](std::vector<int32_t>& taken) {
    if (!matcher.accept(first)) return;
    taken.push_back(first);
    walk_forced(matcher, vocabulary, limit, row, taken);
  });
  std::string text;
  for (const int32_t token : tokens) text += vocabulary.token_bytes[static_cast<size_t>(token)];
  std::vector<SpeltToken> drafts = spell(text, vocabulary, spelling);
  if (drafts.empty()) {
    for (const int32_t token : tokens) drafts.push_back({token, -1});
  }
  if (drafts.size() > limit) {
    drafts.resize(limit);
  } else if (may_be_longer(matcher, vocabulary, drafts, row)) {
    drafts.pop_back();
  }
  return drafts;
}

}  // namespace specguide
