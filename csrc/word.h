// Owns words of memory through which threads and streams, of the GPU also, tell each other where they are.
#pragma once

#include <cstdint>
#include <memory>

namespace specguide {

// Whoever may still touch the word shares ownership of it, except where someone else sees to that.
using WordRef = std::shared_ptr<int32_t>;

inline WordRef unowned(int32_t* word) { return {std::shared_ptr<void>(), word}; }

// Whoever reads the word sees what was written before it.
inline int32_t load_word(const int32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
inline void store_word(int32_t* word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

}  // namespace specguide
