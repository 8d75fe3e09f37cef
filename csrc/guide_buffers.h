// Owns the layout of what the step and the callbacks share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace specguide {

// Who proposed a draft. 0: nobody, there is none.
enum class DraftOrigin : uint8_t { kNone = 0, kModel = 1, kForced = 2, kLookup = 3 };

// Fixed-address host buffers; words = ceil(vocab / 32). A chain has at most W drafts: num_draft_tokens of the model's,
// num_forced_tokens that the grammar forces and num_lookup_tokens that a lookup finds. N = W + 1. `owner` keeps them
// alive. The last four are there, and tokens are written by callbacks, only where there are forced or looked-up drafts.
struct GuideBuffers {
  int max_batch_size;
  int num_draft_tokens;
  int vocab_size;
  int32_t* rows;                // [N, max_batch_size, words]
  uint8_t* guided;              // [N, max_batch_size]
  uint8_t* held;                // [max_batch_size]
  int32_t* tokens;              // [max_batch_size, N]
  const int32_t* num_accepted;  // [max_batch_size]
  int32_t* needed;              // the last callback whose rows the forward stream stands waiting for
  std::shared_ptr<void> owner;
  int num_forced_tokens = 0;        // also the most of them that follow one another
  int num_lookup_tokens = 0;
  int32_t* chain_len = nullptr;     // [max_batch_size], drafts that there are; the model's next one comes behind
  uint8_t* origins = nullptr;       // [max_batch_size, N], DraftOrigin
  int32_t* draft_rows = nullptr;    // [max_batch_size, words], what may come behind the chain
  uint8_t* draft_guided = nullptr;  // [max_batch_size]

  bool has_proposals() const { return num_forced_tokens + num_lookup_tokens > 0; }
  int max_chain_len() const { return num_draft_tokens + num_forced_tokens + num_lookup_tokens; }
  int num_nodes() const { return max_chain_len() + 1; }
  size_t num_words() const { return (static_cast<size_t>(vocab_size) + 31) / 32; }
  size_t row_index(int slot, int node) const { return static_cast<size_t>(node) * max_batch_size + slot; }
  int32_t* row(int slot, int node) const { return rows + row_index(slot, node) * num_words(); }
  int32_t* draft_row(int slot) const { return draft_rows + static_cast<size_t>(slot) * num_words(); }
  size_t node_index(int slot, int node) const { return static_cast<size_t>(slot) * num_nodes() + node; }
  int32_t token(int slot, int node) const { return tokens[node_index(slot, node)]; }
};

}  // namespace specguide
