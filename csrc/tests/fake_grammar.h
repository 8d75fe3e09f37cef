// Owns a made-up grammar in which every state is a hash of its path, so that any row can be recomputed, and matchers of
// it that misbehave on demand.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "matcher.h"

namespace fake {

constexpr int kVocab = 70;  // the last word of a row is partial
constexpr int kWords = 3;
constexpr int32_t kEnd = 69;

inline uint64_t mix(uint64_t state, uint64_t value) {
  uint64_t x = state * 0x9e3779b97f4a7c15ull + value + 0x632be59bd9b4e019ull;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

using Row = std::vector<int32_t>;

struct Grammar {
  uint64_t seed = 1;
  int dead_end_in = 0;  // one state in this many allows nothing; 0: none
  int forced_in = 0;    // one state in this many allows a single token, sometimes the end; 0: none

  int num_states = 0;   // roughly; with few states texts repeat; 0: each text has its own

  uint64_t start() const { return mix(seed, 7); }
  uint64_t next(uint64_t state, int32_t token) const {
    const uint64_t state_behind = mix(state, static_cast<uint64_t>(token));
    return num_states > 0 ? mix(seed, state_behind % num_states) : state_behind;
  }
  bool allows(uint64_t state, int32_t token) const {
    if (dead_end_in > 0 && state % dead_end_in == 0) return false;
    if (forced_in > 0 && state / 64 % forced_in == 0) return token == static_cast<int32_t>(state % kVocab);
    if (token == kEnd) return state % 9 == 0;
    return token == static_cast<int32_t>(state % (kVocab - 1)) || mix(state, 1000 + token) % 4 == 0;
  }
  Row row(uint64_t state) const {
    Row words(kWords);
    for (int32_t token = 0; token < kVocab; ++token) {
      if (allows(state, token)) words[token / 32] |= static_cast<int32_t>(1u << (token % 32));
    }
    return words;
  }
};

// The choice of a greedy model in a state under a row (null: free); -1 if the row allows nothing.
inline int32_t choose(uint64_t state, const int32_t* row) {
  int32_t best = -1;
  uint64_t best_score = 0;
  for (int32_t token = 0; token < kVocab; ++token) {
    if (row && !((static_cast<uint32_t>(row[token / 32]) >> (token % 32)) & 1u)) continue;
    const uint64_t score = mix(state, 5000 + token) | 1;
    if (score > best_score) {
      best = token;
      best_score = score;
    }
  }
  return best;
}

// The greedy tokens of `grammar`, without the end token, and the states they lead through.
struct Path {
  explicit Path(const Grammar& grammar, int length) {
    states.push_back(grammar.start());
    for (int i = 0; i < length; ++i) {
      tokens.push_back(static_cast<int32_t>(states.back() % (kVocab - 1)));
      states.push_back(grammar.next(states.back(), tokens.back()));
    }
  }
  std::vector<int32_t> tokens;
  std::vector<uint64_t> states;
};

struct Behaviour {
  int sleep_in = 0;  // sleeps before one call in this many …
  int sleep_us = 0;  // … for so long
  int throw_at = 0;  // number of the call that throws, from 1
  int refuse_at = 0;  // number of the accept that refuses anything, from 1
};

class FakeMatcher : public specguide::Matcher {
 public:
  explicit FakeMatcher(Grammar grammar, Behaviour behaviour = {})
      : grammar_(grammar), behaviour_(behaviour), states_{grammar.start()} {
    ++num_alive;
  }
  ~FakeMatcher() override { --num_alive; }

  bool accept(int32_t token) override {
    enter();
    if (++num_accepts_ == behaviour_.refuse_at || terminated_ || !grammar_.allows(states_.back(), token)) return false;
    states_.push_back(grammar_.next(states_.back(), token));
    terminated_ = token == kEnd;
    return true;
  }

  void fill(int32_t* row) override {
    enter();
    if (terminated_) throw std::logic_error("fill of a terminated matcher");
    const Row words = grammar_.row(states_.back());
    std::copy(words.begin(), words.end(), row);
  }

  void refill(specguide::FilledRow& row) override {
    const auto content = static_cast<int64_t>(mix(grammar_.seed, states_.back()) | 1);
    if (row.content != content) fill(row.words);
    row.content = content;
  }

  void rollback(int n) override {
    enter();
    if (n < 1 || n >= static_cast<int>(states_.size())) throw std::logic_error("rollback of too many tokens");
    states_.resize(states_.size() - n);
    terminated_ = false;
  }

  bool is_terminated() const override { return terminated_; }
  std::vector<int32_t> forced_tokens() override { return {}; }

  static inline std::atomic<int> num_alive{0};

 protected:
  uint64_t state() const { return states_.back(); }
  void go_to(uint64_t state) { states_.push_back(state); }
  const Grammar& grammar() const { return grammar_; }

 private:
  void enter() {
    ++num_calls_;
    if (behaviour_.sleep_in > 0 && mix(grammar_.seed, num_calls_) % behaviour_.sleep_in == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(behaviour_.sleep_us));
    }
    if (num_calls_ == behaviour_.throw_at) throw std::runtime_error("out of luck");
  }

  const Grammar grammar_;
  const Behaviour behaviour_;
  std::vector<uint64_t> states_;
  bool terminated_ = false;
  int num_calls_ = 0;
  int num_accepts_ = 0;
};

// Sometimes guesses, rightly or wrongly, and keeps guessing until everything accepted by a guess has been rolled back.
class GuessingMatcher final : public FakeMatcher {
 public:
  using FakeMatcher::FakeMatcher;

