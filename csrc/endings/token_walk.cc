// Owns how an automaton goes through all tokens of a vocabulary; see automaton.h.
#include <algorithm>
#include <array>

#include "endings/automaton.h"
#include "row.h"

namespace specguide {

namespace {

// Calls visit(token, state) for each token that may follow. Of equal bytes for one of them.
template <typename Step, typename Visit>
void each_token(const TokenTrie& trie, Automaton::State from, Step step, Visit visit) {
  std::array<Automaton::State, 256> at{};
  at[0] = from;
  const std::vector<TokenTrie::Node>& nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Automaton::State state = step(at[node.depth - 1u], node.byte);
    if (state == Automaton::kDead) {
      i = static_cast<size_t>(node.end);
      continue;
    }
    at[node.depth] = state;
    if (node.token >= 0) visit(node.token, state);
    ++i;
  }
}

}  // namespace

int64_t Automaton::Walk::least_behind(State state, const TokenTrie& trie, const int32_t* row) {
  int64_t found = Network::kNever;
  each_token(trie, state, [this](State at, uint8_t byte) { return step(at, byte); },
             [&](int32_t token, State behind) {
               for (; token >= 0; token = trie.same(token)) {
                 if (has_bit(row, token)) found = std::min(found, least(behind));
               }
             });
  return found;
}

void Automaton::Walk::keep_endable(State state, const TokenTrie& trie, int64_t most, int32_t* row) {
  const auto num_words = static_cast<size_t>(trie.vocabulary().num_words());
  std::vector<int32_t> kept(num_words);
  int64_t worst = 0;
  each_token(trie, state, [this](State at, uint8_t byte) { return step(at, byte); },
             [&](int32_t token, State behind) {
               worst = std::max(worst, least(behind));
               if (least(behind) > most) return;
               for (; token >= 0; token = trie.same(token)) set_bit(kept.data(), token);
             });
  automaton_.states_[static_cast<size_t>(state)].worst = worst;
  if (worst <= most) return;
  for (size_t word = 0; word < num_words; ++word) row[word] &= kept[word];
}

}  // namespace specguide
