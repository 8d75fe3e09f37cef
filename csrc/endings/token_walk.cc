// Owns how an automaton goes through all tokens of a vocabulary; see automaton.h.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "endings/automaton.h"
#include "row.h"

namespace specguide {

namespace {

constexpr int32_t kWorthAsking = 100;  // nodes below one
using Loops = std::unordered_map<Automaton::State, uint8_t>;

}  // namespace

// The groups of bytes behind any of which the state is the same, a bit for each.
uint8_t Automaton::loops(State state) {
  unsigned found = (1u << TokenTrie::kNumGroups) - 1;
  for (int byte = 0; byte < 256; ++byte) {
    const unsigned group = 1u << TokenTrie::group_of(static_cast<uint8_t>(byte));
    if ((found & group) != 0 && step(state, static_cast<uint8_t>(byte)) != state) found &= ~group;
  }
  return static_cast<uint8_t>(found);
}

// What is missing behind the tokens that may follow, in the trie's order of them, runs of tokens at once.
std::vector<Automaton::Run> Automaton::runs(State from, const TokenTrie& trie) {
  const std::vector<TokenTrie::Node>& nodes = trie.nodes();
  std::vector<Run> found;
  const auto add = [&](State state, int32_t first, int32_t last) {
    const int64_t num_missing = states_[static_cast<size_t>(state)].least;
    const bool goes_on = !found.empty() && found.back().last == first && found.back().num_missing == num_missing;
    if (goes_on) found.back().last = last;
    else found.push_back({num_missing, first, last});
  };
  Loops known{{from, loops(from)}};
  const auto stays = [&](State state, const TokenTrie::Node& node, int32_t num_below) {
    auto loop = known.find(state);
    if (loop == known.end() && num_below >= kWorthAsking) loop = known.emplace(state, loops(state)).first;
    return loop != known.end() && (node.groups & ~loop->second) == 0;
  };
  std::array<State, 256> at{};
  at[0] = from;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const auto end = static_cast<size_t>(node.end);
    const State state = at[node.depth] = step(at[node.depth - 1u], node.byte);
    if (state == kDead) {
      i = end;
    } else if (end > i + 1 && stays(state, node, node.end - static_cast<int32_t>(i))) {
      add(state, node.first, end < nodes.size() ? nodes[end].first : static_cast<int32_t>(trie.tokens().size()));
      i = end;
    } else {
      if (node.token >= 0) add(state, node.first, node.first + 1);
      ++i;
    }
  }
  return found;
}

// Goes through all tokens when it is first asked for a state.
const Automaton::Missing& Automaton::missing(State state, const TokenTrie& trie) {
  const auto [place, is_new] = missing_.try_emplace(state);
  Missing& found = place->second;
  if (!is_new) return found;
  const std::vector<Run> all = runs(state, trie);
  std::unordered_map<int64_t, int64_t> num_tokens;  // by what is missing behind them
  for (const Run& run : all) num_tokens[run.num_missing] += run.last - run.first;
  const auto usual = std::max_element(num_tokens.begin(), num_tokens.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (usual != num_tokens.end()) found.usual = usual->first;
  found.usually.resize(static_cast<size_t>(trie.vocabulary().num_words()));
  int64_t worst = 0;
  for (const Run& run : all) {
    worst = std::max(worst, run.num_missing);
    for (int32_t i = run.first; i < run.last; ++i) {
      for (int32_t token = trie.tokens()[static_cast<size_t>(i)]; token >= 0; token = trie.same(token)) {
        if (run.num_missing == found.usual) set_bit(found.usually.data(), token);
        else found.others.push_back({run.num_missing, token});
      }
    }
  }
  found.others.shrink_to_fit();
  std::sort(found.others.begin(), found.others.end(),
            [](const Missing::Other& a, const Missing::Other& b) { return a.num_missing < b.num_missing; });
  num_bytes_ += sizeof(Missing) + found.usually.size() * sizeof(int32_t) + found.others.size() * sizeof(Missing::Other);
  states_[static_cast<size_t>(state)].worst = worst;
  return found;
}

int64_t Automaton::Walk::least_behind(State state, const TokenTrie& trie, const int32_t* row) {
  const Missing& missing = automaton_.missing(state, trie);
  int64_t least = Network::kNever;
  for (const Missing::Other& other : missing.others) {
    if (!has_bit(row, other.token)) continue;
    least = other.num_missing;  // the others behind it have as many at least
    break;
  }
  if (missing.usual >= least) return least;
  for (size_t word = 0; word < missing.usually.size(); ++word) {
    if ((row[word] & missing.usually[word]) != 0) return missing.usual;
  }
  return least;
}

void Automaton::Walk::keep_endable(State state, const TokenTrie& trie, int64_t most, int32_t* row) {
  const Missing& missing = automaton_.missing(state, trie);
  if (automaton_.states_[static_cast<size_t>(state)].worst <= most) return;
  std::vector<int32_t> kept(missing.usually.size());
  if (missing.usual <= most) kept = missing.usually;
  for (const Missing::Other& other : missing.others) {
    if (other.num_missing > most) break;
    set_bit(kept.data(), other.token);
  }
  for (size_t word = 0; word < kept.size(); ++word) row[word] &= kept[word];
}

}  // namespace specguide
