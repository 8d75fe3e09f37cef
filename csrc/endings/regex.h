// Owns the reading of regular expressions in the syntax of Rust's regex crate, which llguidance and xgrammar accept.
//
// Source: docs.rs/regex, "Syntax".
#pragma once

#include <string_view>

#include "endings/expression.h"

namespace specguide {

// The texts that a pattern matches as a whole. flags: any of "i" and "s". Throws std::invalid_argument for what it
// cannot read.
Expression regex_expression(std::string_view pattern, std::string_view flags);

}  // namespace specguide
