#include "endings/lark.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "endings/lark_scanner.h"
#include "endings/lark_terminals.h"
#include "endings/regex.h"

namespace specguide {

namespace {

using Kind = Expression::Kind;

constexpr const char* kSpace = "%ignore";  // no rule of a grammar has this name

bool is_terminal(const std::string& name) {
  for (const char sign : name) {
    if (std::isalpha(static_cast<unsigned char>(sign))) return std::isupper(static_cast<unsigned char>(sign)) != 0;
  }
  return false;
}

// The rules of one block, and of nested blocks. Names of a nested block have its number as prefix.
class LarkReader : private LarkScanner {
 public:
  explicit LarkReader(std::string_view text) : LarkScanner(text) {}

  Grammar all() {
    Grammar found;
    rules_ = &found.rules;
    found.root = block(/*is_inner=*/false, 0);
    return found;
  }

 private:
  struct Block {
    std::string prefix;
    bool has_space = false;  // in the rule kSpace
    bool is_rule = true;     // the present expression is a rule's, not a terminal's
    int depth = 0;           // of its expressions inside those of other blocks
  };

  // Reads a grammar to its end. Returns the name of the rule for its whole text.
  std::string block(bool is_inner, int depth) {
    Block outer = std::exchange(block_, Block{std::to_string(num_blocks_++) + "#"});
    block_.depth = depth;
    read_ignored();
    while (!is_done() && !is_next("}")) statement();
    if (is_inner) expect("}");
    const std::string whole = block_.prefix;
    Expression start = Expression::rule(block_.prefix + "start");
    put(whole, Expression::sequence(std::move(start), space()));
    block_ = std::move(outer);
    return whole;
  }

  void put(const std::string& name, Expression expression) { rules_->insert_or_assign(name, std::move(expression)); }

  // Reads what is ignored, before the rules are read, because every terminal may be followed by it. It becomes one
  // rule.
  void read_ignored() {
    const size_t begin = at_;
    int depth = 0;
    std::vector<Expression> ignored;
    int32_t most_ignored = -1;  // in a row
    while (at_ < text_.size() && depth >= 0) {
      skip_space();
      if (depth == 0 && take_here("%ignore")) {
        block_.is_rule = false;
        ignored.push_back(choice(block_.depth));
        continue;
      }
      if (depth == 0 && take_here("%llguidance")) {
        const size_t options = at_;
        skip_braces();
        if (text_.substr(options, at_ - options).find("\"ignore_once\": true") != std::string_view::npos) {
          most_ignored = 1;
        }
        continue;
      }
      skip_part(depth);
    }
    at_ = begin;
    block_.has_space = !ignored.empty();
    if (block_.has_space) {
      put(block_.prefix + kSpace,
          Expression::repeat(Expression::of(Kind::kChoice, std::move(ignored)), 0, most_ignored));
    }
  }

  Expression space() const {
    return block_.has_space ? Expression::rule(block_.prefix + kSpace) : Expression{};
  }

  void statement() {
    if (take("%ignore")) {
      block_.is_rule = false;
      choice(block_.depth);
    } else if (take("%llguidance")) {
      skip_braces();
    } else if (take("%import")) {
      import();
    } else {
      rule();
    }
  }

  void import() {
    std::string path = name();
    if (path.rfind("common", 0) != 0) fail("what " + path + " holds is not known");
    if (take("(")) {
      while (!take(")")) {
        import_terminal(name());
        take(",");
      }
      return;
    }
    const std::string terminal = path.substr(std::min(path.size(), path.find('.') + 1));
    import_terminal(terminal, take("->") ? name() : terminal);
  }

  void import_terminal(const std::string& terminal) { import_terminal(terminal, terminal); }
  void import_terminal(const std::string& terminal, const std::string& as) {
    const auto found = common_terminals().find(terminal);
    if (found == common_terminals().end()) fail("what " + terminal + " is, is not known");
    put(block_.prefix + as, regex_expression(found->second, ""));
  }

  void rule() {
    while (take("?") || take("!")) {
    }
    const Head head = this->head();
    if (head.name.empty()) fail("expected a rule");
    block_.is_rule = !is_terminal(head.name) && !head.is_lazy;
    Expression body = choice(block_.depth);
    if (head.is_lazy) body = behind_space(Expression::of_one(Kind::kFirst, std::move(body)));
    put(block_.prefix + head.name, std::move(body));
  }

  Expression choice(int depth) {
    if (depth > kMostNestedParts) fail("it nests too deep");
    std::vector<Expression> parts;
    do {
      parts.push_back(both(depth));
    } while (take("|"));
    return Expression::of(Kind::kChoice, std::move(parts));
  }

  Expression both(int depth) {
    std::vector<Expression> parts;
    do {
      parts.push_back(sequence(depth));
    } while (take("&"));
    return Expression::of(Kind::kBoth, std::move(parts));
  }

  bool ends_sequence() {
    return is_done() || std::string_view("|&)]}").find(text_[at_]) != std::string_view::npos || begins_statement();
  }

  Expression sequence(int depth) {
    std::vector<Expression> parts;
    while (!ends_sequence()) {
      if (take("->")) {
        name();
        continue;
      }
      if (take("~")) {
        parts.push_back(Expression::of_one(Kind::kNot, quantified(term(depth))));
        continue;
      }
      parts.push_back(quantified(term(depth)));
    }
    return Expression::of(Kind::kSequence, std::move(parts));
  }

  Expression quantified(Expression item) {
    for (int num = 0; const auto times = quantifier(); ++num) {
      if (num > kMostNestedParts) fail("it nests too deep");
      item = Expression::repeat(std::move(item), times->first, times->second);
    }
    return item;
  }

  Expression term(int depth) {
    if (take("(")) {
      Expression inner = choice(depth + 1);
      expect(")");
      return inner;
    }
    if (take("[")) {
      Expression inner = choice(depth + 1);
      expect("]");
      return Expression::repeat(std::move(inner), 0, 1);
    }
    if (is_next("\"")) return behind_space(string_term());
    if (take("/")) return behind_space(regex_term());
    if (take("%lark")) {
      expect("{");
      return Expression::rule(block(/*is_inner=*/true, depth + 1));
    }
    if (take("<[")) return behind_space(special_term());
    const std::string name = rule_name();
    if (name.empty()) fail("what " + std::string(text_.substr(at_, 8)) + " means is not known");
    Expression found = Expression::rule(block_.prefix + name);
    return is_terminal(name) ? behind_space(std::move(found)) : found;
  }

  // One special token by its id, spelled as in the vocabulary of a grammar's endings.
  Expression special_term() {
    const std::string id = std::to_string(number());
    if (!take_here("]>")) fail("a set of special tokens");
    return Expression::literal("\xff" + id + "\xff");
  }

  Expression behind_space(Expression terminal) const {
    if (!block_.is_rule || !block_.has_space) return terminal;
    return Expression::sequence(space(), std::move(terminal));
  }

  std::unordered_map<std::string, Expression>* rules_ = nullptr;
  Block block_{};
  int num_blocks_ = 0;
};

}  // namespace

Grammar read_lark(std::string_view text) { return LarkReader(text).all(); }

}  // namespace specguide
