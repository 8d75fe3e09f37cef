// Owns the parts of a Lark grammar that hold no other part: heads of rules, strings, regular expressions, and what is
// passed over.
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
  // Whether a statement begins here. Signs are looked at, and nothing is read.
  bool begins_statement();

  // Over a string, a regular expression, or one sign; depth: braces that are open.
  void skip_part(int& depth);
  // Over an opening brace, and all up to the one that closes it.
  void skip_braces();

  std::string quoted();
  // A string, a range of two, or one in any case.
  Expression string_term();
  // Behind the first slash.
  Expression regex_term();
};

}  // namespace specguide
