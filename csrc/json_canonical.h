// Owns the question whether two JSON texts are the same value.
#pragma once

#include <string>
#include <string_view>

namespace specguide {

// The deepest nesting of a value that is compared.
constexpr int kMostNestedValues = 1000;

// A text that equal JSON values share and unequal ones do not: numbers by their value, strings with the escapes alone
// that they need, properties by name, of equal names the last. A string without escapes stays as it is.
// json: a value without whitespace around it. Throws std::runtime_error where it is nested too deep, or cut off.
std::string canonical_json(std::string_view json);

}  // namespace specguide
