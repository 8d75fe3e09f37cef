// Owns the encoding of character ranges in UTF-8: code points, and the bytes that spell them.
#pragma once

#include <cstdint>
#include <vector>

#include "endings/expression.h"
#include "endings/network.h"

namespace specguide {

constexpr uint32_t kLastCode = 0x10FFFF;

// All code points except those of some ranges.
std::vector<CodeRange> all_but(std::vector<CodeRange> ranges);

// Adds nodes for one character of some ranges before `next`; returns the first.
// has_surrogates: surrogates may be spelled like characters, although that is not UTF-8 (RFC 3629)
int32_t add_code_ranges(Network& network, int32_t rule, const std::vector<CodeRange>& ranges, int32_t next,
                        bool has_surrogates);

}  // namespace specguide
