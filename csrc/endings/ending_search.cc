// Owns the search for ends with the matcher's own rows, for grammars whose automaton knows too little.
#include <algorithm>
#include <utility>

#include "endings/ending_matcher.h"
#include "row.h"

namespace specguide {

namespace {

// The first token from `from` on that a row allows; -1 if there is none.
int32_t next_token(const std::vector<int32_t>& row, int32_t from) {
  for (size_t word = static_cast<size_t>(from) / 32; word < row.size(); ++word) {
    const auto bits = static_cast<uint32_t>(row[word]);
    const uint32_t left = word == static_cast<size_t>(from) / 32 ? bits & (~0u << (from % 32)) : bits;
    if (left != 0) return static_cast<int32_t>(word) * 32 + __builtin_ctz(left);
  }
  return -1;
}

}  // namespace

// Keeps the tokens of a row with the fewest tokens missing behind them; false if that is more than `most`.
bool EndingMatcher::keep_nearest(int32_t* row, int64_t most) {
  Automaton::Walk walk(*automaton_);
  const Automaton::State state = here(walk);
  if (state == Automaton::kDead) return false;
  const int64_t least = walk.least_behind(state, *endings_->trie, row);
  if (least > most || least >= Network::kNever) return false;
  walk.keep_endable(state, *endings_->trie, least, row);
  return true;
}

// Adds to `row` a few tokens of row_ behind which an end is found in time; those with the nearest ends are tried first.
// False if the row is then empty.
bool EndingMatcher::add_found(int32_t* row, int64_t most) {
  const bool has_some = !is_empty(row, static_cast<size_t>(vocabulary().num_words()));
  std::vector<int32_t> nearest = row_;
  if (!keep_nearest(nearest.data(), most)) return has_some;
  std::vector<int32_t> others = row_;
  {
    Automaton::Walk walk(*automaton_);
    walk.keep_endable(here(walk), *endings_->trie, most, others.data());
  }
  int num_tried = 0, num_found = 0, num_rows = kMostRows;
  for (const std::vector<int32_t>* tokens : {&std::as_const(nearest), &std::as_const(others)}) {
    for (int32_t token = next_token(*tokens, 0); token >= 0 && num_found < kMostFound;
         token = next_token(*tokens, token + 1)) {
      if (has_bit(row, token) || (tokens == &others && has_bit(nearest.data(), token))) continue;
      if (++num_tried > kMostTried || !accept(token)) break;
      if (found_end(num_rows) >= 0) {
        set_bit(row, token);
        ++num_found;
      }
      rollback(1);
    }
  }
  return has_some || num_found > 0;
}

int64_t EndingMatcher::found_end() {
  int num_rows = kMostRows;
  return endings_->automaton() != nullptr && knows_ends() ? found_end(num_rows) : -1;
}

// num_rows: number of rows that may still be filled
int64_t EndingMatcher::found_end(int& num_rows) {
  if (num_left() < 1 || --num_rows < 0) return -1;
  catch_up();
  std::vector<int32_t> row(static_cast<size_t>(vocabulary().num_words()));
  inner_->fill(row.data());
  for (const int32_t end : vocabulary().eos_token_ids) {
    if (has_bit(row.data(), end)) return 1;
  }
  if (!keep_nearest(row.data(), num_left() - 2)) return -1;
  int num_tried = 0;
  for (int32_t token = next_token(row, 0); token >= 0; token = next_token(row, token + 1)) {
    if (++num_tried > kMostTried || !accept(token)) return -1;
    const int64_t found = found_end(num_rows);
    rollback(1);
    if (found >= 0) return found + 1;
  }
  return -1;
}

}  // namespace specguide
