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

  // Goes over a string, a regular expression, or a sign, and what follows up to the next one that matters here.
  // depth: number of open braces
  void skip_part(int& depth);
  // Goes over an opening brace, and all up to the one that closes it.
  void skip_braces();

  std::string quoted();
  // A term of a string, of a range of two, or of a string in any case.
  Expression string_term();
  // The term of a regular expression, behind its first slash.
  Expression regex_term();
};

}  // namespace specguide
