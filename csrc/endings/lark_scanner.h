// Owns the elementary parts of a Lark grammar: heads of rules, strings, regular expressions, and what is skipped.
#pragma once

#include <string>
#include <string_view>

#include "endings/expression.h"
#include "endings/scanner.h"

namespace specguide {

class LarkScanner : protected Scanner {
 protected:
  explicit LarkScanner(std::string_view text) : Scanner(text, "//") {}

  struct Head {
    std::string name{};
    bool is_lazy = false;
  };

  // Name, attributes and priority before a colon.
  Head head();
  std::string rule_name();
  // Whether a statement begins here. It only looks ahead, and reads nothing.
  bool begins_statement();

  // Skips a string, a regular expression, or a sign, and everything up to the next one that matters here.
  // depth: number of open braces
  void skip_part(int& depth);
  // Skips an opening brace, and everything up to the matching closing one.
  void skip_braces();

  std::string quoted();
  // A term that is a string, a range of two strings, or a case-insensitive string.
  Expression string_term();
  // The term of a regular expression, behind its first slash.
  Expression regex_term();
};

}  // namespace specguide
