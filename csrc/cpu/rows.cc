#include "cpu/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/dot.h"
#include "row.h"

namespace specguide {

namespace {

// Rotates one head, whose two halves are the two axes. The first half of the sines is already negated.
void rotate(const float* head, const float* rotary, float* output, int64_t dim) {
  const float *cosine = rotary, *sine = rotary + dim;
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    output[i] = head[i] * cosine[i] + head[half + i] * sine[i];
    output[half + i] = head[half + i] * cosine[half + i] + head[i] * sine[half + i];
  }
}

// A NaN is never chosen, because no comparison finds it greater.
int32_t chosen(const float* logits, const int32_t* row, const ChosenRows& all) {
  float best = -std::numeric_limits<float>::infinity();
  int64_t place = -1;
  bool is_reached = false;
  for (int64_t i = 0; i < all.size; ++i) {
    if (row && !has_bit(row, static_cast<int32_t>(all.target_ids ? all.target_ids[i] : i))) continue;
    is_reached = true;
    if (logits[i] > best) {
      best = logits[i];
      place = i;
    }
  }
  if (place >= 0) return static_cast<int32_t>(all.target_ids ? all.target_ids[place] : place);
  return !is_reached && row && all.target_ids ? only_token(row, static_cast<size_t>(all.words)) : -1;
}

}  // namespace

void norm(const NormRows& all) {
  for (int64_t r = 0; r < all.rows; ++r) {
    const float* input = all.input + r * all.size;
    const float* weight = all.weight + r % all.weight_rows * all.size;
    if (all.residual) {
      float* total = all.total + r * all.size;
      const float* residual = all.residual + r * all.size;
      for (int64_t i = 0; i < all.size; ++i) total[i] = residual[i] + input[i];
      input = total;
    }
    const float mean = dot(input, input, all.size) / static_cast<float>(all.size);
    const float scale = 1.0f / std::sqrt(mean + static_cast<float>(all.eps));
    float* output = all.output + r * all.output_stride;
    for (int64_t i = 0; i < all.size; ++i) output[i] = input[i] * scale * weight[i];
  }
}

void rotate_and_store(const RotatedRows& all) {
  const int64_t dim = all.head_dim, stored = all.num_kv_heads * dim;
  for (int64_t r = 0; r < all.rows; ++r) {
    const float* heads = all.query_key + r * all.query_key_stride;
    const float* rotary = all.rotary + r * 2 * dim;
    float* query = all.query + r * all.num_heads * dim;
    for (int64_t h = 0; h < all.num_heads; ++h) rotate(heads + h * dim, rotary, query + h * dim, dim);
    const int64_t slot = all.slot_mapping[r];
    if (slot < 0) continue;
    const float *keys = heads + all.num_heads * dim, *values = all.value + r * all.value_stride;
    float* key_cache = all.key_cache + slot * stored;
    for (int64_t h = 0; h < all.num_kv_heads; ++h) rotate(keys + h * dim, rotary, key_cache + h * dim, dim);
    std::copy(values, values + stored, all.value_cache + slot * stored);
  }
}

void choose(const ChosenRows& all) {
  for (int64_t r = 0; r < all.rows; ++r) {
    const int32_t* row = nullptr;
    if (all.bitmask && all.guided[all.row_ids[r]]) row = all.bitmask + all.row_ids[r] * all.words;
    all.tokens[r] = chosen(all.logits + r * all.size, row, all);
  }
}

}  // namespace specguide
