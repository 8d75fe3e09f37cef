// Owns how an automaton walks through all tokens of a vocabulary; see automaton.h.
#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "endings/automaton.h"
#include "row.h"

namespace specguide {

namespace {

constexpr int32_t kWorthAsking = 100;  // minimum nodes below one for which loops are computed
constexpr size_t kFewTokens = 500;
using Loops = std::unordered_map<Automaton::State, uint8_t>;

// The tokens of a row, if there are few.
std::optional<std::vector<int32_t>> few_tokens(const int32_t* row, int num_words) {
  std::vector<int32_t> found;
  for (int word = 0; word < num_words; ++word) {
    for (auto bits = static_cast<uint32_t>(row[word]); bits != 0; bits &= bits - 1) {
      if (found.size() == kFewTokens) return std::nullopt;
      found.push_back(word * 32 + __builtin_ctz(bits));
    }
  }
  return found;
}

}  // namespace

// The states that any byte from `low` to `high` leads to from any of some states.
std::set<Automaton::State> Automaton::behind_any(const std::set<State>& states, int low, int high) {
  std::set<State> found;
  for (const State state : states) {
    for (int byte = low; byte <= high; ++byte) found.insert(step(state, static_cast<uint8_t>(byte)));
  }
  return found;
}

// Whether each character beyond ASCII leads back to the same state (RFC 3629, section 4).
bool Automaton::loops_beyond_ascii(State state) {
  struct Sequences {
    int low, high, second_low, second_high, num_more;
  };
  static constexpr Sequences kAll[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                       {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
                                       {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                                       {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
  for (const Sequences& some : kAll) {
    std::set<State> behind = behind_any(behind_any({state}, some.low, some.high), some.second_low, some.second_high);
    for (int i = 0; i < some.num_more; ++i) behind = behind_any(behind, 0x80, 0xBF);
    if (behind != std::set<State>{state}) return false;
  }
  return true;
}

// The groups in which every character leads back to the same state, one bit for each.
uint8_t Automaton::loops(State state) {
  unsigned found = (1u << TokenTrie::kNumGroups) - 1 - (1u << TokenTrie::kNoCharacter);
  for (int byte = 0; byte < 0x80; ++byte) {
    const unsigned group = 1u << TokenTrie::ascii_group(static_cast<uint8_t>(byte));
    if ((found & group) != 0 && step(state, static_cast<uint8_t>(byte)) != state) found &= ~group;
  }
  if (!loops_beyond_ascii(state)) found &= ~(1u << TokenTrie::kBeyondAscii);
  return static_cast<uint8_t>(found);
}

// What is missing behind the tokens that may follow, as runs of tokens in the trie's order.
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

// Walks through all tokens the first time it is asked for a state.
const Automaton::Missing& Automaton::missing(State state, const TokenTrie& trie) {
  const auto [place, is_new] = missing_.try_emplace(state);
  Missing& found = place->second;
  if (!is_new) return found;
  const std::vector<Run> all = runs(state, trie);
  std::unordered_map<int64_t, int64_t> num_tokens;  // by the number of tokens missing behind them
  for (const Run& run : all) num_tokens[run.num_missing] += run.last - run.first;
  const auto usual = std::max_element(num_tokens.begin(), num_tokens.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (usual != num_tokens.end()) found.usual = usual->first;
  found.usually.resize(static_cast<size_t>(trie.vocabulary().num_words()));
  int64_t worst = 0;
  const auto each = [&](const Run& run, auto visit) {
    for (int32_t i = run.first; i < run.last; ++i) {
      for (int32_t token = trie.tokens()[static_cast<size_t>(i)]; token >= 0; token = trie.same(token)) visit(token);
    }
  };
  for (const Run& run : all) {
    worst = std::max(worst, run.num_missing);
    if (run.num_missing == found.usual) each(run, [&](int32_t token) { set_bit(found.usually.data(), token); });
    else each(run, [&](int32_t token) { found.others.push_back({run.num_missing, token}); });
  }
  found.others.shrink_to_fit();
  std::sort(found.others.begin(), found.others.end(),
            [](const Missing::Other& a, const Missing::Other& b) { return a.num_missing < b.num_missing; });
  num_bytes_ += sizeof(Missing) + found.usually.size() * sizeof(int32_t) + found.others.size() * sizeof(Missing::Other);
  states_[static_cast<size_t>(state)].worst = worst;
  return found;
}

// None for a token that may not follow.
std::optional<int64_t> Automaton::missing_behind(State state, const Vocabulary& vocabulary, int32_t token) {
  if (!vocabulary.is_text(token)) return std::nullopt;
  for (const char byte : vocabulary.token_bytes[static_cast<size_t>(token)]) {
    state = step(state, static_cast<uint8_t>(byte));
  }
  if (state == kDead) return std::nullopt;
  return states_[static_cast<size_t>(state)].least;
}

int64_t Automaton::Walk::least_behind(State state, const TokenTrie& trie, const int32_t* row) {
  int64_t least = Network::kNever;
  if (const auto tokens = few_tokens(row, trie.vocabulary().num_words())) {
    for (const int32_t token : *tokens) {
      least = std::min(least, automaton_.missing_behind(state, trie.vocabulary(), token).value_or(least));
    }
    return least;
  }
  const Missing& missing = automaton_.missing(state, trie);
  for (const Missing::Other& other : missing.others) {
    if (!has_bit(row, other.token)) continue;
    least = other.num_missing;  // the others come later, so at least as many are missing
    break;
  }
  if (missing.usual >= least) return least;
  for (size_t word = 0; word < missing.usually.size(); ++word) {
    if ((row[word] & missing.usually[word]) != 0) return missing.usual;
  }
  return least;
}

void Automaton::Walk::keep_endable(State state, const TokenTrie& trie, int64_t most, int32_t* row) {
  const int num_words = trie.vocabulary().num_words();
  std::vector<int32_t> kept(static_cast<size_t>(num_words));
  bool all_fit = true;
  if (const auto tokens = few_tokens(row, num_words)) {
    for (const int32_t token : *tokens) {
      const std::optional<int64_t> num_missing = automaton_.missing_behind(state, trie.vocabulary(), token);
      all_fit = all_fit && num_missing.value_or(0) <= most;
      if (num_missing && *num_missing <= most) set_bit(kept.data(), token);
    }
  } else {
    const Missing& missing = automaton_.missing(state, trie);
    all_fit = automaton_.states_[static_cast<size_t>(state)].worst <= most;
    if (missing.usual <= most) kept = missing.usually;
    for (const Missing::Other& other : missing.others) {
      if (other.num_missing > most) break;
      set_bit(kept.data(), other.token);
    }
  }
  if (all_fit) return;
  for (size_t word = 0; word < kept.size(); ++word) row[word] &= kept[word];
}

}  // namespace specguide
