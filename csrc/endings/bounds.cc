#include "endings/bounds.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "endings/characters.h"
#include "endings/deeper.h"
#include "endings/network.h"
#include "endings/product_bounds.h"

namespace specguide {

namespace {

using Kind = Expression::Kind;

constexpr int64_t kUnknown = Bounds::kUnknown;
constexpr int64_t kLongestCharacter = 4;  // bytes

int64_t num_bytes(uint32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

bool are_same(const std::vector<CodeRange>& some, const std::vector<CodeRange>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const CodeRange& a, const CodeRange& b) { return a.low == b.low && a.high == b.high; });
}

class Finder {
 public:
  Finder(const Grammar& grammar, ProductBounds& of_products) : grammar_(grammar), of_products_(of_products) {}

  Bounds all() {
    Bounds found;
    rule(grammar_.root);
    find_rest_of_least();
    found.least = rules_.at(grammar_.root).least;
    for (size_t i = 0; i < order_.size(); ++i) {
      Rule& one = *order_[i];
      add_inside(*one.expression, 0, one);
    }
    find_missing();
    found.missing = rules_.at(grammar_.root).missing;
    return found;
  }

 private:
  struct Rule {
    const Expression* expression = nullptr;
    int64_t least = kUnknown, longest = kUnknown;  // bytes of its texts
    int64_t missing = 0;                           // inside it, to its end, without what `calls` add
    std::vector<std::pair<const Rule*, int64_t>> calls{};  // and the bytes behind each
  };

  // A rule that is asked for while it is computed is not known yet.
  const Rule& rule(const std::string& name) {
    const auto [found, is_new] = rules_.try_emplace(name);
    Rule& one = found->second;
    if (!is_new) return one;
    const auto given = grammar_.rules.find(name);
    one.expression = given == grammar_.rules.end() ? &nothing_ : &given->second;
    const int64_t shortest = least(*one.expression);
    const int64_t most = longest(*one.expression);
    one.least = shortest;
    one.longest = most;
    order_.push_back(&one);
    return one;
  }

  // Finds `least` of the rules that were asked for while they were computed.
  void find_rest_of_least() {
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (size_t i = 0; i < order_.size(); ++i) {
        Rule& one = *order_[i];
        if (one.least < kUnknown) continue;
        one.least = least(*one.expression);
        has_changed |= one.least < kUnknown;
      }
    }
  }

  int64_t least(const Expression& part) {
    const Deeper deeper(depth_);
    switch (part.kind) {
      case Kind::kLiteral:
        return static_cast<int64_t>(part.text.size());
      case Kind::kClass: {
        int64_t best = kUnknown;
        for (const CodeRange& range : part.ranges) best = std::min(best, num_bytes(range.low));
        return best;
      }
      case Kind::kRule:
        return rule(part.text).least;
      case Kind::kSequence: {
        int64_t all = 0;
        for (const Expression& one : part.parts) all = sum(all, least(one));
        return all;
      }
      case Kind::kChoice: {
        int64_t best = kUnknown;
        for (const Expression& one : part.parts) best = std::min(best, least(one));
        return best;
      }
      case Kind::kRepeat: {
        const int64_t once = least(part.parts[0]);
        return times(part.least, once);
      }
      case Kind::kFirst:
        return least(part.parts[0]);
      case Kind::kBoth:
        return least_of_both(part);
      case Kind::kNot:
      case Kind::kFreeText:
        return kUnknown;
    }
    return kUnknown;
  }

  int64_t longest(const Expression& part) {
    const Deeper deeper(depth_);
    switch (part.kind) {
      case Kind::kLiteral:
        return static_cast<int64_t>(part.text.size());
      case Kind::kClass:
        return kLongestCharacter;
      case Kind::kRule:
        return rule(part.text).longest;
      case Kind::kSequence: {
        int64_t all = 0;
        for (const Expression& one : part.parts) all = sum(all, longest(one));
        return all;
      }
      case Kind::kChoice: {
        int64_t most = 0;
        for (const Expression& one : part.parts) most = std::max(most, longest(one));
        return most;
      }
      case Kind::kRepeat: {
        const int64_t once = longest(part.parts[0]);
        return part.most < 0 && once > 0 ? kUnknown : times(part.most, once);
      }
      case Kind::kFirst:
        return longest(part.parts[0]);
      case Kind::kBoth: {
        int64_t most = kUnknown;
        for (const Expression& one : part.parts) most = std::min(most, longest(one));
        return most;
      }
      case Kind::kNot:
      case Kind::kFreeText:
        return kUnknown;
    }
    return kUnknown;
  }

