#include "suffix_trie.h"

#include <algorithm>

namespace specguide {

void SuffixTrie::append(Ends& ends, int32_t token) {
  for (uint32_t& node : ends) node = step(node, token);
  ends.push_back(step(0, token));
  if (ends.size() == static_cast<size_t>(max_depth_)) ends.erase(ends.begin());
}

uint32_t SuffixTrie::step(uint32_t node, int32_t token) {
  const auto [child, is_new] = children_.try_emplace(edge(node, token), static_cast<uint32_t>(nodes_.size()));
  if (is_new) nodes_.emplace_back();
  const int32_t num_seen = ++nodes_[child->second].num_seen;
  Node& parent = nodes_[node];
  ++parent.num_continued;
  if (num_seen >= parent.best_seen) {  // of equals the latest
    parent.best_token = token;
    parent.best_seen = num_seen;
  }
  return child->second;
}

SuffixTrie::Match SuffixTrie::match(const std::vector<int32_t>& tail) const {
  for (int length = std::min(static_cast<int>(tail.size()), max_depth_ - 1); length > 0; --length) {
    uint32_t node = 0;
    int depth = 0;
    for (; depth < length; ++depth) {
      const auto child = children_.find(edge(node, tail[length - 1 - depth]));
      if (child == children_.end()) break;
      node = child->second;
    }
    const Node& found = nodes_[node];
    if (depth < length || found.num_continued == 0) continue;
    return {length, {found.best_token, static_cast<double>(found.best_seen) / found.num_continued}};
  }
  return {};
}

}  // namespace specguide
