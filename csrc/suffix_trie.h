// Owns a trie of all short pieces of texts, with how often each was there (Oliaro et al. 2024, SuffixDecoding).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lookup.h"

namespace specguide {

class SuffixTrie {
 public:
  // A trie of pieces of at most max_depth >= 2 tokens.
  explicit SuffixTrie(int max_depth) : max_depth_(max_depth), nodes_(1) {}

  // The place of a text to which tokens are appended: the nodes of its last pieces, the longest first. It is empty at
  // the beginning.
  using Ends = std::vector<uint32_t>;
  void append(Ends& ends, int32_t token);

  // The token that most often followed the longest end of a text that is in the trie. tail: the text's end, reversed
  struct Match {
    int length = 0;
    LookedUp next;
  };
  Match match(const std::vector<int32_t>& tail) const;

  size_t num_nodes() const { return nodes_.size(); }
  int max_depth() const { return max_depth_; }

 private:
  struct Node {
    int32_t num_seen = 0;       // times that its piece was there
    int32_t num_continued = 0;  // times that something followed it
    int32_t best_token = -1;    // the token that followed most often
    int32_t best_seen = 0;      // times that this token followed
  };

  static uint64_t edge(uint32_t node, int32_t token) { return uint64_t{node} << 32 | static_cast<uint32_t>(token); }
  uint32_t step(uint32_t node, int32_t token);

  const int max_depth_;
  std::vector<Node> nodes_;  // the first is the root
  std::unordered_map<uint64_t, uint32_t> children_;
};

}  // namespace specguide
