#include "endings/product.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace specguide {

namespace {

using State = Automaton::State;
using States = std::vector<State>;  // by factor

// Goes through the states of all factors together.
class Explorer {
 public:
  Explorer(const Product& product) : product_(product) {
    for (const Product::Factor& factor : product.factors) {
      std::shared_ptr<Automaton::Walk>& walk = walk_of_[factor.automaton.get()];
      if (!walk) walk = std::make_shared<Automaton::Walk>(*factor.automaton);
      walks_.push_back(walk);
    }
    find_classes();
  }

  // False where there are too many states.
  bool explore(size_t most_states) {
    States start;
    for (const auto& walk : walks_) start.push_back(walk->start());
    index(start);
    for (size_t at = 0; at < found_.size(); ++at) {
      if (found_.size() > most_states) return false;
      ways_.emplace_back();
      if (product_.is_first && may_end(found_[at])) continue;
      for (const ByteSet& bytes : classes_) {
        const States next = step(found_[at], first_of(bytes));
        if (is_live(next)) ways_[at][index(next)] |= bytes;
      }
    }
    return std::none_of(walks_.begin(), walks_.end(), [](const auto& walk) { return walk->has_lost_track(); });
  }

  size_t num_states() const { return found_.size(); }
  const std::map<size_t, ByteSet>& ways(size_t state) const { return ways_[state]; }
  bool may_end(size_t state) const { return may_end(found_[state]); }

 private:
  void find_classes() {
    std::map<std::vector<int>, ByteSet> by_factors;
    for (size_t byte = 0; byte < 256; ++byte) {
      std::vector<int> key;
      for (const Product::Factor& factor : product_.factors) {
        key.push_back(factor.automaton->network().class_of(static_cast<uint8_t>(byte)));
      }
      by_factors[key].set(byte);
    }
    for (const auto& [key, bytes] : by_factors) classes_.push_back(bytes);
  }

  static uint8_t first_of(const ByteSet& bytes) { return static_cast<uint8_t>(bytes._Find_first()); }

  States step(const States& states, uint8_t byte) {
    States next;
    for (size_t i = 0; i < states.size(); ++i) {
      next.push_back(states[i] == Automaton::kDead ? Automaton::kDead : walks_[i]->step(states[i], byte));
    }
    return next;
  }

  // Whether a text of the product may begin so, as far as each factor tells.
  bool is_live(const States& states) const {
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] == Automaton::kDead && !product_.factors[i].is_not) return false;
    }
    return true;
  }

  bool may_end(const States& states) const {
    for (size_t i = 0; i < states.size(); ++i) {
      const bool ends = states[i] != Automaton::kDead && walks_[i]->may_end(states[i]);
      if (ends == product_.factors[i].is_not) return false;
    }
    return true;
  }

  size_t index(const States& states) {
    const auto [found, is_new] = index_.try_emplace(states, found_.size());
    if (is_new) found_.push_back(states);
    return found->second;
  }

  const Product& product_;
  std::map<Automaton*, std::shared_ptr<Automaton::Walk>> walk_of_;
  std::vector<std::shared_ptr<Automaton::Walk>> walks_;  // by factor
  std::vector<ByteSet> classes_;
  std::vector<States> found_;
  std::vector<std::map<size_t, ByteSet>> ways_;
  std::map<States, size_t> index_;
};

}  // namespace

std::optional<int32_t> add_product(Network& network, int32_t rule, const Product& product, int32_t next,
                                   size_t& num_states_left) {
  Explorer explorer(product);
  const bool is_told = explorer.explore(std::min(num_states_left, kMostProductStates));
  num_states_left -= std::min(num_states_left, explorer.num_states());
  if (!is_told) return std::nullopt;
  std::vector<int32_t> nodes;
  for (size_t state = 0; state < explorer.num_states(); ++state) {
    Network::Node node;
    node.kind = Network::Kind::kSplit;
    if (explorer.may_end(state)) node.next.push_back(next);
    nodes.push_back(network.add_node(rule, std::move(node)));
  }
  for (size_t state = 0; state < explorer.num_states(); ++state) {
    for (const auto& [behind, bytes] : explorer.ways(state)) {
      network.add_way(nodes[state], network.add_bytes(rule, bytes, nodes[behind]));
    }
  }
  return nodes[0];
}

}  // namespace specguide
