#include "endings/product.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <unordered_set>
#include <utility>
#include <vector>

namespace specguide {

namespace {

using State = Automaton::State;

// Walks all factors together, state by state.
class Explorer {
 public:
  using Ways = std::vector<std::pair<size_t, ByteSet>>;  // bytes that lead to each state

  explicit Explorer(const Product& product) : product_(product), num_factors_(product.factors.size()) {
    for (const Product::Factor& factor : product.factors) {
      std::shared_ptr<Automaton::Walk>& walk = walk_of_[factor.automaton.get()];
      if (!walk) walk = std::make_shared<Automaton::Walk>(*factor.automaton);
      walks_.push_back(walk.get());
    }
    find_classes();
  }

  // False if there are too many states. Subtracts the visited states. is_to_end: stop at the first end
  bool explore(size_t& num_states_left, bool is_to_end = false) {
    const bool is_told = explore_at_most(std::min(num_states_left, kMostProductStates), is_to_end);
    num_states_left -= std::min(num_states_left, num_states());
    return is_told;
  }

  // Bytes of a text, perhaps not the shortest one, which is searched for where all factors are near their ends; none if
  // no text is found soon. Subtracts the visited states.
  std::optional<int64_t> near_end(size_t& num_states_left) {
    const size_t most_states = std::min(num_states_left, kMostProductStates);
    for (Automaton::Walk* walk : walks_) states_.push_back(walk->start());
    index_.insert(0);
    std::vector<int64_t> lengths{0};
    using Near = std::pair<int64_t, size_t>;
    std::priority_queue<Near, std::vector<Near>, std::greater<>> nearest;
    nearest.emplace(0, 0);
    std::optional<int64_t> found;
    while (!nearest.empty() && !found && num_states() <= most_states) {
      const size_t at = nearest.top().second;
      nearest.pop();
      if (may_end(at)) found = lengths[at];
      const size_t first_new = num_states();
      ways_.resize(first_new);
      for (const ByteSet& bytes : classes_) step(at, bytes);
      lengths.resize(num_states(), lengths[at] + 1);
      for (size_t state = first_new; state < num_states(); ++state) nearest.emplace(to_ends(state), state);
    }
    num_states_left -= std::min(num_states_left, num_states());
    return has_lost_track() ? std::nullopt : found;
  }

  size_t num_states() const { return states_.size() / num_factors_; }
  // Bytes to the first end; none if there is no end.
  std::optional<int64_t> first_end() const { return first_end_; }
  const Ways& ways(size_t state) const { return ways_[state]; }
  // Bytes from each state to the nearest end; Bounds::kUnknown if there is none.
  std::vector<int64_t> missing() const {
    std::vector<std::vector<size_t>> before(num_states());
    std::vector<int64_t> found(num_states(), Bounds::kUnknown);
    std::queue<size_t> reached;
    for (size_t state = 0; state < num_states(); ++state) {
      for (const auto& [behind, bytes] : ways_[state]) before[behind].push_back(state);
      if (!may_end(state)) continue;
      found[state] = 0;
      reached.push(state);
    }
    for (; !reached.empty(); reached.pop()) {
      for (const size_t other : before[reached.front()]) {
        if (found[other] < Bounds::kUnknown) continue;
        found[other] = found[reached.front()] + 1;
        reached.push(other);
      }
    }
    return found;
  }
  bool may_end(size_t state) const {
    for (size_t i = 0; i < num_factors_; ++i) {
      const State one = of(state)[i];
      const bool ends = one != Automaton::kDead && walks_[i]->may_end(one);
      if (ends == product_.factors[i].is_not) return false;
    }
    return true;
  }

