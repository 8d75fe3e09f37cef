// Owns which characters of ASCII the texts of an expression may have.
#pragma once

#include <bitset>

#include "endings/expression.h"

namespace specguide {

using Ascii = std::bitset<128>;

// What a rule's name stands for, as far as that is another rule's; any other expression itself.
const Expression& resolved(const Expression& part, const Grammar& grammar);

// Adds those of a part's texts; false where that is not told.
bool add_characters(const Expression& part, const Grammar& grammar, Ascii& used);

// Whether a part may be a single one that is not among some.
bool has_other_character(const Expression& part, const Grammar& grammar, const Ascii& used);

}  // namespace specguide
