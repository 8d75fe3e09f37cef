// Owns the order in which the rules of a network are computed: callees first.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "endings/network.h"

namespace specguide {

// Groups of rules that call each other, each group after those that it calls (Tarjan 1972).
std::vector<std::vector<int32_t>> Network::callees_first() const {
  constexpr int kUnmet = -1;
  std::vector<std::vector<int32_t>> groups;
  std::vector<int> number(rules_.size(), kUnmet), lowest(rules_.size());
  std::vector<bool> is_waiting(rules_.size());
  std::vector<int32_t> waiting;
  std::vector<std::pair<int32_t, size_t>> open;  // rule, and how many of its nodes have been visited
  int num_met = 0;
  const auto meet = [&](int32_t rule) {
    number[static_cast<size_t>(rule)] = lowest[static_cast<size_t>(rule)] = num_met++;
    is_waiting[static_cast<size_t>(rule)] = true;
    waiting.push_back(rule);
    open.push_back({rule, 0});
  };
  const auto close = [&](int32_t rule) {
    open.pop_back();
    int& low = lowest[static_cast<size_t>(rule)];
    if (!open.empty()) {
      int& outer = lowest[static_cast<size_t>(open.back().first)];
      outer = std::min(outer, low);
    }
    if (low != number[static_cast<size_t>(rule)]) return;
    groups.emplace_back();
    for (int32_t member = -1; member != rule;) {
      member = waiting.back();
      waiting.pop_back();
      is_waiting[static_cast<size_t>(member)] = false;
      groups.back().push_back(member);
    }
  };
  for (int32_t first = 0; first < static_cast<int32_t>(rules_.size()); ++first) {
    if (number[static_cast<size_t>(first)] != kUnmet) continue;
    meet(first);
    while (!open.empty()) {
      const int32_t rule = open.back().first;
      const std::vector<int32_t>& nodes = rules_[static_cast<size_t>(rule)].nodes;
      if (open.back().second == nodes.size()) {
        close(rule);
        continue;
      }
      const Node& node = (*this)[nodes[open.back().second++]];
      if (node.kind != Kind::kCall) continue;
      const auto callee = static_cast<size_t>(node.index);
      if (number[callee] == kUnmet) {
        meet(node.index);
      } else if (is_waiting[callee]) {
        int& low = lowest[static_cast<size_t>(rule)];
        low = std::min(low, number[callee]);
      }
    }
  }
  return groups;
}

}  // namespace specguide
