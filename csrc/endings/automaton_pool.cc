#include "endings/automaton_pool.h"

#include <algorithm>
#include <utility>

#include "endings/automaton.h"

namespace specguide {

size_t AutomatonPool::num_bytes() {
  std::lock_guard lock(mutex_);
  return num_bytes_;
}

void AutomatonPool::enter(Automaton& automaton) {
  std::lock_guard lock(mutex_);
  automata_.push_back(&automaton);
}

void AutomatonPool::leave(Automaton& automaton) {
  std::lock_guard lock(mutex_);
  automata_.erase(std::find(automata_.begin(), automata_.end(), &automaton));
  num_bytes_ -= automaton.num_counted_;
}

void AutomatonPool::count(Automaton& automaton) {
  std::lock_guard lock(mutex_);
  num_bytes_ += automaton.num_bytes_ - automaton.num_counted_;
  automaton.num_counted_ = automaton.num_bytes_;
  if (num_bytes_ > most_bytes_) make_room(automaton);
}

// Drops states down to three quarters of the bound, so that this is rarely done. The automaton that is being walked is
// left alone: it has its own bound.
void AutomatonPool::make_room(const Automaton& walked) {
  std::vector<std::pair<int64_t, Automaton*>> by_walk;
  for (Automaton* automaton : automata_) {
    if (automaton->num_counted_ > 0) {
      by_walk.emplace_back(automaton->last_walk_.load(std::memory_order_relaxed), automaton);
    }
  }
  std::sort(by_walk.begin(), by_walk.end());
  for (const auto& [walk, automaton] : by_walk) {
    if (num_bytes_ <= most_bytes_ / 4 * 3) return;
    if (automaton == &walked) continue;
    const std::unique_lock lock(automaton->mutex_, std::try_to_lock);
    if (!lock) continue;
    automaton->forget();
    num_bytes_ -= automaton->num_counted_;
    automaton->num_counted_ = 0;
  }
}

}  // namespace specguide