 private:
  struct Hash {
    const Explorer& explorer;
    size_t operator()(size_t state) const {
      uint64_t hash = 0;
      for (size_t i = 0; i < explorer.num_factors_; ++i) {
        hash = (hash ^ static_cast<uint32_t>(explorer.of(state)[i])) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };
  struct Equal {
    const Explorer& explorer;
    bool operator()(size_t a, size_t b) const {
      return std::equal(explorer.of(a), explorer.of(a) + explorer.num_factors_, explorer.of(b));
    }
  };

  bool explore_at_most(size_t most_states, bool is_to_end) {
    for (Automaton::Walk* walk : walks_) states_.push_back(walk->start());
    index_.insert(0);
    size_t next_round = 1;  // the first state that is one byte farther
    int64_t num_bytes = 0;
    for (size_t at = 0; at < num_states(); ++at) {
      if (num_states() > most_states) return false;
      if (at == next_round) {
        next_round = num_states();
        ++num_bytes;
      }
      if (!first_end_ && may_end(at)) first_end_ = num_bytes;
      if (first_end_ && is_to_end) break;
      ways_.emplace_back();
      if (product_.is_first && may_end(at)) continue;
      for (const ByteSet& bytes : classes_) step(at, bytes);
    }
    return !has_lost_track();
  }

  bool has_lost_track() const {
    return std::any_of(walks_.begin(), walks_.end(), [](const auto* walk) { return walk->has_lost_track(); });
  }

  // The sum of what is missing in the factors.
  int64_t to_ends(size_t state) const {
    int64_t all = 0;
    for (size_t i = 0; i < num_factors_; ++i) {
      if (!product_.factors[i].is_not) all += std::min(walks_[i]->least(of(state)[i]), Bounds::kUnknown);
    }
    return all;
  }

  // The states of the factors in one state of the product.
  const State* of(size_t state) const { return states_.data() + state * num_factors_; }

  void find_classes() {
    std::array<size_t, 256> numbers{};
    for (const Product::Factor& factor : product_.factors) {
      std::vector<size_t> known;
      for (size_t byte = 0; byte < 256; ++byte) {
        const uint8_t of_factor = factor.automaton->network().class_of(static_cast<uint8_t>(byte));
        numbers[byte] = number_of(256 * numbers[byte] + of_factor, known);
      }
      classes_.assign(known.size(), {});
    }
    for (size_t byte = 0; byte < 256; ++byte) classes_[numbers[byte]].set(byte);
  }

  static size_t number_of(size_t key, std::vector<size_t>& known) {
    const auto found = std::find(known.begin(), known.end(), key);
    if (found != known.end()) return static_cast<size_t>(found - known.begin());
    known.push_back(key);
    return known.size() - 1;
  }

  // The step by some bytes, unless a factor says that no text of the product begins so.
  void step(size_t at, const ByteSet& bytes) {
    const auto byte = static_cast<uint8_t>(bytes._Find_first());
    const size_t next = num_states();
    for (size_t i = 0; i < num_factors_; ++i) {
      const State one = of(at)[i];
      const State after = one == Automaton::kDead ? Automaton::kDead : walks_[i]->step(one, byte);
      if (after == Automaton::kDead && !product_.factors[i].is_not) {
        states_.resize(next * num_factors_);
        return;
      }
      states_.push_back(after);
    }
    Ways& ways = ways_[at];  // few: most bytes lead to the same states
    const Equal equal{*this};
    const auto known = std::find_if(ways.begin(), ways.end(), [&](const auto& way) { return equal(way.first, next); });
    if (known != ways.end()) {
      known->second |= bytes;
      states_.resize(next * num_factors_);
      return;
    }
    const auto [found, is_new] = index_.insert(next);
    if (!is_new) states_.resize(next * num_factors_);
    ways.emplace_back(*found, bytes);
  }

  const Product& product_;
  const size_t num_factors_;
  std::map<Automaton*, std::shared_ptr<Automaton::Walk>> walk_of_;
  std::vector<Automaton::Walk*> walks_;  // by factor
  std::vector<ByteSet> classes_;         // bytes that lead to the same states
  std::vector<State> states_;            // of the factors, for each state of the product
  std::vector<Ways> ways_;               // by state
  std::optional<int64_t> first_end_;
  std::unordered_set<size_t, Hash, Equal> index_{64, Hash{*this}, Equal{*this}};
};

}  // namespace

std::optional<int32_t> add_product(Network& network, int32_t rule, const Product& product, int32_t next,
                                   size_t& num_states_left) {
  Explorer explorer(product);
  if (!explorer.explore(num_states_left)) return std::nullopt;
  const std::vector<int64_t> missing = explorer.missing();
  std::vector<int32_t> nodes(explorer.num_states());
  for (size_t state = explorer.num_states(); state-- > 0;) {  // in this order costs are found from the end
    Network::Node node;
    node.kind = Network::Kind::kSplit;
    if (explorer.may_end(state)) node.next.push_back(next);
    nodes[state] = network.add_node(rule, std::move(node));
  }
  for (size_t state = 0; state < explorer.num_states(); ++state) {
    for (const auto& [behind, bytes] : explorer.ways(state)) {
      if (missing[behind] == Bounds::kUnknown) continue;  // a matcher never goes there
      network.add_way(nodes[state], network.add_bytes(rule, bytes, nodes[behind]));
    }
  }
  return nodes[0];
}

int64_t least_of_product(const Product& product, size_t& num_states_left) {
  {
    Explorer explorer(product);
    const bool is_told = explorer.explore(num_states_left, true);
    if (is_told || explorer.first_end()) return explorer.first_end().value_or(Bounds::kUnknown);
  }
  return Explorer(product).near_end(num_states_left).value_or(Bounds::kUnknown);
}

int64_t missing_of_product(const Product& product, size_t& num_states_left) {
  Explorer explorer(product);
  if (!explorer.explore(num_states_left)) {
    return explorer.num_states() > kMostProductStates ? Bounds::kTooLarge : Bounds::kUnknown;
  }
  int64_t most = 0;
  for (const int64_t missing : explorer.missing()) {
    if (missing < Bounds::kUnknown) most = std::max(most, missing);
  }
  return most;
}

}  // namespace specguide
