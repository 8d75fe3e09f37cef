#include "suffix_trie.h"

#include <algorithm>
#include <utility>

namespace specguide {

void SuffixTrie::append(Ends& ends, int32_t token) {
  for (uint32_t& node : ends) node = step(node, token);
  ends.push_back(step(kRoot, token));
  if (ends.size() == static_cast<size_t>(max_depth_)) ends.erase(ends.begin());
}

uint32_t SuffixTrie::step(uint32_t node, int32_t token) {
  const uint32_t child = nodes_.put(edge(node, token));
  const int32_t num_seen = ++nodes_[child].num_seen;
  Node& parent = node == kRoot ? root_ : nodes_[node];
  ++parent.num_continued;
  if (num_seen >= parent.best_seen) {  // among equals the latest
    parent.best_token = token;
    parent.best_seen = num_seen;
  }
  return child;
}

SuffixTrie::Match SuffixTrie::match(const std::vector<int32_t>& tail) const {
  for (int length = std::min(static_cast<int>(tail.size()), max_depth_ - 1); length > 0; --length) {
    uint32_t node = nodes_.find(edge(kRoot, tail[length - 1]));
    for (int depth = 1; depth < length && node != GrowingMap<Node>::kNone; ++depth) {
      node = nodes_.find(edge(node, tail[length - 1 - depth]));
    }
    if (node == GrowingMap<Node>::kNone) continue;
    const Node& found = nodes_[node];
    if (found.num_continued == 0) continue;
    return {length, {found.best_token, static_cast<double>(found.best_seen) / found.num_continued}};
  }
  return {};
}

std::unique_ptr<SuffixTrie> SuffixTries::make_room(Place& place) {
  std::unique_ptr<SuffixTrie> given_up;
  if (young_->num_nodes() >= max_nodes_ / 2) {
    given_up = std::exchange(old_, std::exchange(young_, make()));
    ++num_aged_;
  }
  if (place.num_aged != num_aged_) place = {num_aged_, {}};
  return given_up;
}

SuffixTrie::Match SuffixTries::match(const std::vector<int32_t>& tail) const {
  const SuffixTrie::Match young = young_->match(tail), old = old_->match(tail);
  return old.length > young.length ? old : young;
}

}  // namespace specguide
