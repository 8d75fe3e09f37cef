// Owns the words of memory by which threads and streams, GPU streams included, signal their progress to each other.
#pragma once

#include <cstdint>
#include <memory>

namespace specguide {

// Whoever may still touch the word shares ownership of it, unless someone else keeps it alive.
using WordRef = std::shared_ptr<int32_t>;

inline WordRef unowned(int32_t* word) { return {std::shared_ptr<void>(), word}; }

// Whoever reads the word also sees what was written before it.
inline int32_t load_word(const int32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
inline void store_word(int32_t* word, int32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

}  // namespace specguide
