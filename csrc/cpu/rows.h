// Owns a layer's operations other than products and attention, and the choice of a token, on a CPU: float32, few rows.
#pragma once

#include <cstdint>

namespace specguide {

// Twins: rms_norm and add_rms_norm of kernels/pointwise.py. Row r has weight row r % weight_rows.
struct NormRows {
  const float* input = nullptr;     // [rows, size]
  const float* residual = nullptr;  // [rows, size], added first; or null
  const float* weight = nullptr;    // [weight_rows, size]
  float* total = nullptr;           // [rows, size], the sum; null without residual
  float* output = nullptr;          // [rows, size], output_stride apart
  int64_t rows = 0;
  int64_t size = 0;
  int64_t weight_rows = 1;
  int64_t output_stride = 0;
  double eps = 0;
};

void norm(const NormRows& rows);

// Twin: rope_and_store of kernels/pointwise.py, for heads in the halves layout.
struct RotatedRows {
  const float* query_key = nullptr;       // [rows, num_heads + num_kv_heads, head_dim], tokens query_key_stride apart
  const float* value = nullptr;           // [rows, num_kv_heads, head_dim], tokens value_stride apart
  const float* rotary = nullptr;          // [rows, 2, head_dim]
  const int64_t* slot_mapping = nullptr;  // [rows]
  float* key_cache = nullptr;             // [slots, num_kv_heads, head_dim]
  float* value_cache = nullptr;           // the same
  float* query = nullptr;                 // [rows, num_heads, head_dim]
  int64_t rows = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t query_key_stride = 0;
  int64_t value_stride = 0;
};

void rotate_and_store(const RotatedRows& rows);

// Twin: masked_argmax of kernels/reference.py.
struct ChosenRows {
  const float* logits = nullptr;        // [rows, size]
  const int32_t* bitmask = nullptr;     // [any, words]; null: all are free
  const uint8_t* guided = nullptr;      // [any]
  const int64_t* row_ids = nullptr;     // [rows], indices into the bitmask
  const int32_t* target_ids = nullptr;  // [size]; null: a column is its own token
  int32_t* tokens = nullptr;            // [rows]
  int64_t rows = 0;
  int64_t size = 0;
  int64_t words = 0;
};

void choose(const ChosenRows& rows);

}  // namespace specguide
