// Owns the reading of EBNF in xgrammar's dialect.
//
// Source: xgrammar docs, "EBNF Grammar"; its printed form, with repetitions {m, n} in which n may be -1, lookaheads
// (= …), which are not part of the text, Regex("…"), and TagDispatch(…), free text with grammars behind triggers.
#pragma once

#include <string_view>

#include "endings/expression.h"

namespace specguide {

// Throws std::invalid_argument for what it cannot read.
Grammar read_ebnf(std::string_view text);

}  // namespace specguide
