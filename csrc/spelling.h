// Owns how a target spells what a grammar forces. Its tokens need not be those of the tokenizer: a text has many
// spellings, and a model may split `":{"` where its tokenizer would not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace specguide {

// A token to draft, and the tokenizer's token at that place; -1: unknown.
struct SpeltToken {
  int32_t token;
  int32_t canonical;
};

// The spellings learnt from all requests of an executor; any thread may call it. What is learnt is a guess, like any
// draft.
class Spelling {
 public:
  // If `vocab_size` is 0 it learns nothing.
  explicit Spelling(int vocab_size) : habits_(static_cast<size_t>(vocab_size)) {}

  // The token that the target chooses, as far as is known, where the tokenizer has `canonical`.
  int32_t of(int32_t canonical) const;

  // Learns that the target chose `token` where `canonical` was forced. Seeing it twice makes a habit, and seeing
  // another token once does not end an established habit, as in branch predictors (Smith 1981).
  void learn(int32_t canonical, int32_t token);

 private:
  struct Habit {
    int32_t token = -1;
    int32_t strength = 0;  // 0 … 3; it is followed from 2 on
  };
  static_assert(std::atomic<Habit>::is_always_lock_free);

  std::vector<std::atomic<Habit>> habits_;  // by canonical token
};

}  // namespace specguide
