// Owns a request of the stress tests, and what plain decoding produces for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fake_grammar.h"

using Text = std::vector<int32_t>;
using fake::Grammar;

struct Request {
  Grammar grammar;
  fake::Behaviour behaviour;
  bool is_free = false;
  std::vector<int32_t> text;  // verified tokens
  std::vector<uint64_t> states;
  std::atomic<int> num_restarts{0};  // of its matcher, which fails only once

  bool has_ended() const { return !is_free && !text.empty() && text.back() == fake::kEnd; }
  bool may_fail() const { return behaviour.throw_at || behaviour.refuse_at || grammar.dead_end_in; }
  void append(int32_t token) {
    if (has_ended()) return;  // nothing counts after the end token
    states.push_back(grammar.next(states.back(), token));
    text.push_back(token);
  }
};

// What plain decoding produces: no drafts, the grammar asked directly.
inline std::vector<int32_t> decode_plainly(const Grammar& grammar, size_t num_tokens) {
  std::vector<int32_t> text;
  uint64_t state = grammar.start();
  while (text.size() < num_tokens && (text.empty() || text.back() != fake::kEnd)) {
    text.push_back(fake::choose(state, grammar.row(state).data()));
    state = grammar.next(state, text.back());
  }
  return text;
}

inline int stress_iterations() {
  const char* given = std::getenv("SPECGUIDE_STRESS_ITERATIONS");
  return given ? std::atoi(given) : 1500;
}
