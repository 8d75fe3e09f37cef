// Owns the loops over a row of floats in a form that compilers vectorise.
#pragma once

#include <cstdint>

namespace specguide {

// The dot product, as eight parallel sums; a single sum would have to be computed in order.
inline float dot(const float* left, const float* right, int64_t size) {
  constexpr int64_t kLanes = 8;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += left[i + lane] * right[i + lane];
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  for (; i < size; ++i) total += left[i] * right[i];
  return total;
}

inline void add_scaled(float* output, float factor, const float* row, int64_t size) {
  for (int64_t i = 0; i < size; ++i) output[i] += factor * row[i];
}

}  // namespace specguide
