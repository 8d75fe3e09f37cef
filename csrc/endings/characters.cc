#include "endings/characters.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_set>

namespace specguide {

namespace {

using Kind = Expression::Kind;

constexpr int kDeepest = 64;   // nesting of parts
constexpr int kMostNames = 8;  // names that stand for names

void add_ranges(const Expression& one, Ascii& found) {
  for (const CodeRange& range : one.ranges) {
    for (uint32_t code = range.low; code <= range.high && code < found.size(); ++code) found.set(code);
  }
}

using Seen = std::unordered_set<const Expression*>;  // each is visited once, however many lead to it

bool add(const Expression& part, const Grammar& grammar, Ascii& used, Seen& seen, int depth) {
  if (depth == 0) return false;
  const auto add_part = [&](const Expression& one) { return add(one, grammar, used, seen, depth - 1); };
  switch (part.kind) {
    case Kind::kLiteral:
      for (const char sign : part.text) {
        const auto byte = static_cast<uint8_t>(sign);
        if (byte < used.size()) used.set(byte);
      }
      return true;
    case Kind::kClass:
      add_ranges(part, used);
      return true;
    case Kind::kRule: {
      const auto given = grammar.rules.find(part.text);
      if (given == grammar.rules.end()) return false;
      return !seen.insert(&given->second).second || add_part(given->second);
    }
    case Kind::kSequence:
    case Kind::kChoice:
    case Kind::kRepeat:
    case Kind::kFirst:
      return std::all_of(part.parts.begin(), part.parts.end(), add_part);
    case Kind::kBoth:
      return add_part(part.parts[0]);
    case Kind::kNot:
    case Kind::kFreeText:
      return false;
  }
  return false;
}

bool has_other(const Expression& part, const Grammar& grammar, const Ascii& used, Seen& seen, int depth) {
  const Expression& one = resolved(part, grammar);
  if (!seen.insert(&one).second || depth == 0) return false;
  if (one.kind == Kind::kChoice) {
    return std::any_of(one.parts.begin(), one.parts.end(),
                       [&](const Expression& option) { return has_other(option, grammar, used, seen, depth - 1); });
  }
  if (one.kind != Kind::kClass) return false;
  Ascii found;
  add_ranges(one, found);
  return (found & ~used).any();
}

}  // namespace

const Expression& resolved(const Expression& part, const Grammar& grammar) {
  const Expression* found = &part;
  for (int i = 0; found->kind == Kind::kRule && i < kMostNames; ++i) {
    const auto given = grammar.rules.find(found->text);
    if (given == grammar.rules.end()) break;
    found = &given->second;
  }
  return *found;
}

bool add_characters(const Expression& part, const Grammar& grammar, Ascii& used) {
  Seen seen;
  return add(part, grammar, used, seen, kDeepest);
}

bool has_other_character(const Expression& part, const Grammar& grammar, const Ascii& used) {
  Seen seen;
  return has_other(part, grammar, used, seen, kDeepest);
}

}  // namespace specguide
