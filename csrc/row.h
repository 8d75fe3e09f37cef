// Owns how a bitmask row is read and written: one bit per token, 32 per word.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace specguide {

// The words of a row, and a number for their content: rows with equal numbers are equal. 0: the content is unknown.
struct FilledRow {
  int32_t* words;
  int64_t content = 0;
};

inline bool has_bit(const int32_t* row, int32_t token) {
  return (static_cast<uint32_t>(row[token / 32]) >> (token % 32) & 1u) != 0;
}

inline void set_bit(int32_t* row, int32_t token) {
  row[token / 32] = static_cast<int32_t>(static_cast<uint32_t>(row[token / 32]) | 1u << (token % 32));
}

inline void put_bit(int32_t* row, int32_t token, bool is_set) {
  const uint32_t others = static_cast<uint32_t>(row[token / 32]) & ~(1u << (token % 32));
  row[token / 32] = static_cast<int32_t>(others | static_cast<uint32_t>(is_set) << (token % 32));
}

inline bool is_empty(const int32_t* row, size_t num_words) {
  return std::all_of(row, row + num_words, [](int32_t word) { return word == 0; });
}

// The token of a row that allows exactly one; else -1.
inline int32_t only_token(const int32_t* row, size_t num_words) {
  int32_t token = -1;
  for (size_t word = 0; word < num_words; ++word) {
    const auto bits = static_cast<uint32_t>(row[word]);
    if (bits == 0) continue;
    if (token >= 0 || (bits & (bits - 1)) != 0) return -1;
    token = static_cast<int32_t>(word) * 32 + __builtin_ctz(bits);
  }
  return token;
}

}  // namespace specguide
