// Owns GrammarBuffers, the layout of the memory that the step and the callbacks share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace specguide {

// Who proposed a draft. 0: nobody, there is no draft.
enum class DraftOrigin : uint8_t { kNone = 0, kModel = 1, kForced = 2, kLookup = 3 };

// Maximum drafts in one chain from each proposer; for the grammar, also of consecutive forced tokens.
struct DraftLimits {
  int num_draft_tokens = 0;  // the model's
  int num_forced_tokens = 0;
  int num_lookup_tokens = 0;

  bool has_proposals() const { return num_forced_tokens + num_lookup_tokens > 0; }
  int max_chain_len() const { return num_draft_tokens + num_forced_tokens + num_lookup_tokens; }
  bool is_within(const DraftLimits& others) const {
    const auto is_up_to = [](int number, int most) { return 0 <= number && number <= most; };
    return is_up_to(num_draft_tokens, others.num_draft_tokens) &&
           is_up_to(num_forced_tokens, others.num_forced_tokens) &&
           is_up_to(num_lookup_tokens, others.num_lookup_tokens);
  }
  bool operator==(const DraftLimits& others) const { return is_within(others) && others.is_within(*this); }
  DraftLimits and_also(const DraftLimits& others) const {
    return {std::min(num_draft_tokens, others.num_draft_tokens), std::min(num_forced_tokens, others.num_forced_tokens),
            std::min(num_lookup_tokens, others.num_lookup_tokens)};
  }
};

// Fixed-address host buffers; words = ceil(vocab / 32). A chain has at most W drafts: num_draft_tokens of the model,
// num_forced_tokens that the grammar forces and num_lookup_tokens that a lookup finds. N = W + 1. `owner` keeps the
// buffers alive. Only if there are forced or looked-up drafts do chain_len and origins exist, and do callbacks write
// tokens.
//
// If there is a model's chain, forced tokens are its tail: those that follow the last draft but one also take the last
// draft's place.
//
// With stage_begins the drafts are a tree of depth num_draft_tokens = D. Its nodes are numbered by stages, which become
// known one after another: stage j, of D + 1, is node stage_begins[j] … stage_begins[j + 1] - 1; stage 0 is only the
// golden token. A node's parent is in any earlier stage. N = stage_begins[D + 1]. Trees have no proposals. If an
// iteration's limits reduce a tree to depth d, its last nodes may be in any of the stages d … D, which then become
// known together.
struct GrammarBuffers {
  int max_batch_size;
  int num_draft_tokens;
  int vocab_size;
  int32_t* bitmask;             // [N, max_batch_size, words]
  int64_t* fill_ids;            // [N, max_batch_size]; 0: the row is free; else see RowNumbers
  uint8_t* held;                // [max_batch_size]
  int32_t* tokens;              // [max_batch_size, N]
  const int32_t* num_accepted;  // [max_batch_size]
  int32_t* needed;              // the last callback whose rows the forward stream is waiting for
  std::shared_ptr<void> owner;
  int num_forced_tokens = 0;        // also the maximum of consecutive forced tokens
  int num_lookup_tokens = 0;
  int32_t* chain_len = nullptr;     // [max_batch_size], number of drafts, behind which the model's next one comes;
                                    // W where none may come
  uint8_t* origins = nullptr;       // [max_batch_size, N], DraftOrigin
  std::vector<int> stage_begins = {};      // [D + 2]; empty: a chain
  const int32_t* parents = nullptr;        // [max_batch_size, N], a node each; arbitrary where there is no token
  const int32_t* accepted_path = nullptr;  // [max_batch_size, D], nodes; the first num_accepted of them are valid
  int num_kept_rows = 0;                   // number of filled rows, the last ones, that the device keeps

  // Nodes whose tokens become known together.
  struct Stage {
    int begin, end;
  };

  bool is_tree() const { return !stage_begins.empty(); }
  Stage stage(int index) const {
    return is_tree() ? Stage{stage_begins[index], stage_begins[index + 1]} : Stage{index, index + 1};
  }
  DraftLimits limits() const { return {num_draft_tokens, num_forced_tokens, num_lookup_tokens}; }
  bool has_proposals() const { return limits().has_proposals(); }
  int max_chain_len() const { return limits().max_chain_len(); }
  int num_nodes() const { return is_tree() ? stage_begins.back() : max_chain_len() + 1; }
  size_t num_words() const { return (static_cast<size_t>(vocab_size) + 31) / 32; }
  size_t row_index(int slot, int node) const { return static_cast<size_t>(node) * max_batch_size + slot; }
  int32_t* row(int slot, int node) const { return bitmask + row_index(slot, node) * num_words(); }
  size_t node_index(int slot, int node) const { return static_cast<size_t>(slot) * num_nodes() + node; }
  int32_t token(int slot, int node) const { return tokens[node_index(slot, node)]; }
  int parent(int slot, int node) const { return is_tree() ? parents[node_index(slot, node)] : node - 1; }
};

}  // namespace specguide
