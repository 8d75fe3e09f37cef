// Owns how a target spells what a grammar forces. Its own tokens need not be those of the tokenizer: a text has many
// spellings, and a model may split `":{"` where its tokenizer would not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace specguide {

// A token to draft, and the one that the tokenizer has there; -1: nobody knows of one.
struct SpeltToken {
  int32_t token;
  int32_t canonical;
};

// The spellings that all requests of an executor have taught; any thread may call it. What is learnt is a guess, as any
// draft is.
class Spelling {
 public:
  // With a `vocab_size` of 0 it learns nothing.
  explicit Spelling(int vocab_size) : habits_(static_cast<size_t>(vocab_size)) {}

  // The token that the target chooses where the tokenizer has `canonical`, as far as is known.
  int32_t of(int32_t canonical) const;

  // Learns that the target has chosen `token` where `canonical` was forced. To see that twice makes a habit, and to see
  // another token once does not end a lasting one, as in branch predictors (Smith 1981).
  void learn(int32_t canonical, int32_t token);

 private:
  struct Habit {
    int32_t token = -1;
    int32_t strength = 0;  // 0 … 3; from 2 on it is followed
  };
  static_assert(std::atomic<Habit>::is_always_lock_free);

  std::vector<std::atomic<Habit>> habits_;  // by canonical token
};

}  // namespace specguide
