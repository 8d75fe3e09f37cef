#include "endings/automaton.h"

#include <algorithm>

#include "endings/item_set.h"
#include "endings/lengths.h"

namespace specguide {

using NodeKind = Network::Kind;

size_t Automaton::HashOfItems::operator()(const Items& items) const {
  uint64_t hash = items.size();
  for (const Item& item : items) {
    for (const int32_t part : {item.node, item.done, item.stack}) {
      hash = (hash ^ static_cast<uint32_t>(part)) * 0x9E3779B97F4A7C15ull;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

Automaton::Automaton(std::shared_ptr<const Network> network, std::shared_ptr<AutomatonPool> pool)
    : network_(std::move(network)), pool_(std::move(pool)) {
  forget();
  pool_->enter(*this);
}

// It also releases the memory.
void Automaton::forget() {
  std::vector<Known>().swap(states_);
  std::vector<Stack>(1).swap(stacks_);
  decltype(index_)().swap(index_);
  decltype(stack_index_)().swap(stack_index_);
  decltype(stack_likeness_)().swap(stack_likeness_);
  decltype(shared_rows_)().swap(shared_rows_);
  decltype(rows_)().swap(rows_);
  decltype(row_index_)().swap(row_index_);
  decltype(kind_index_)().swap(kind_index_);
  decltype(like_rows_)().swap(like_rows_);
  decltype(missing_)().swap(missing_);
  num_bytes_ = num_row_bytes_ = 0;
  start_ = kUnknown;
  ++epoch_;
}

// Adds the places that are reached without reading a byte.
class Automaton::Closure {
 public:
  Closure(const Network& network, std::vector<Stack>& stacks) : network_(network), stacks_(stacks) {}

  // Places at the end of a rule continue behind it, and places before calls stay there.
  Kernel kernel_of(const Items& raw) {
    enters_ = false;
    for (const Item& item : raw) add(item);
    Kernel found{{}, may_end_};
    for (const Item& item : known_.items()) {
      if (stays(item)) found.items.push_back(item);
    }
    std::sort(found.items.begin(), found.items.end());
    return found;
  }

  // All places before a byte, including those in the rules that calls enter.
  Items scans_of(const Kernel& kernel) {
    enters_ = true;
    may_end_ = kernel.may_end;
    for (const Item& item : kernel.items) add(item);
    find_least();
    find_ceilings();
    Items found;
    for (const Item& item : known_.items()) {
      if (reads(network_[item.node])) found.push_back(item);
    }
    return found;
  }

  bool may_end() const { return may_end_; }
  bool is_too_wide() const { return known_.size() > (enters_ ? kMostEntered : kMostPlaces); }

 private:
  // A rule that is entered here.
  struct Entered {
    int32_t rule, stack;
    bool is_empty = false;  // whether its text may be empty
  };

  bool stays(const Item& item) const {
    const Network::Node& node = network_[item.node];
    return reads(node) || (node.kind == NodeKind::kCall && (node.most < 0 || item.done < node.most));
  }

  static bool reads(const Network::Node& node) { return node.kind == NodeKind::kBytes || node.kind == NodeKind::kLiteral; }

  void add(const Item& first) {
    waiting_.push_back(first);
    while (!waiting_.empty() && !is_too_wide()) {
      const Item item = waiting_.back();
      waiting_.pop_back();
      if (known_.insert(item)) follow(item);
    }
  }

  void follow(const Item& item) {
    const Network::Node& node = network_[item.node];
    switch (node.kind) {
      case NodeKind::kBytes:
      case NodeKind::kLiteral:
        return;
      case NodeKind::kSplit:
        for (const int32_t next : node.next) waiting_.push_back({next, 0, item.stack});
        return;
      case NodeKind::kFinal:
        return leave(item.stack);
      case NodeKind::kCall:
        if (item.done >= node.least) waiting_.push_back({node.next[0], 0, item.stack});
        if (enters_ && (node.most < 0 || item.done < node.most)) enter(node, item);
    }
  }

  void leave(int32_t stack) {
    if (stack == kRoot) {
      may_end_ = true;
      return;
    }
    for (Entered& entered : entered_) {
      if (entered.stack == stack) entered.is_empty = true;
    }
    for (const Item& item : stacks_[static_cast<size_t>(stack)].returns) waiting_.push_back(item);
  }

  void enter(const Network::Node& node, const Item& item) {
    const int32_t done = node.most < 0 ? std::min(item.done + 1, node.least) : item.done + 1;
    if (ends_rule(node, done)) {
      waiting_.push_back({network_.start(node.index), 0, item.stack});
      return;
    }
    const Item behind{item.node, done, item.stack};
    const Entered& entered = entered_here(node.index);
    stacks_[static_cast<size_t>(entered.stack)].returns.push_back(behind);
    if (entered.is_empty) waiting_.push_back(behind);
  }

  // Whether nothing of the rule follows a call that has been made `done` times.
  bool ends_rule(const Network::Node& node, int32_t done) const {
    return done == node.most && network_[node.next[0]].kind == NodeKind::kFinal;
  }

  Entered& entered_here(int32_t rule) {
    for (Entered& entered : entered_) {
      if (entered.rule == rule) return entered;
    }
    entered_.push_back({rule, static_cast<int32_t>(stacks_.size())});
    stacks_.emplace_back();
    waiting_.push_back({network_.start(rule), 0, entered_.back().stack});
    return entered_.back();
  }

  // A rule may be entered within itself, so that its value depends on one that is not known yet: repeats until nothing
  // changes.
  void find_least() {
    for (const Entered& entered : entered_) stacks_[static_cast<size_t>(entered.stack)].least = Network::kNever;
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (const Entered& entered : entered_) {
        Stack& stack = stacks_[static_cast<size_t>(entered.stack)];
        for (const Item& item : stack.returns) {
          const int64_t least =
              sum(network_.cost(network_[item.node], item.done), stacks_[static_cast<size_t>(item.stack)].least);
          if (least >= stack.least) continue;
          stack.least = least;
          has_changed = true;
        }
      }
    }
  }

  void find_ceilings() {
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (const Entered& entered : entered_) {
        Stack& stack = stacks_[static_cast<size_t>(entered.stack)];
        for (const Item& item : stack.returns) {
          const Stack& outer = stacks_[static_cast<size_t>(item.stack)];
          const int64_t most = std::max(outer.ceiling, sum(network_[item.node].most_missing, outer.least));
          if (most <= stack.ceiling) continue;
          stack.ceiling = most;
          has_changed = true;
        }
      }
    }
  }

  const Network& network_;
  std::vector<Stack>& stacks_;
  ItemSet<Item> known_;
  Items waiting_;
  std::vector<Entered> entered_;
  bool enters_ = false, may_end_ = false;
};

Automaton::State Automaton::Walk::start() {
  Automaton& all = automaton_;
  if (all.start_ == kUnknown) all.start_ = all.state_of({{all.network_->start(all.network_->root()), 0, kRoot}});
  return all.start_;
}

Automaton::State Automaton::Walk::step(State state, std::string_view bytes) {
  for (const char byte : bytes) {
    if (state == kDead) break;
    state = automaton_.step(state, static_cast<uint8_t>(byte));
  }
  return state;
}

Automaton::State Automaton::step(State state, uint8_t byte) {
  if (state == kDead) return kDead;
  const uint8_t of_class = network_->class_of(byte);
  const State known = states_[static_cast<size_t>(state)].next[of_class];
  if (known != kUnknown) return known;
  Items raw;
  for (const Item& item : states_[static_cast<size_t>(state)].scans) {
    const Network::Node& node = (*network_)[item.node];
    if (node.kind == NodeKind::kBytes) {
      const int32_t next = network_->behind(node, byte);
      if (next >= 0) raw.push_back({next, 0, item.stack});
      continue;
    }
    const std::string& text = network_->text(node);
    const auto done = static_cast<size_t>(item.done);
    if (static_cast<uint8_t>(text[done]) != byte) continue;
    const bool is_whole = done + 1 == text.size();
    raw.push_back(is_whole ? Item{node.next[0], 0, item.stack} : Item{item.node, item.done + 1, item.stack});
  }
  const State next = raw.empty() ? kDead : state_of(std::move(raw));
  states_[static_cast<size_t>(state)].next[of_class] = next;
  return next;
}

Automaton::State Automaton::state_of(Items raw) {
  Closure closure(*network_, stacks_);
  const Kernel kernel = closure.kernel_of(raw);
  if (closure.is_too_wide()) return lose_track();
  Items key = kernel.items;
  key.push_back({kernel.may_end ? 1 : 0, 0, 0});
  const auto found = index_.find(key);
  if (found != index_.end()) return found->second;
  if (num_bytes_ > 2 * kMostBytes) return lose_track();  // until the next walk, which starts afresh
  const State state = add(kernel);
  num_bytes_ += key.size() * sizeof(Item) + 100;
  index_.emplace(std::move(key), state);
  return state;
}

// Stacks that lead on alike are merged into one, so that texts which were repeated in different ways reach the same
// state. Stacks that lead back to themselves are not changed.
void Automaton::share_stacks(size_t first, Items& scans) {
  std::vector<int32_t> shared(stacks_.size() - first, -1);  // by stack, once it is known
  const auto of = [&](int32_t stack) {
    return static_cast<size_t>(stack) < first ? stack : shared[static_cast<size_t>(stack) - first];
  };
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = 0; i < shared.size(); ++i) {
      if (shared[i] >= 0) continue;
      Items returns = stacks_[first + i].returns;
      for (Item& item : returns) item.stack = of(item.stack);
      const bool is_known =
          std::all_of(returns.begin(), returns.end(), [](const Item& item) { return item.stack >= 0; });
      if (!is_known) continue;
      std::sort(returns.begin(), returns.end());
      returns.erase(std::unique(returns.begin(), returns.end()), returns.end());
      stacks_[first + i].returns = returns;
      shared[i] = stack_index_.try_emplace(std::move(returns), static_cast<int32_t>(first + i)).first->second;
      has_changed = true;
    }
  }
  for (Item& item : scans) {
    if (of(item.stack) >= 0) item.stack = of(item.stack);
  }
  std::sort(scans.begin(), scans.end());
  scans.erase(std::unique(scans.begin(), scans.end()), scans.end());
}

