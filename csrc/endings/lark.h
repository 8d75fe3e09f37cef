// Owns the reading of Lark grammars in llguidance's dialect.
//
// Source: llguidance docs/syntax.md. What only chooses among texts is skipped (priorities, aliases, captures). What is
// not supported here is refused: JSON Schemas inside a grammar, single tokens, and rules that end by a stop or a
// budget.
#pragma once

#include <string_view>

#include "endings/expression.h"

namespace specguide {

// Throws std::invalid_argument for what it cannot read.
Grammar read_lark(std::string_view text);

}  // namespace specguide
