// Owns the memory bound of all automata together: beyond it, the least recently walked automata drop their states.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace specguide {

class Automaton;

// Thread-safe.
class AutomatonPool {
 public:
  explicit AutomatonPool(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Bytes that the automata used at the end of their last walks.
  size_t num_bytes();

 private:
  friend class Automaton;

  void enter(Automaton& automaton);
  void leave(Automaton& automaton);
  int64_t last_walk() const { return num_walks_.load(std::memory_order_relaxed); }
  int64_t next_walk() { return num_walks_.fetch_add(1, std::memory_order_relaxed); }
  // Counts the bytes of an automaton; called by its walk.
  void count(Automaton& automaton);
  void make_room(const Automaton& walked);

  const size_t most_bytes_;
  std::atomic<int64_t> num_walks_{0};
  std::mutex mutex_;
  std::vector<Automaton*> automata_;
  size_t num_bytes_ = 0;
};

}  // namespace specguide
