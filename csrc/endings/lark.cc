#include "endings/lark.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "endings/lark_terminals.h"
#include "endings/regex.h"
#include "endings/scanner.h"
#include "endings/utf8_ranges.h"

namespace specguide {

namespace {

using Kind = Expression::Kind;

constexpr const char* kSpace = "%ignore";  // no rule of a grammar has such a name

bool is_terminal(const std::string& name) {
  for (const char sign : name) {
    if (std::isalpha(static_cast<unsigned char>(sign))) return std::isupper(static_cast<unsigned char>(sign)) != 0;
  }
  return false;
}

// The rules of one block, and of those within it. Names of an inner block have its number before them.
class Reader : private Scanner {
 public:
  explicit Reader(std::string_view text) : Scanner(text, "//") {}

  Grammar all() {
    Grammar found;
    rules_ = &found.rules;
    found.root = block(/*is_inner=*/false);
    return found;
  }

 private:
  struct Block {
    std::string prefix;
    bool has_space = false;   // by the rule kSpace
    bool is_rule = true;  // the expression at hand is a rule's, not a terminal's
  };

  // To its end. Returns the name of its whole text.
  std::string block(bool is_inner) {
    Block outer = std::exchange(block_, Block{std::to_string(num_blocks_++) + "#"});
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

  // What is ignored must be known before the rules are read: each terminal may stand behind it. It is one rule.
  void read_ignored() {
    const size_t begin = at_;
    int depth = 0;
    std::vector<Expression> ignored;
    int32_t most_ignored = -1;  // behind each other
    while (at_ < text_.size() && depth >= 0) {
      skip_space();
      if (depth == 0 && take_here("%ignore")) {
        block_.is_rule = false;
        ignored.push_back(choice(0));
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
      put(block_.prefix + kSpace, Expression::repeat(Expression::of(Kind::kChoice, std::move(ignored)), 0, most_ignored));
    }
  }

  // Over a string, a regular expression, or one sign.
  void skip_part(int& depth) {
    if (at_ == text_.size()) return;
    const char sign = byte();
    if (sign == '"' || sign == '/') {
      while (at_ < text_.size() && text_[at_] != sign && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
      at_ = std::min(at_ + 1, text_.size());
    }
    if (sign == '{') ++depth;
    if (sign == '}') --depth;
  }

  Expression space() const {
    return block_.has_space ? Expression::rule(block_.prefix + kSpace) : Expression{};
  }

  void statement() {
    if (take("%ignore")) {
      block_.is_rule = false;
      choice(0);
    } else if (take("%llguidance")) {
      skip_braces();
    } else if (take("%import")) {
      import();
    } else {
      rule();
    }
  }

  void skip_braces() {
    expect("{");
    for (int depth = 1; depth > 0 && at_ < text_.size();) skip_part(depth);
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
    Expression body = choice(0);
    if (head.is_lazy) body = behind_space(Expression::of_one(Kind::kFirst, std::move(body)));
    put(block_.prefix + head.name, std::move(body));
  }

  struct Head {
    std::string name{};
    bool is_lazy = false;
  };

  // Name, attributes and priority before a colon.
  Head head() {
    Head found;
    found.name = rule_name();
    if (take("[")) {
      while (!take("]")) {
        const std::string attribute = name();
        if (attribute == "lazy") found.is_lazy = true;
        else if (attribute != "capture") fail("what " + attribute + " does to a rule is not known");
        if (take("=")) quoted();
        take(",");
      }
    }
    if (take(".")) number();
    expect(":");
    return found;
  }

  std::string rule_name() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && may_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Whether a statement begins here. Signs are looked at, and nothing is read.
  bool begins_statement() {
    if (is_next("%ignore") || is_next("%llguidance") || is_next("%import")) return true;
    const size_t begin = at_;
    while (take("?") || take("!")) {
    }
    bool is_head = !rule_name().empty();
    if (is_head && take("[")) {
      while (at_ < text_.size() && text_[at_] != ']' && text_[at_] != '\n') ++at_;
      is_head = take("]");
    }
    if (is_head && take(".")) {
      take("-");
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    }
    is_head = is_head && is_next(":") && !is_here("::");
    at_ = begin;
    return is_head;
  }

  Expression choice(int depth) {
    if (depth > kMostNested) fail("it nests too deep");
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
    for (const char* sign : {"|", "&", ")", "]", "}"}) {
      if (is_next(sign)) return true;
    }
    return is_done() || begins_statement();
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
    while (true) {
      std::pair<int32_t, int32_t> times;
      if (take_here("*")) {
        times = {0, -1};
      } else if (take_here("+")) {
        times = {1, -1};
      } else if (take_here("?")) {
        times = {0, 1};
      } else if (take_here("{")) {
        times = bounds();
      } else {
        return item;
      }
      item = Expression::repeat(std::move(item), times.first, times.second);
    }
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
      return Expression::rule(block(/*is_inner=*/true));
    }
    const std::string name = rule_name();
    if (name.empty()) fail("what " + std::string(text_.substr(at_, 8)) + " means is not known");
    Expression found = Expression::rule(block_.prefix + name);
    return is_terminal(name) ? behind_space(std::move(found)) : found;
  }

  Expression behind_space(Expression terminal) const {
    if (!block_.is_rule || !block_.has_space) return terminal;
    return Expression::sequence(space(), std::move(terminal));
  }

  Expression string_term() {
    const std::string text = quoted();
    if (take_here("..")) {
      const std::string last = quoted();
      if (text.size() != 1 || last.size() != 1) fail("a range that is not of two ASCII characters");
      return Expression::one_of({{static_cast<uint8_t>(text[0]), static_cast<uint8_t>(last[0])}});
    }
    if (!take_here("i")) return Expression::literal(text);
    std::string pattern;
    for (const char sign : text) {
      if (std::isalnum(static_cast<unsigned char>(sign)) == 0 && static_cast<uint8_t>(sign) < 0x80) pattern += '\\';
      pattern += sign;
    }
    return regex_expression(pattern, "i");
  }

  std::string quoted() {
    expect("\"");
    std::string found;
    while (!take_here("\"")) {
      uint32_t code = take_here("\\") ? escaped() : character();
      if (code >= 0xD800 && code < 0xDC00 && take_here("\\u")) {
        --at_;
        code = 0x10000 + ((code - 0xD800) << 10) + (escaped() - 0xDC00);
      }
      append_utf8(found, code);
    }
    return found;
  }

  Expression regex_term() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '/') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) fail("a regular expression that does not end");
    const std::string_view pattern = text_.substr(begin, at_ - begin);
    ++at_;
    const size_t flags = at_;
    while (at_ < text_.size() && std::string_view("imslux").find(text_[at_]) != std::string_view::npos) ++at_;
    return regex_expression(pattern, text_.substr(flags, at_ - flags));
  }

  std::unordered_map<std::string, Expression>* rules_ = nullptr;
  Block block_{};
  int num_blocks_ = 0;
};

}  // namespace

Grammar read_lark(std::string_view text) { return Reader(text).all(); }

}  // namespace specguide
