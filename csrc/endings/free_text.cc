#include "endings/free_text.h"

#include <array>
#include <map>
#include <utility>

namespace specguide {

namespace {

using Node = Network::Node;
using NodeKind = Network::Kind;

// A state is the longest suffix of the text that begins a word (Aho and Corasick 1975).
struct Words {
  static constexpr int kNone = -1;

  struct State {
    std::array<int, 256> next{};
    std::vector<int> ends;  // words that end here
  };

  explicit Words(const std::vector<std::string>& words) {
    states.emplace_back();
    states[0].next.fill(kNone);
    for (size_t i = 0; i < words.size(); ++i) insert(words[i], static_cast<int>(i));
    link();
  }

  void insert(const std::string& word, int index) {
    int at = 0;
    for (const char sign : word) {
      const auto byte = static_cast<uint8_t>(sign);
      if (states[static_cast<size_t>(at)].next[byte] == kNone) {
        states[static_cast<size_t>(at)].next[byte] = static_cast<int>(states.size());
        states.emplace_back();
        states.back().next.fill(kNone);
      }
      at = states[static_cast<size_t>(at)].next[byte];
    }
    states[static_cast<size_t>(at)].ends.push_back(index);
  }

  void link() {
    std::vector<int> order{0}, fallback(states.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto at = static_cast<size_t>(order[i]);
      const auto back = static_cast<size_t>(fallback[at]);
      for (size_t byte = 0; byte < 256; ++byte) {
        int& next = states[at].next[byte];
        const int instead = at == 0 ? 0 : states[back].next[byte];
        if (next == kNone) {
          next = instead;
          continue;
        }
        fallback[static_cast<size_t>(next)] = at == 0 ? 0 : instead;
        const std::vector<int>& inherited = states[static_cast<size_t>(fallback[static_cast<size_t>(next)])].ends;
        std::vector<int>& ends = states[static_cast<size_t>(next)].ends;
        ends.insert(ends.end(), inherited.begin(), inherited.end());
        order.push_back(next);
      }
    }
  }

  std::vector<State> states;
};

}  // namespace

int32_t add_free_text(Network& network, int32_t rule, const FreeText& text, int32_t next,
                      const std::function<int32_t(const std::string&)>& rule_named) {
  std::vector<std::string> texts;
  for (const auto& [trigger, name] : text.triggers) texts.push_back(trigger);
  texts.insert(texts.end(), text.excluded.begin(), text.excluded.end());
  const Words words(texts);
  std::vector<int32_t> nodes;  // by state; each may end, or continue by a byte
  for (size_t i = 0; i < words.states.size(); ++i) {
    Node node;
    node.kind = NodeKind::kSplit;
    node.next.push_back(next);
    nodes.push_back(network.add_node(rule, std::move(node)));
  }
  for (size_t i = 0; i < words.states.size(); ++i) {
    std::map<int, ByteSet> ways;
    for (size_t byte = 0; byte < 256; ++byte) ways[words.states[i].next[byte]].set(byte);
    for (const auto& [state, bytes] : ways) {
      const std::vector<int>& ends = words.states[static_cast<size_t>(state)].ends;
      int32_t behind = nodes[static_cast<size_t>(state)];
      if (!ends.empty()) {
        if (static_cast<size_t>(ends[0]) >= text.triggers.size()) continue;
        const int32_t callee = rule_named(text.triggers[static_cast<size_t>(ends[0])].second);
        behind = network.add_call(rule, callee, 1, 1, text.goes_on ? nodes[0] : next);
      }
      network.add_way(nodes[i], network.add_bytes(rule, bytes, behind));
    }
  }
  return nodes[0];
}

}  // namespace specguide
