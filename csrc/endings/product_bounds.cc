#include "endings/product_bounds.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "endings/deeper.h"

namespace specguide {

namespace {

constexpr size_t kLongestText = 1 << 14;  // of a product that is cached
constexpr size_t kMostKept = 1'000;

// Writes a product, with its rules, as a text that serves as cache key; nothing if it is too large.
class Text {
 public:
  explicit Text(const Grammar& grammar) : grammar_(grammar) {}

  std::optional<std::string> of(const Expression& expression) {
    text_.clear();
    try {
      if (write(expression)) return text_;
    } catch (const std::invalid_argument&) {  // its parts are nested too deeply
    }
    return std::nullopt;
  }

 private:
  bool write(const Expression& one) {
    if (text_.size() > kLongestText || one.kind == Expression::Kind::kFreeText) return false;
    const Deeper deeper(depth_);
    if (one.kind == Expression::Kind::kRule) {
      const auto found = grammar_.rules.find(one.text);
      text_ += '<';  // limits rules that contain themselves
      return found != grammar_.rules.end() && write(found->second);
    }
    text_ += std::to_string(static_cast<int>(one.kind)) + ' ' + std::to_string(one.text.size()) + ' ' + one.text;
    for (const CodeRange& range : one.ranges) {
      text_ += std::to_string(range.low) + '-' + std::to_string(range.high) + ',';
    }
    if (one.kind == Expression::Kind::kRepeat) text_ += std::to_string(one.least) + ':' + std::to_string(one.most);
    text_ += '(';
    const bool is_whole =
        std::all_of(one.parts.begin(), one.parts.end(), [this](const auto& part) { return write(part); });
    text_ += ')';
    return is_whole;
  }

  const Grammar& grammar_;
  std::string text_;
  int depth_ = 0;
};

// The bounds that this process has found so far, by these texts.
struct Kept {
  std::mutex mutex;
  std::unordered_map<std::string, int64_t> bounds{};  // in bytes
};

Kept& kept() {
  static auto* one = new Kept;  // never destroyed: threads may outlive static objects
  return *one;
}

}  // namespace

const Product& ProductBounds::made(const Expression& product) {
  const auto found = made_.find(&product);
  return found != made_.end() ? found->second : made_.emplace(&product, products_.of(product)).first->second;
}

int64_t ProductBounds::kept_or_found(const Expression& product, Find find, char mark) {
  std::optional<std::string> text = Text(grammar_).of(product);
  if (text) {
    *text += {mark, is_exact_ ? '=' : '~'};
    const std::lock_guard lock(kept().mutex);
    const auto found = kept().bounds.find(*text);
    if (found != kept().bounds.end()) return found->second;
  }
  int64_t bound = Bounds::kUnknown;
  try {
    bound = find(made(product), num_states_left_);
  } catch (const std::invalid_argument&) {  // its parts are too large
  }
  if (text && bound != Bounds::kUnknown) {
    const std::lock_guard lock(kept().mutex);
    if (kept().bounds.size() >= kMostKept) kept().bounds.clear();
    kept().bounds.emplace(std::move(*text), bound);
  }
  return bound;
}

}  // namespace specguide