  bool accept(int32_t token) override {
    check();
    return FakeMatcher::accept(token);
  }
  void fill(int32_t* row) override {
    check();
    FakeMatcher::fill(row);
  }
  Answer accept_draft(int32_t token) override {
    const uint64_t number = next_number();
    if (num_guessed_ == 0 && number % 2 == 0) return accept(token) ? Answer::kYes : Answer::kNo;
    if (token == kEnd || number % 5 == 0) return Answer::kNoByGuess;
    go_to(grammar().next(state(), token));
    ++num_guessed_;
    return Answer::kYesByGuess;
  }
  Answer refill_draft(specguide::FilledRow& row) override {
    row.content = 0;
    return fill_draft(row.words);
  }
  Answer fill_draft(int32_t* row) {
    const uint64_t number = next_number();
    if (number % 5 == 0) return Answer::kNoByGuess;
    if (num_guessed_ == 0 && number % 2 == 0) {
      fill(row);
      return Answer::kYes;
    }
    const Row words = grammar().row(number % 3 == 0 ? number : state());
    std::copy(words.begin(), words.end(), row);
    return Answer::kYesByGuess;
  }
  void rollback(int n) override {
    FakeMatcher::rollback(n);
    num_guessed_ = std::max(0, num_guessed_ - n);
  }

 private:
  void check() const {
    if (num_guessed_ > 0) throw std::logic_error("what was taken by a guess was not rolled back");
  }
  uint64_t next_number() { return mix(grammar().seed, ++num_asked_); }

  int num_guessed_ = 0;
  uint64_t num_asked_ = 0;
};

// Calls functions that a test sets.
class CalledMatcher : public specguide::Matcher {
 public:
  std::function<bool(int32_t)> on_accept = [](int32_t) { return true; };
  std::function<void(int32_t*)> on_fill = [](int32_t* row) { row[0] = 1; };
  bool terminated = false;
  bool accept(int32_t token) override { return on_accept(token); }
  void fill(int32_t* row) override { on_fill(row); }
  void rollback(int) override { terminated = false; }
  bool is_terminated() const override { return terminated; }
  std::vector<int32_t> forced_tokens() override { return {}; }
};

}  // namespace fake
