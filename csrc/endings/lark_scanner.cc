#include "endings/lark_scanner.h"

#include <algorithm>
#include <cctype>

#include "endings/regex.h"
#include "utf8.h"

namespace specguide {

namespace {

// Whether a sign that is skipped may begin something longer than a sign.
bool matters(char sign) { return sign == '"' || sign == '/' || sign == '{' || sign == '}' || sign == '%'; }

}  // namespace

void LarkScanner::skip_part(int& depth) {
  if (at_ == text_.size()) return;
  const char sign = byte();
  if (sign == '"' || sign == '/') {
    while (at_ < text_.size() && text_[at_] != sign && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
  }
  if (sign == '{') ++depth;
  if (sign == '}') --depth;
  while (at_ < text_.size() && !matters(text_[at_])) ++at_;
}

void LarkScanner::skip_braces() {
  expect("{");
  for (int depth = 1; depth > 0 && at_ < text_.size();) skip_part(depth);
}

LarkScanner::Head LarkScanner::head() {
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

std::string LarkScanner::rule_name() {
  skip_space();
  const size_t begin = at_;
  while (at_ < text_.size() && may_name(text_[at_])) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

bool LarkScanner::begins_statement() {
  skip_space();
  const char sign = at_ < text_.size() ? text_[at_] : '\0';
  if (sign == '%') return is_here("%ignore") || is_here("%llguidance") || is_here("%import");
  if (!may_name(sign) && sign != '?' && sign != '!') return false;
  const size_t begin = at_;
  while (take("?") || take("!")) {
  }
  skip_space();
  const size_t name = at_;
  while (at_ < text_.size() && may_name(text_[at_])) ++at_;
  bool is_head = at_ > name;
  if (is_head && take("[")) {
    while (at_ < text_.size() && text_[at_] != ']' && text_[at_] != '\n') ++at_;
    is_head = take("]");
  }
  if (is_head && take(".")) {
    take("-");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }
  is_head = is_head && is_next(":") && !is_here("::");
  at_ = begin;
  return is_head;
}

Expression LarkScanner::string_term() {
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

std::string LarkScanner::quoted() {
  expect("\"");
  std::string found;
  while (!take_here("\"")) {
    uint32_t code = take_here("\\") ? escaped() : character();
    if (code >= 0xD800 && code < 0xDC00 && take_here("\\u")) {
      --at_;
      const uint32_t low = escaped();
      if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(found, code);
  }
  return found;
}

Expression LarkScanner::regex_term() {
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != '/') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size()) fail("a regular expression that does not end");
  const std::string_view pattern = text_.substr(begin, at_ - begin);
  ++at_;
  const size_t flags = at_;
  while (at_ < text_.size() && std::string_view("imslux").find(text_[at_]) != std::string_view::npos) ++at_;
  return regex_expression(pattern, text_.substr(flags, at_ - flags));
}

}  // namespace specguide