Automaton::State Automaton::add(const Kernel& kernel) {
  const size_t num_stacks = stacks_.size();
  Closure closure(*network_, stacks_);
  Known known;
  known.scans = closure.scans_of(kernel);
  if (closure.is_too_wide()) {
    stacks_.resize(num_stacks);
    return lose_track();
  }
  share_stacks(num_stacks, known.scans);
  known.may_end = closure.may_end();
  if (known.may_end) known.least = 0;
  for (const Item& item : kernel.items) {
    const Network::Node& node = (*network_)[item.node];
    const Stack& stack = stacks_[static_cast<size_t>(item.stack)];
    known.least = std::min(known.least, sum(network_->cost(node, item.done), stack.least));
    known.ceiling = std::max(known.ceiling, stack.ceiling);
    known.ceiling = std::max(known.ceiling, sum(node.most_missing, stack.least));
  }
  known.next.assign(static_cast<size_t>(network_->num_classes()), kUnknown);
  num_bytes_ += sizeof(Known) + known.scans.size() * sizeof(Item) + known.next.size() * sizeof(State);
  for (size_t i = num_stacks; i < stacks_.size(); ++i) {
    num_bytes_ += sizeof(Stack) + stacks_[i].returns.size() * sizeof(Item);
  }
  states_.push_back(std::move(known));
  return static_cast<State>(states_.size()) - 1;
}

}  // namespace specguide
