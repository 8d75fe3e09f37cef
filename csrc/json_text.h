// Owns which bytes separate the values of a JSON text, and which ones form numbers.
#pragma once

#include <string_view>

namespace specguide {

inline constexpr std::string_view kJsonSpaces = " \t\n\r";

inline bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number, true, false or null ends before such a byte.
inline bool ends_scalar(char c) { return is_space(c) || c == ',' || c == ']' || c == '}'; }

inline bool begins_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

}  // namespace specguide
