// Owns the tokens of a vocabulary as a tree of their bytes, so that all can be walked together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/vocabulary.h"

namespace specguide {

class TokenTrie {
 public:
  // Nodes are in depth-first order.
  //
  // groups: groups of the characters in its subtree's tokens below it, one bit for each group
  // end:    index after its subtree
  // token:  the token with the bytes up to here, -1 if there is none; if several tokens have these bytes, `same` gives
  //         the next one
  // first:  index in `tokens` of the first token in its subtree
  struct Node {
    uint8_t byte;
    uint8_t depth;  // 1 for a first byte; tokens of more than 255 bytes are left out
    uint8_t groups;
    int32_t end;
    int32_t token;
    int32_t first;
  };

  static constexpr size_t kLong = 16;

  // Groups of characters that grammars often treat alike: those beyond ASCII, and six within ASCII. Incomplete or
  // invalid characters form a group of their own.
  static constexpr int kNumGroups = 8, kBeyondAscii = 0, kNoCharacter = 1;
  static int ascii_group(uint8_t byte);

  explicit TokenTrie(std::shared_ptr<const Vocabulary> vocabulary);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // The tokens of the nodes, in the same order.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  // The next token with the same bytes; -1 if there is none.
  int32_t same(int32_t token) const { return same_[static_cast<size_t>(token)]; }
  // Tokens of more than kLong bytes, the longest first.
  const std::vector<int32_t>& long_tokens() const { return long_tokens_; }

 private:
  const std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_, same_, long_tokens_;
};

}  // namespace specguide
