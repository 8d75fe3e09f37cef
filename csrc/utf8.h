// Owns the encoding of a code point in UTF-8 (RFC 3629).
#pragma once

#include <cstdint>
#include <string>

namespace specguide {

// Appends the bytes of a code point of at most 0x10FFFF. Half of a surrogate pair is encoded as if it were a character.
inline void append_utf8(std::string& out, uint32_t code) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xE0 | code >> 12);
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
    }
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

}  // namespace specguide
