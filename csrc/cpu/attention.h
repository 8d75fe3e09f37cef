// Owns float32 attention of few tokens over the paged cache on a CPU; keys and values are read in place.
#pragma once

#include <cstdint>

namespace specguide {

// The tokens and sequences of a pass; the arrays are those of a ForwardContext (kernels/attention/interface.py).
struct AttentionPass {
  const int64_t* position_ids = nullptr;     // [T]
  const int32_t* block_table = nullptr;      // [num_seqs, max_pages], rows table_stride apart
  const int32_t* query_start_loc = nullptr;  // [num_seqs + 1]
  const int32_t* seq_lens = nullptr;         // [num_seqs]
  const uint8_t* ancestors = nullptr;        // [num_seqs, Q, num_nodes]; null: causal
  const int64_t* node_positions = nullptr;   // [num_seqs, num_nodes], given together with ancestors
  int64_t num_seqs = 0;
  int64_t max_pages = 0;
  int64_t table_stride = 0;
  int64_t page_size = 0;
  int64_t num_nodes = 0;

  // Pairs of a token and a key of its sequence, as a measure of the work.
  int64_t num_pairs() const;
};

// The tensors and numbers of one layer of the pass.
struct AttentionLayer {
  const float* query = nullptr;        // [T, num_heads, head_dim]
  const float* key_cache = nullptr;    // [pages, page_size, num_kv_heads, head_dim]
  const float* value_cache = nullptr;  // the same
  const float* sinks = nullptr;        // [num_heads], or null
  float* output = nullptr;             // as query
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;  // 0: none
  float scale = 1;
  float softcap = 0;  // limit of the scores; 0: none
};

// See AttentionPlan.run (kernels/attention/interface.py); a token that sees no key gets zeros.
void attend(const AttentionPass& pass, const AttentionLayer& layer);

}  // namespace specguide
