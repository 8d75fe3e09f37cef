// Owns the ends of a grammar: what its texts need to end. They may be computed after the grammar's first row.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "endings/automaton.h"
#include "endings/bounds.h"
#include "endings/expression.h"
#include "endings/token_trie.h"

namespace specguide {

// It is shared by a grammar's matchers, and thread-safe.
class Endings {
 public:
  Endings(std::shared_ptr<const Network> network, std::shared_ptr<const TokenTrie> trie_,
          std::shared_ptr<AutomatonPool> pool);
  // is_exact: see build_network
  // may_wait: the automaton is built when it is asked for, if bounds are enough until then
  // Throws std::invalid_argument like build_network if the automaton is built at once.
  Endings(Grammar grammar, std::shared_ptr<const TokenTrie> trie_, std::shared_ptr<AutomatonPool> pool, bool is_exact,
          bool may_wait);

  // Builds the automaton; other callers wait meanwhile.
  void build();
  // The automaton, which is built if necessary. Null if it is too large.
  Automaton* automaton();
  // The automaton; null if it does not exist yet, or never will.
  Automaton* known() const { return known_.load(std::memory_order_acquire); }
  bool is_built() const { return is_built_.load(std::memory_order_acquire); }

  // Number of tokens of the shortest text, its end token included; -1 if none is known.
  int64_t num_least() { return num_missing(""); }
  // An upper bound of num_least, known immediately.
  int64_t most_least();
  // The same behind the beginning of a text.
  int64_t num_missing(std::string_view text);
  // Whether at most `most` tokens are missing behind each first token, as far as the bounds tell.
  bool all_endable(int64_t most) const { return bounds_.missing <= most; }
  // Whether no text ends; false if that is not known yet.
  bool is_endless();
  // Whether the row that one matcher fills is the same for all matchers in that state.
  bool is_exact() { return automaton() != nullptr && known()->network().is_exact(); }

  const std::shared_ptr<const TokenTrie> trie;
  std::atomic<int64_t> num_shared{0};  // number of rows that were copied

 private:
  Bounds bounds_;
  const bool asks_exact_;
  std::shared_ptr<AutomatonPool> pool_;
  std::optional<Grammar> grammar_;  // until the automaton is built
  std::optional<Automaton> automaton_;
  std::atomic<Automaton*> known_{nullptr};
  std::atomic<bool> is_built_{false};
  std::mutex mutex_;
};

}  // namespace specguide
