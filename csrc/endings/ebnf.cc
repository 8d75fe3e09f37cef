#include "endings/ebnf.h"

#include <utility>

#include "endings/regex.h"
#include "endings/scanner.h"
#include "endings/utf8_ranges.h"
#include "utf8.h"

namespace specguide {

namespace {

class EbnfReader : private Scanner {
 public:
  explicit EbnfReader(std::string_view text) : Scanner(text, "#") {}

  Grammar all() {
    Grammar found;
    while (!is_done()) {
      std::string name = this->name();
      expect("::=");
      found.rules.insert_or_assign(std::move(name), choice(0));
    }
    return found;
  }

 private:
  // Whether a name here begins a rule.
  bool begins_rule() {
    const size_t begin = at_;
    while (at_ < text_.size() && may_name(text_[at_])) ++at_;
    const bool is_head = at_ > begin && is_next("::=");
    at_ = begin;
    return is_head;
  }

  Expression choice(int depth) {
    if (depth > kMostNestedParts) fail("it nests too deep");
    std::vector<Expression> parts;
    do {
      parts.push_back(sequence(depth));
    } while (take("|"));
    return Expression::of(Expression::Kind::kChoice, std::move(parts));
  }

  Expression sequence(int depth) {
    std::vector<Expression> parts;
    while (!is_done() && !is_next("|") && !is_next(")") && !begins_rule()) {
      if (take("(=")) {
        choice(depth + 1);
        expect(")");
        continue;
      }
      parts.push_back(quantified(term(depth)));
    }
    return Expression::of(Expression::Kind::kSequence, std::move(parts));
  }

  Expression term(int depth) {
    if (take("(")) {
      Expression inner = choice(depth + 1);
      expect(")");
      return inner;
    }
    if (take("\"")) return Expression::literal(literal());
    if (take("[")) return char_class();
    const std::string name = this->name();
    if (name == "Regex" && take_here("(")) return regex();
    if (name != "TagDispatch" || !is_here("(")) return Expression::rule(name);
    Expression found;
    found.kind = Expression::Kind::kFreeText;
    found.free_text = std::make_shared<FreeText>(tag_dispatch());
    return found;
  }

  // The option `json_string` says that the text is inside a JSON string. It forbids some characters, and never makes
  // the nearest end nearer.
  Expression regex() {
    const std::string pattern = quoted();
    while (take(",")) {
      if (const std::string option = name(); option != "json_string") fail("what " + option + " means is not known");
      expect("=");
      name();
    }
    expect(")");
    return regex_expression(pattern, "");
  }

  Expression quantified(Expression item) {
    skip_space();
    for (int num = 0; const auto times = quantifier(); ++num) {
      if (num > kMostNestedParts) fail("it nests too deep");
      item = Expression::repeat(std::move(item), times->first, times->second);
      skip_space();
    }
    return item;
  }

  uint32_t member() { return take_here("\\") ? escaped() : character(); }

  // The text of a literal, behind its opening quotation mark.
  std::string literal() {
    std::string found;
    while (!take_here("\"")) append_utf8(found, member());
    return found;
  }

  std::string quoted() {
    expect("\"");
    return literal();
  }

  Expression char_class() {
    std::vector<CodeRange> ranges;
    const bool is_negated = take_here("^");
    while (!take_here("]")) {
      const uint32_t low = member();
      uint32_t high = low;
      if (is_here("-") && text_.substr(at_ + 1, 1) != "]") {
        ++at_;
        high = member();
      }
      if (high < low) fail("a range ends before it begins");
      ranges.push_back({low, high});
    }
    return Expression::one_of(is_negated ? all_but(std::move(ranges)) : std::move(ranges));
  }

  FreeText tag_dispatch() {
    FreeText found;
    expect("(");
    while (!take(")")) {
      if (take("(")) {
        std::string trigger = quoted();
        expect(",");
        found.triggers.push_back({std::move(trigger), name()});
        expect(")");
      } else {
        option(found);
      }
      take(",");
    }
    return found;
  }

  void option(FreeText& found) {
    const std::string option = name();
    expect("=");
    if (option == "loop_after_dispatch") {
      found.goes_on = name() == "true";
    } else if (option == "excludes") {
      expect("(");
      while (!take(")")) {
        found.excluded.push_back(quoted());
        take(",");
      }
    } else {
      fail("what " + option + " means is not known");
    }
  }
};

}  // namespace

Grammar read_ebnf(std::string_view text) { return EbnfReader(text).all(); }

}  // namespace specguide
