// Owns a trie of all short pieces of texts, with the number of times that each occurred (Oliaro et al. 2024,
// SuffixDecoding).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "growing_map.h"
#include "lookup.h"

namespace specguide {

class SuffixTrie {
 public:
  // A trie of pieces of at most max_depth >= 2 tokens.
  explicit SuffixTrie(int max_depth) : max_depth_(max_depth) {}

  // The position in a text to which tokens are appended: the nodes of its last pieces, longest first. Empty at the
  // beginning.
  using Ends = std::vector<uint32_t>;
  void append(Ends& ends, int32_t token);

  // The token that most often followed the longest suffix of a text that is in the trie. tail: the end of the text,
  // reversed
  struct Match {
    int length = 0;
    LookedUp next;
  };
  Match match(const std::vector<int32_t>& tail) const;

  size_t num_nodes() const { return nodes_.size() + 1; }
  int max_depth() const { return max_depth_; }

 private:
  struct Node {
    int32_t num_seen = 0;       // times that its piece occurred
    int32_t num_continued = 0;  // times that something followed it
    int32_t best_token = -1;    // the token that followed most often
    int32_t best_seen = 0;      // times that this token followed
  };

  static constexpr uint32_t kRoot = GrowingMap<Node>::kNone;

  static uint64_t edge(uint32_t node, int32_t token) { return uint64_t{node} << 32 | static_cast<uint32_t>(token); }
  uint32_t step(uint32_t node, int32_t token);

  const int max_depth_;
  GrowingMap<Node> nodes_;  // by edge, all but the root
  Node root_;
};

// Recent parts of a long text in two tries: when the younger one has grown to half of all nodes, it replaces the older
// one.
class SuffixTries {
 public:
  SuffixTries(int max_depth, size_t max_nodes)
      : max_depth_(max_depth), max_nodes_(max_nodes), young_(make()), old_(make()) {}

  // The position in a text to which tokens are appended. It is in the trie that was the younger one after `num_aged`
  // replacements.
  struct Place {
    int64_t num_aged = 0;
    SuffixTrie::Ends ends;
  };

  // Makes room if there is none, and returns the trie that was dropped for it. If the position's trie is no longer the
  // younger one, whoever made room, the next token begins a new text.
  std::unique_ptr<SuffixTrie> make_room(Place& place);
  // Call it only while the position's trie is the younger one.
  void append(Place& place, int32_t token) { young_->append(place.ends, token); }
  // Of equally long matches, that of the younger trie.
  SuffixTrie::Match match(const std::vector<int32_t>& tail) const;
  size_t num_nodes() const { return young_->num_nodes() + old_->num_nodes(); }
  int max_depth() const { return max_depth_; }

 private:
  std::unique_ptr<SuffixTrie> make() const { return std::make_unique<SuffixTrie>(max_depth_); }

  const int max_depth_;
  const size_t max_nodes_;
  std::unique_ptr<SuffixTrie> young_, old_;
  int64_t num_aged_ = 0;  // how often the older one was replaced
};

}  // namespace specguide
