// Owns the comparison of JSON texts by value.
#pragma once

#include <string>
#include <string_view>

namespace specguide {

// Maximum nesting of a value that can be compared.
constexpr int kMostNestedValues = 1000;

// A text that is the same for equal JSON values and differs for unequal ones: numbers by value, strings with only the
// escapes that they need, properties by name, of duplicate names only the last. A string without escapes is unchanged.
// json: a value without whitespace around it. Throws std::runtime_error if it is nested too deeply or cut off.
std::string canonical_json(std::string_view json);

}  // namespace specguide
