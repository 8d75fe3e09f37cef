#include "endings/regex.h"

#include <algorithm>
#include <utility>

#include "endings/scanner.h"
#include "endings/utf8_ranges.h"
#include "utf8.h"

namespace specguide {

namespace {

using Ranges = std::vector<CodeRange>;

// The characters of \d, \w or \s.
Ranges class_of(char sign) {
  if (sign == 'd') return {{'0', '9'}};
  if (sign == 'w') return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return {{'\t', '\r'}, {' ', ' '}};
}

struct Flags {
  bool ignores_case = false, dot_takes_lines = false;
};

void set_flag(Flags& flags, char sign, bool is_on) {
  if (sign == 'i') flags.ignores_case = is_on;
  if (sign == 's') flags.dot_takes_lines = is_on;
}

class RegexReader : private Scanner {
 public:
  RegexReader(std::string_view pattern, std::string_view flags) : Scanner(pattern, "") {
    for (const char sign : flags) set_flag(flags_, sign, true);
  }

  Expression all() {
    Expression found = choice(0);
    if (at_ != text_.size()) fail("a parenthesis that nothing opens");
    return found;
  }

 private:
  Expression choice(int depth) {
    if (depth > kMostNestedParts) fail("it nests too deep");
    const Flags outer = flags_;
    std::vector<Expression> parts;
    do {
      parts.push_back(sequence(depth));
    } while (take_here("|"));
    flags_ = outer;
    return Expression::of(Expression::Kind::kChoice, std::move(parts));
  }

  Expression sequence(int depth) {
    std::vector<Expression> parts;
    while (at_ < text_.size() && !is_here("|") && !is_here(")")) {
      if (take_here("^") || take_here("$")) continue;  // the whole text must match anyway
      parts.push_back(quantified(term(depth)));
    }
    return Expression::of(Expression::Kind::kSequence, std::move(parts));
  }

  Expression quantified(Expression item) {
    for (int num = 0; const auto times = quantifier(); ++num) {
      if (num > kMostNestedParts) fail("it nests too deep");
      take_here("?");  // which match is preferred does not matter
      item = Expression::repeat(std::move(item), times->first, times->second);
    }
    return item;
  }

  Expression term(int depth) {
    if (take_here("(")) return group(depth);
    if (take_here("[")) return cased(char_class());
    if (take_here(".")) return Expression::one_of(flags_.dot_takes_lines ? all_but({}) : all_but({{'\n', '\n'}}));
    if (take_here("\\")) {
      Ranges ranges;
      if (take_class(ranges)) return Expression::one_of(std::move(ranges));
      const uint32_t code = escape();
      return cased({{code, code}});
    }
    const uint32_t code = character();
    return cased({{code, code}});
  }

  Expression group(int depth) {
    const Flags outer = flags_;
    if (take_here("?P<") || take_here("?<")) {
      if (is_here("=") || is_here("!")) fail("a lookbehind");
      while (byte() != '>') {
      }
    } else if (take_here("?")) {
      if (is_here("=") || is_here("!")) fail("a lookahead");
      bool is_on = true;
      while (!is_here(":") && !is_here(")")) {
        const char sign = byte();
        if (sign == '-') is_on = false;
        else set_flag(flags_, sign, is_on);
      }
      if (take_here(")")) return {};  // flags for the rest
      ++at_;
    }
    Expression inner = choice(depth + 1);
    if (!take_here(")")) fail("a parenthesis that nothing closes");
    flags_ = outer;
    return inner;
  }

  // A character in either case, or a literal if it has no other case.
  Expression cased(Ranges ranges) const {
    if (flags_.ignores_case) {
      const size_t num_given = ranges.size();
      for (size_t i = 0; i < num_given; ++i) {
        for (uint32_t code = ranges[i].low; code <= std::min<uint32_t>(ranges[i].high, 'z'); ++code) {
          if (code < 0x80 && std::isalpha(static_cast<int>(code))) ranges.push_back({code ^ 0x20u, code ^ 0x20u});
        }
      }
    }
    if (ranges.size() == 1 && ranges[0].low == ranges[0].high) {
      std::string text;
      append_utf8(text, ranges[0].low);
      return Expression::literal(std::move(text));
    }
    return Expression::one_of(std::move(ranges));
  }

  uint32_t escape() {
    if (is_here("b") || is_here("B") || is_here("A") || is_here("z") || is_here("p") || is_here("P")) {
      fail("an escape that is not known");
    }
    return escaped();
  }

  bool take_class(Ranges& ranges) {
    const char sign = at_ < text_.size() ? text_[at_] : '\0';
    const char small = static_cast<char>(std::tolower(static_cast<unsigned char>(sign)));
    if (small != 'd' && small != 'w' && small != 's') return false;
    ++at_;
    const Ranges found = sign == small ? class_of(small) : all_but(class_of(small));
    ranges.insert(ranges.end(), found.begin(), found.end());
    return true;
  }

  Ranges char_class() {
    Ranges found;
    const bool is_negated = take_here("^");
    for (bool is_first = true; is_first || !take_here("]"); is_first = false) {
      if (is_here("[") || is_here("&&")) fail("a class within a class");
      if (is_here("\\")) {
        ++at_;
        if (take_class(found)) continue;
        --at_;
      }
      const uint32_t low = member();
      uint32_t high = low;
      if (is_here("-") && text_.substr(at_ + 1, 1) != "]") {
        ++at_;
        high = member();
      }
      if (high < low) fail("a range ends before it begins");
      found.push_back({low, high});
    }
    return is_negated ? all_but(std::move(found)) : found;
  }

  uint32_t member() { return take_here("\\") ? escape_in_class() : character(); }
  uint32_t escape_in_class() { return take_here("b") ? static_cast<uint32_t>('\b') : escape(); }

  Flags flags_;
};

}  // namespace

Expression regex_expression(std::string_view pattern, std::string_view flags) {
  return RegexReader(pattern, flags).all();
}

}  // namespace specguide
