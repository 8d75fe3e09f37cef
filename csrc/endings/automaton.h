// Owns the states of texts in a grammar, which are created when they are first reached and shared by all texts of the
// grammar, and the length of the shortest way from each of them to the end.
//
// It is Earley's parser (1970) over a network of rules, made deterministic lazily: a state is a set of places in rules,
// each with the state in which its rule was entered, so that texts that may continue alike reach the same state. A call
// at the end of a rule replaces that rule (Leo 1991), which keeps repetitions in one state.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "endings/automaton_pool.h"
#include "endings/network.h"
#include "endings/token_trie.h"
#include "row.h"

namespace specguide {

class Automaton {
 public:
  // The number of a state. It is valid until `epoch` changes: states that take too much memory are dropped.
  using State = int32_t;
  static constexpr State kDead = -1;  // no text of the grammar begins so, or it may be in too many places to track
  static constexpr size_t kMostBytes = size_t{32} << 20;
  static constexpr size_t kMostRowBytes = kMostBytes / 2;
  static constexpr size_t kMostPlaces = 1'000;    // of one state, without those in the rules that it enters
  static constexpr size_t kMostEntered = 40'000;  // of one state in all

  Automaton(std::shared_ptr<const Network> network, std::shared_ptr<AutomatonPool> pool);
  ~Automaton() { pool_->leave(*this); }
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  const Network& network() const { return *network_; }

  // Reads what walks have found, concurrently with other looks; it knows nothing where no walk has been. Like a walk, a
  // look belongs to one epoch.
  class Look {
   public:
    explicit Look(Automaton& automaton);
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;

    int64_t epoch() const { return automaton_.epoch_; }
    std::optional<State> step(State state, std::string_view bytes) const;
    // Copies this state's row if at most `most` tokens are missing behind each of its tokens; false otherwise.
    bool copy_row(State state, int64_t most, FilledRow& row) const;
    // Whether that row has the token.
    std::optional<bool> allows(State state, int32_t token) const;

   private:
    const std::shared_lock<std::shared_mutex> lock_;
    const Automaton& automaton_;
  };

  // Usable from several threads: each walk holds a lock. It must begin again if the epoch has changed.
  class Walk {
   public:
    explicit Walk(Automaton& automaton)
        : lock_(automaton.mutex_), automaton_(automaton), num_bytes_before_(automaton.num_bytes_) {
      automaton.last_walk_.store(automaton.pool_->next_walk(), std::memory_order_relaxed);
      if (automaton.num_bytes_ > kMostBytes) automaton.forget();
    }
    ~Walk() {
      if (automaton_.num_bytes_ != num_bytes_before_) automaton_.pool_->count(automaton_);
    }
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;

    int64_t epoch() const { return automaton_.epoch_; }
    // Whether it met a state with too many places.
    bool has_lost_track() const { return automaton_.has_lost_track_; }
    // The state of the empty text.
    State start();
    State step(State state, uint8_t byte) { return automaton_.step(state, byte); }
    State step(State state, std::string_view bytes);
    bool may_end(State state) const { return automaton_.states_[static_cast<size_t>(state)].may_end; }
    // Tokens of the shortest text from here to an end, without the end token; Network::kNever if there is none.
    int64_t least(State state) const { return automaton_.states_[static_cast<size_t>(state)].least; }
    // Whether at most `most` tokens are missing behind each token that may follow, as far as is known.
    bool all_endable(State state, int64_t most) const {
      return is_endable(automaton_.states_[static_cast<size_t>(state)], most);
    }
    // Removes from a row the tokens behind which more than `most` are missing; if there are any, it also removes those
    // that may not follow.
    void keep_endable(State state, const TokenTrie& trie, int64_t most, int32_t* row);
    // Copies the row that a matcher filled in this state or one that continues alike; false if none was kept. Only if
    // the automaton has exactly the texts of its grammar.
    bool copy_row(State state, const TokenTrie& trie, FilledRow& row);
    // Keeps the row that a matcher filled in this state, if there is room.
    void keep_row(State state, FilledRow& row, size_t num_words);
    // Copies the row that was last kept in a state with the same places of rules, whatever is behind these places and
    // however often they were repeated; false if there is none.
    bool copy_like_row(State state, FilledRow& row) const;
    // Whether such a row allows a token of num_bytes; none if it does not tell.
    std::optional<bool> allows(State state, int32_t token, size_t num_bytes);
    // The minimum number of tokens missing behind any token of a row; Network::kNever if none of these tokens may
    // follow.
    int64_t least_behind(State state, const TokenTrie& trie, const int32_t* row);

   private:
    const std::unique_lock<std::shared_mutex> lock_;
    Automaton& automaton_;
    const size_t num_bytes_before_;
  };

 private:
  friend class AutomatonPool;

  static constexpr State kUnknown = -2;
  static constexpr int32_t kRoot = 0;

