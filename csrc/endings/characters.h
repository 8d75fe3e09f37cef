// Owns which ASCII characters the texts of an expression may contain.
#pragma once

#include <bitset>

#include "endings/expression.h"

namespace specguide {

using Ascii = std::bitset<128>;

// The expression that a rule's name stands for, possibly via other rules' names; any other expression is returned as it
// is.
const Expression& resolved(const Expression& part, const Grammar& grammar);

// Adds the characters of a part's texts; false if they are not known.
bool add_characters(const Expression& part, const Grammar& grammar, Ascii& used);

// Whether a part may be a single character that is not in `used`.
bool has_other_character(const Expression& part, const Grammar& grammar, const Ascii& used);

}  // namespace specguide
