// Owns the canonical text of JSON values; see json_canonical.h.
#include "json_canonical.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string_view>

#include "json_text.h"
#include "utf8.h"

namespace specguide {
namespace {

constexpr size_t kMaxExponentDigits = 15;

// Digits without leading and trailing zeros, and a power of ten.
std::string canonical_number(std::string_view text) {
  const bool is_negative = text[0] == '-';
  std::string digits;
  int64_t exponent = 0;
  bool is_behind_point = false;
  size_t at = is_negative ? 1 : 0;
  for (; at < text.size() && (is_digit(text[at]) || text[at] == '.'); ++at) {
    if (text[at] == '.') {
      is_behind_point = true;
      continue;
    }
    digits += text[at];
    if (is_behind_point) --exponent;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return "0";
  if (at < text.size()) {
    const std::string power(text.substr(at + 1));
    if (power.size() > kMaxExponentDigits) throw std::runtime_error("the exponent of a number has too many digits");
    exponent += std::stoll(power);
  }
  const size_t num_kept = digits.find_last_not_of('0') + 1;
  exponent += static_cast<int64_t>(digits.size() - num_kept);
  return (is_negative ? "-" : "") + digits.substr(0, num_kept) + "e" + std::to_string(exponent);
}

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  std::string value(int depth) {
    if (depth > kMostNestedValues) throw std::runtime_error("an item of an array of distinct items is nested too deep");
    skip_spaces();
    switch (peek()) {
      case '"':
        return string();
      case '[':
        return array(depth);
      case '{':
        return object(depth);
      default:
        return scalar();
    }
  }

 private:
  char peek() const {
    if (at_ >= text_.size()) throw std::runtime_error("a JSON value is cut off");
    return text_[at_];
  }

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  // Whether the next character is this one; if so, moves past it.
  bool takes(char expected) {
    skip_spaces();
    if (peek() != expected) return false;
    ++at_;
    return true;
  }

  std::string scalar() {
    const size_t start = at_;
    while (at_ < text_.size() && !ends_scalar(text_[at_])) ++at_;
    const std::string_view found = text_.substr(start, at_ - start);
    const bool is_number = !found.empty() && (found[0] == '-' || is_digit(found[0]));
    return is_number ? canonical_number(found) : std::string(found);
  }

  std::string array(int depth) {
    std::string out = "[";
    ++at_;
    if (takes(']')) return out + "]";
    do {
      out += value(depth + 1) + ",";
    } while (takes(','));
    ++at_;
    return out + "]";
  }

  std::string object(int depth) {
    std::map<std::string, std::string> found;
    ++at_;
    if (takes('}')) return "{}";
    do {
      skip_spaces();
      std::string name = string();
      takes(':');
      found[std::move(name)] = value(depth + 1);
    } while (takes(','));
    ++at_;
    std::string out = "{";
    for (const auto& [name, child] : found) out += name + ":" + child + ",";
    return out + "}";
  }

  std::string string() {
    std::string out = "\"";
    for (++at_; peek() != '"'; ++at_) {
      if (peek() == '\\') {
        ++at_;
        append_escaped(out, peek());
      } else {
        out += peek();
      }
    }
    ++at_;
    return out + "\"";
  }

  // Appends what an escape stands for; the escape's first character after the backslash has been read.
  void append_escaped(std::string& out, char kind) {
    constexpr std::string_view kNamed = "bfnrt", kMeant = "\b\f\n\r\t";
    const size_t named = kNamed.find(kind);
    const char meant = named == kNamed.npos ? kind : kMeant[named];
    const uint32_t code = kind == 'u' ? code_point() : static_cast<uint8_t>(meant);
    if (code == '"' || code == '\\') out += '\\';
    append_utf8(out, code);
  }

  // The code point of a \uXXXX, or of two that form a surrogate pair.
  uint32_t code_point() {
    const uint32_t high = code_unit();
    const bool may_be_pair = high >= 0xD800 && high < 0xDC00 && text_.compare(at_ + 1, 2, "\\u") == 0;
    if (!may_be_pair) return high;
    const size_t before = at_;
    at_ += 2;
    const uint32_t low = code_unit();
    if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    at_ = before;
    return high;
  }

  // The code unit of the four digits behind `at_`, which then points to the last of them.
  uint32_t code_unit() {
    if (at_ + 4 >= text_.size()) throw std::runtime_error("a JSON value is cut off");
    const uint32_t unit = static_cast<uint32_t>(std::stoul(std::string(text_.substr(at_ + 1, 4)), nullptr, 16));
    at_ += 4;
    return unit;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string canonical_json(std::string_view json) { return JsonReader(json).value(0); }

}  // namespace specguide