  // The most that may be missing from inside a part to the end of its rule, with `behind` bytes after the part.
  void add_inside(const Expression& part, int64_t behind, Rule& of) {
    switch (part.kind) {
      case Kind::kRule:
        of.calls.emplace_back(&rule(part.text), behind);
        return;
      case Kind::kSequence:
        for (auto one = part.parts.rbegin(); one != part.parts.rend(); ++one) {
          add_inside(*one, behind, of);
          behind = sum(behind, least(*one));
        }
        return;
      case Kind::kChoice:
        for (const Expression& one : part.parts) add_inside(one, behind, of);
        return;
      case Kind::kRepeat:
        if (part.most == 0) return;
        add_inside(part.parts[0], sum(behind, times(std::max(0, part.least - 1), least(part.parts[0]))), of);
        return;
      case Kind::kFirst:  // what ends a text of the part ends it, unless the text has ended before
        add_inside(part.parts[0], behind, of);
        return;
      case Kind::kBoth:
        add_inside_both(part, behind, of);
        return;
      case Kind::kLiteral:
      case Kind::kClass:
      case Kind::kNot:
      case Kind::kFreeText:
        of.missing = std::max(of.missing, sum(longest(part), behind));
    }
  }

  int64_t least_of_both(const Expression& part) {
    if (is_text_without(part)) return 0;
    const int64_t least_beyond = sum(least(part.parts[0]), beyond(part));
    return least_beyond < kUnknown ? least_beyond : of_products_.least(part);
  }

  void add_inside_both(const Expression& part, int64_t behind, Rule& of) {
    int64_t most = is_text_without(part) ? kLongestCharacter : longest(part);
    const int64_t more = most < kUnknown ? kUnknown : beyond(part);
    if (more < kUnknown) return add_inside(part.parts[0], sum(behind, more), of);
    if (most >= kUnknown) most = of_products_.missing(part);
    const bool has_first = part.parts[0].kind != Kind::kNot;
    if (most == Bounds::kTooLarge && has_first) return add_inside(part.parts[0], behind, of);
    of.missing = std::max(of.missing, sum(most, behind));
  }

  // How many more bytes make a text with unlimited characters differ from all texts that are excluded: it is then
  // longer than these, or has a character that they never have.
  int64_t beyond(const Expression& both) {
    const Expression& first = resolved(both.parts[0], grammar_);
    if (first.kind != Kind::kSequence) return kUnknown;
    const Expression* loop = nullptr;
    for (const Expression& one : first.parts) {
      const bool is_loop = one.kind == Kind::kRepeat && one.most < 0 && loop == nullptr;
      if (is_loop) loop = &one;
      if (!is_loop && longest(one) >= kUnknown) return kUnknown;
    }
    if (loop == nullptr) return kUnknown;
    int64_t step = least(loop->parts[0]), most = 0;
    Ascii used;
    for (size_t i = 1; i < both.parts.size(); ++i) {
      if (both.parts[i].kind != Kind::kNot) return kUnknown;
      const Expression& left_out = both.parts[i].parts[0];
      const int64_t one = longest(left_out);
      if (one < kUnknown) {
        most = std::max(most, one);
      } else {
        if (!add_characters(left_out, grammar_, used)) return kUnknown;
        step = 0;
      }
    }
    if (step == 0 && !has_other_character(loop->parts[0], grammar_, used)) return kUnknown;
    return times(sum(most, 1), std::max<int64_t>(1, step));
  }

  // Any text of certain characters that does not contain another text: it may end wherever it may continue.
  bool is_text_without(const Expression& both) {
    if (both.parts.size() != 2 || both.parts[1].kind != Kind::kNot) return false;
    const Expression& any = resolved(both.parts[0], grammar_);
    const Expression& holding = resolved(both.parts[1].parts[0], grammar_);
    if (!is_any_text(any) || holding.kind != Kind::kSequence || holding.parts.size() < 3) return false;
    const bool is_held = any_text_is(any, holding.parts.front()) && any_text_is(any, holding.parts.back());
    int64_t held = 0;
    for (size_t i = 1; i + 1 < holding.parts.size(); ++i) held = sum(held, least(holding.parts[i]));
    return is_held && held > 0;
  }

  static bool is_any_text(const Expression& part) {
    return part.kind == Kind::kRepeat && part.least == 0 && part.most < 0 && part.parts[0].kind == Kind::kClass;
  }
  static bool any_text_is(const Expression& any, const Expression& other) {
    return is_any_text(other) && are_same(any.parts[0].ranges, other.parts[0].ranges);
  }

  // With each round, rules that call each other may be entered at least one level deeper.
  void find_missing() {
    bool has_changed = true;
    for (int round = 0; round < Network::kMostEntered && has_changed; ++round) {
      has_changed = false;
      for (Rule* one : order_) {
        for (const auto& [callee, behind] : one->calls) {
          const int64_t most = sum(callee->missing, behind);
          if (most <= one->missing) continue;
          one->missing = most;
          has_changed = true;
        }
      }
    }
  }

  const Grammar& grammar_;
  const Expression nothing_ = Expression::of(Kind::kChoice, {});
  ProductBounds& of_products_;
  std::unordered_map<std::string, Rule> rules_;  // the rules that are reached
  std::vector<Rule*> order_;                     // each after the rules that it calls
  int depth_ = 0;                                // of nested parts, including those of rules
};

}  // namespace

Bounds find_bounds(const Grammar& grammar, ProductBounds& of_products) {
  try {
    return Finder(grammar, of_products).all();
  } catch (const std::invalid_argument&) {  // its rules are nested too deeply
    return {};
  }
}

}  // namespace specguide
