// Owns the terminals that Lark grammars import.
#pragma once

#include <string>
#include <unordered_map>

namespace specguide {

// Regular expressions of `%import common`, by name.
//
// Source: the Lark project's grammars/common.lark.
const std::unordered_map<std::string, std::string>& common_terminals();

}  // namespace specguide
