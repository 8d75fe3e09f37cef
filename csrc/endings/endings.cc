#include "endings/endings.h"

#include <stdexcept>
#include <utility>

#include "endings/builder.h"
#include "endings/product_bounds.h"

namespace specguide {

Endings::Endings(std::shared_ptr<const Network> network, std::shared_ptr<const TokenTrie> trie_,
                 std::shared_ptr<AutomatonPool> pool)
    : trie(std::move(trie_)), asks_exact_(network->is_exact()) {
  automaton_.emplace(std::move(network), std::move(pool));
  known_ = &*automaton_;
  is_built_ = true;
}

Endings::Endings(Grammar grammar, std::shared_ptr<const TokenTrie> trie_, std::shared_ptr<AutomatonPool> pool,
                 bool is_exact, bool may_wait)
    : trie(std::move(trie_)), asks_exact_(is_exact) {
  if (may_wait && spellable_bytes(trie->vocabulary()).all()) {
    ProductBounds of_products(grammar, trie->vocabulary(), is_exact);
    bounds_ = find_bounds(grammar, of_products);
  }
  if (bounds_.missing < Bounds::kUnknown && bounds_.least < Bounds::kUnknown) {
    pool_ = std::move(pool);
    grammar_ = std::move(grammar);
    return;
  }
  automaton_.emplace(build_network(grammar, trie->vocabulary(), is_exact), std::move(pool));
  known_ = &*automaton_;
  is_built_ = true;
}

void Endings::build() {
  if (is_built()) return;
  const std::lock_guard lock(mutex_);
  if (is_built()) return;
  try {
    automaton_.emplace(build_network(*grammar_, trie->vocabulary(), asks_exact_), pool_);
    known_.store(&*automaton_, std::memory_order_release);
  } catch (const std::invalid_argument&) {
    // How its texts end is unknown then; the matcher alone says what may follow.
  }
  grammar_.reset();
  is_built_.store(true, std::memory_order_release);
}

Automaton* Endings::automaton() {
  build();
  return known();
}

int64_t Endings::most_least() {
  if (is_built()) return num_least();
  return bounds_.least + 1;
}

bool Endings::is_endless() {
  if (!is_built() || known() == nullptr) return false;
  const Network& network = known()->network();
  return network[network.start(network.root())].cost >= Network::kNever;
}

int64_t Endings::num_missing(std::string_view text) {
  if (automaton() == nullptr) return -1;
  Automaton::Walk walk(*known());
  const Automaton::State state = walk.step(walk.start(), text);
  const int64_t least = state == Automaton::kDead ? Network::kNever : walk.least(state);
  return least < Network::kNever ? least + 1 : -1;
}

}  // namespace specguide