  // A place in a rule. done: see Network::cost; stack: what follows the rule
  struct Item {
    int32_t node, done, stack;
    bool operator<(const Item& other) const {
      if (node != other.node) return node < other.node;
      return done != other.done ? done < other.done : stack < other.stack;
    }
    bool operator==(const Item& other) const {
      return node == other.node && done == other.done && stack == other.stack;
    }
    size_t hash() const {
      const uint64_t mixed = (static_cast<uint64_t>(static_cast<uint32_t>(stack)) << 32 | static_cast<uint32_t>(node)) +
                             static_cast<uint64_t>(static_cast<uint32_t>(done)) * 0xD6E8FEB86659FD93ull;
      return static_cast<size_t>(mixed * 0x9E3779B97F4A7C15ull >> 32);
    }
  };
  using Items = std::vector<Item>;
  struct HashOfItems {
    size_t operator()(const Items& items) const;
  };

  static constexpr size_t kEndless = SIZE_MAX;
  // A kind that similar states, or similar stacks, share, and the number of bytes for which they continue alike.
  struct Likeness {
    int32_t kind = kUnknown;
    size_t reach = kEndless;
  };

  // A rule entered in a state: the places behind the rule where the text continues.
  struct Stack {
    Items returns;
    int64_t least = 0;    // tokens missing behind the rule to the end
    int64_t ceiling = 0;  // the most tokens that are missing anywhere behind the rule
  };

  struct Known {
    Items scans;  // places before a byte
    bool may_end = false;
    int32_t row = -1;  // index of its own row in `rows_`; -1 if none is kept
    int64_t least = Network::kNever;
    // Most tokens missing behind any token that may follow: an upper bound, and the exact value once all have been
    // seen.
    int64_t ceiling = 0, worst = Network::kNever;
    std::vector<State> next;  // by byte class
    Likeness likeness;
  };

  // A filled row; its content is numbered as in FilledRow.
  struct KeptRow {
    std::vector<int32_t> words;
    int64_t content;

    void copy_to(FilledRow& row) const {
      if (row.content == content) return;
      std::copy(words.begin(), words.end(), row.words);
      row.content = content;
    }
  };

  // A row for several states that continue alike; a matcher filled it in one of them. In all states that continue alike
  // for `reach` bytes it is correct for tokens of at most `reach` bytes.
  struct SharedRow {
    int32_t row = -1;  // index in `rows_`; -1: none yet
    size_t reach = 0;
  };

  // How many tokens are missing behind each token that may follow; for most of them it is the same number.
  struct Missing {
    struct Other {
      int64_t num_missing;
      int32_t token;
    };
    int64_t usual = Network::kNever;
    std::vector<int32_t> usually;  // the row of the tokens behind which `usual` are missing
    std::vector<Other> others;     // the other tokens, those with the fewest first
  };

  // Consecutive tokens of the trie with the same number of missing tokens.
  struct Run {
    int64_t num_missing;
    int32_t first, last;  // indices in the trie's tokens, `last` not included
  };

  // Places before a byte or a call, and whether the text may end; without the places inside called rules.
  struct Kernel {
    Items items;
    bool may_end = false;
  };
  class Closure;

  State step(State state, uint8_t byte);
  State state_of(Items raw);
  State add(const Kernel& kernel);
  void share_stacks(size_t first, Items& scans);
  Item alike(const Item& item, int depth, size_t& reach);
  Likeness likeness_of(const Items& items, int depth, int32_t tag);
  Likeness likeness_of_stack(int32_t stack, int depth);
  Likeness likeness(State state);
  bool set_longer(State state, const TokenTrie& trie, size_t reach, int32_t* row);
  std::optional<bool> takes(State state, std::string_view bytes);
  Items places_of(State state) const;
  int32_t keep(const int32_t* row, size_t num_words);
  std::set<State> behind_any(const std::set<State>& states, int low, int high);
  bool loops_beyond_ascii(State state);
  uint8_t loops(State state);
  std::vector<Run> runs(State from, const TokenTrie& trie);
  const Missing& missing(State state, const TokenTrie& trie);
  std::optional<int64_t> missing_behind(State state, const Vocabulary& vocabulary, int32_t token);
  static bool is_endable(const Known& known, int64_t most) { return known.ceiling <= most || known.worst <= most; }
  State lose_track() {
    has_lost_track_ = true;
    return kDead;
  }
  void forget();

  const std::shared_ptr<const Network> network_;
  const std::shared_ptr<AutomatonPool> pool_;
  std::shared_mutex mutex_;
  std::vector<Known> states_;
  std::vector<Stack> stacks_;
  std::unordered_map<Items, State, HashOfItems> index_;          // by their kernels
  std::unordered_map<Items, int32_t, HashOfItems> stack_index_;  // by their returns
  std::vector<Likeness> stack_likeness_;
  std::vector<SharedRow> shared_rows_;  // by kind
  std::vector<KeptRow> rows_;  // all different: few rows differ among many states
  std::unordered_multimap<size_t, int32_t> row_index_;  // by their hashes
  std::unordered_map<Items, int32_t, HashOfItems> kind_index_;  // by what makes them similar
  std::unordered_map<Items, int32_t, HashOfItems> like_rows_;   // in `rows_`, by places of rules alone
  std::unordered_map<State, Missing> missing_;                  // of states in which texts had to end soon
  size_t num_bytes_ = 0;
  size_t num_row_bytes_ = 0;  // bytes of rows_
  size_t num_counted_ = 0;  // the part of num_bytes_ that the pool has counted; the pool owns this member
  std::atomic<int64_t> last_walk_{-1};
  int64_t epoch_ = 0;
  State start_ = kUnknown;
  bool has_lost_track_ = false;
};

}  // namespace specguide
