// Owns what the readers of grammars share: they go through a text once, and say where they fail.
#pragma once

#include <cctype>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace specguide {

constexpr int kMostNestedParts = 400;  // nesting of the parts of an expression

class Scanner {
 public:
  // comment: the beginning of a comment, which lasts to the end of its line
  Scanner(std::string_view text, std::string_view comment) : text_(text), comment_(comment) {}

 protected:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument("the grammar, at byte " + std::to_string(at_) + ": " + what);
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const char sign = text_[at_];
      if (is_space(sign)) {
        ++at_;
      } else if (!comment_.empty() && sign == comment_[0] && is_here(comment_)) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  bool is_done() {
    skip_space();
    return at_ == text_.size();
  }

  // Whether a sign is here, or after whitespace.
  bool is_here(std::string_view sign) const {
    if (at_ >= text_.size() || text_[at_] != sign[0]) return false;  // most signs are not here
    return sign.size() == 1 || text_.substr(at_, sign.size()) == sign;
  }
  bool is_next(std::string_view sign) {
    skip_space();
    return is_here(sign);
  }

  bool take_here(std::string_view sign) {
    if (!is_here(sign)) return false;
    at_ += sign.size();
    return true;
  }
  bool take(std::string_view sign) {
    skip_space();
    return take_here(sign);
  }

  void expect(std::string_view sign) {
    if (!take(sign)) fail("expected " + std::string(sign));
  }

  char byte() {
    if (at_ == text_.size()) fail("it ends too early");
    return text_[at_++];
  }

  // The library's own functions would ask the locale each time.
  static bool is_space(char sign) { return sign == ' ' || (sign >= '\t' && sign <= '\r'); }
  static bool is_letter(char sign) { return (sign | 0x20) >= 'a' && (sign | 0x20) <= 'z'; }
  static bool is_digit(char sign) { return sign >= '0' && sign <= '9'; }
  static bool may_name(char sign) { return is_letter(sign) || is_digit(sign) || sign == '_'; }

  std::string name() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && (may_name(text_[at_]) || text_[at_] == '-' || text_[at_] == '.')) ++at_;
    if (begin == at_) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  int32_t number() {
    const bool is_negative = take("-");
    skip_space();
    int64_t value = 0;
    const size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_]) && value < INT32_MAX) {
      value = value * 10 + (text_[at_++] - '0');
    }
    if (begin == at_ || value > INT32_MAX) fail("expected a number");
    return static_cast<int32_t>(is_negative ? -1 : value);
  }

  // The bounds of a repetition behind its brace, including the closing brace.
  std::pair<int32_t, int32_t> bounds() {
    const int32_t least = is_next(",") ? 0 : number();
    int32_t most = least;
    if (take(",")) most = is_next("}") ? -1 : number();
    expect("}");
    return {least, most};
  }

  // How often the part before is repeated, from … to (-1: no limit), by a quantifier at this position.
  std::optional<std::pair<int32_t, int32_t>> quantifier() {
    if (take_here("*")) return {{0, -1}};
    if (take_here("+")) return {{1, -1}};
    if (take_here("?")) return {{0, 1}};
    if (take_here("{")) return bounds();
    return std::nullopt;
  }

  // A code point that is not escaped.
  uint32_t character() {
    const auto sign = static_cast<uint8_t>(byte());
    if (sign < 0x80) return sign;
    const int num_more = sign >= 0xF0 ? 3 : sign >= 0xE0 ? 2 : 1;
    uint32_t code = sign & (0x3Fu >> num_more);
    for (int i = 0; i < num_more; ++i) code = code << 6 | (static_cast<uint8_t>(byte()) & 0x3Fu);
    return code;
  }

  // The code point of an escape, behind its backslash; what is no letter or digit stands for itself.
  uint32_t escaped() {
    const char sign = byte();
    switch (sign) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'a': return '\a';
      case 'b': return '\b';
      case 'f': return '\f';
      case 'v': return '\v';
      case 'e': return 0x1B;
      case '0': return 0;
      case 'x': return hexadecimal(2);
      case 'u': return hexadecimal(4);
      case 'U': return hexadecimal(8);
      default:
        if (is_letter(sign) || is_digit(sign)) fail("an escape that is not known");
        --at_;
        return character();
    }
  }

  std::string_view text_;
  size_t at_ = 0;

 private:
  uint32_t hexadecimal(size_t num_digits) {
    const bool is_braced = take_here("{");
    uint64_t code = 0;
    for (size_t i = 0; is_braced ? !take_here("}") : i < num_digits; ++i) {
      const char sign = byte();
      if (!std::isxdigit(static_cast<unsigned char>(sign)) || i >= 8) fail("expected a hexadecimal digit");
      code = code * 16 + static_cast<uint64_t>(is_digit(sign) ? sign - '0' : std::tolower(sign) - 'a' + 10);
    }
    if (code > 0x10FFFF) fail("no such code point");
    return static_cast<uint32_t>(code);
  }

  std::string_view comment_;
};

}  // namespace specguide
