// Owns the tokens of a vocabulary as a tree of their bytes, to be gone through together.
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
  // end:   index behind its subtree
  // token: the token with the bytes up to here, -1 for none; where several have these bytes, `same` gives the next one
  struct Node {
    uint8_t byte;
    uint8_t depth;  // 1 for a first byte; tokens of more than 255 bytes are left out
    int32_t end;
    int32_t token;
  };

  static constexpr size_t kLong = 16;

  explicit TokenTrie(std::shared_ptr<const Vocabulary> vocabulary);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // The next token with the same bytes; -1 for none.
  int32_t same(int32_t token) const { return same_[static_cast<size_t>(token)]; }
  // Tokens of more than kLong bytes, the longest first.
  const std::vector<int32_t>& long_tokens() const { return long_tokens_; }

 private:
  const std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<Node> nodes_;
  std::vector<int32_t> same_, long_tokens_;
};

}  // namespace specguide
