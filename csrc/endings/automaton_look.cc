// Owns the concurrent reads of an automaton: see automaton.h.
#include <algorithm>
#include <chrono>

#include "endings/automaton.h"
#include "row.h"
#include "spin.h"

namespace specguide {

namespace {

// Spins before it sleeps, because walks usually hold the lock only for microseconds.
std::shared_lock<std::shared_mutex> shared(std::shared_mutex& mutex) {
  constexpr std::chrono::microseconds kLongestSpin{50};
  std::shared_lock<std::shared_mutex> lock(mutex, std::try_to_lock);
  if (lock ||
      spin_until([&] { return lock.try_lock(); }, std::min<std::chrono::nanoseconds>(spin_time(), kLongestSpin))) {
    return lock;
  }
  lock.lock();
  return lock;
}

}  // namespace

Automaton::Look::Look(Automaton& automaton) : lock_(shared(automaton.mutex_)), automaton_(automaton) {
  const int64_t walk = automaton.pool_->last_walk();
  if (automaton.last_walk_.load(std::memory_order_relaxed) != walk) {
    automaton.last_walk_.store(walk, std::memory_order_relaxed);
  }
}

std::optional<Automaton::State> Automaton::Look::step(State state, std::string_view bytes) const {
  for (const char byte : bytes) {
    if (state == kDead) break;
    const Known& known = automaton_.states_[static_cast<size_t>(state)];
    state = known.next[automaton_.network_->class_of(static_cast<uint8_t>(byte))];
    if (state == kUnknown) return std::nullopt;
  }
  return state;
}

bool Automaton::Look::copy_row(State state, int64_t most, FilledRow& row) const {
  const Known& known = automaton_.states_[static_cast<size_t>(state)];
  if (known.row < 0 || !is_endable(known, most)) return false;
  automaton_.rows_[static_cast<size_t>(known.row)].copy_to(row);
  return true;
}

std::optional<bool> Automaton::Look::allows(State state, int32_t token) const {
  const int32_t row = automaton_.states_[static_cast<size_t>(state)].row;
  if (row < 0) return std::nullopt;
  return has_bit(automaton_.rows_[static_cast<size_t>(row)].words.data(), token);
}

}  // namespace specguide
