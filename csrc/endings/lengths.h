// Owns sums and products of lengths, which saturate at the length that stands for "no end".
#pragma once

#include <algorithm>
#include <cstdint>

namespace specguide {

constexpr int64_t kEndless = int64_t{1} << 40;

inline int64_t sum(int64_t a, int64_t b) { return std::min(kEndless, a + b); }

inline int64_t times(int64_t num, int64_t each) {
  return each > 0 && num > kEndless / each ? kEndless : num * each;
}

}  // namespace specguide
