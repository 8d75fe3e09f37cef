#include "spelling.h"

#include <algorithm>

namespace specguide {
namespace {

constexpr int32_t kFollowed = 2, kStrongest = 3;

}  // namespace

int32_t Spelling::of(int32_t canonical) const {
  if (canonical < 0 || static_cast<size_t>(canonical) >= habits_.size()) return canonical;
  const Habit habit = habits_[static_cast<size_t>(canonical)].load(std::memory_order_relaxed);
  return habit.strength >= kFollowed ? habit.token : canonical;
}

void Spelling::learn(int32_t canonical, int32_t token) {
  if (canonical < 0 || static_cast<size_t>(canonical) >= habits_.size() || token < 0) return;
  std::atomic<Habit>& place = habits_[static_cast<size_t>(canonical)];
  Habit habit = place.load(std::memory_order_relaxed);
  if (token == canonical) {
    if (habit.strength == 0) return;
    --habit.strength;
  } else if (token == habit.token) {
    habit.strength = std::min(habit.strength + 1, kStrongest);
  } else if (habit.strength >= kFollowed) {
    --habit.strength;
  } else {
    habit = {token, 1};
  }
  place.store(habit, std::memory_order_relaxed);
}

}  // namespace specguide
