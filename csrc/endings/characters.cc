#include "endings/characters.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace specguide {

namespace {

using Kind = Expression::Kind;

constexpr int kDeepest = 64;   // part of a part
constexpr int kMostNames = 8;  // behind each other

void add_ranges(const Expression& one, Ascii& found) {
  for (const CodeRange& range : one.ranges) {
    for (uint32_t code = range.low; code <= range.high && code < found.size(); ++code) found.set(code);
  }
}

bool add(const Expression& part, const Grammar& grammar, Ascii& used, int depth) {
  if (depth == 0) return false;
  const auto add_part = [&](const Expression& one) { return add(one, grammar, used, depth - 1); };
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
      return given != grammar.rules.end() && add_part(given->second);
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

bool has_other(const Expression& part, const Grammar& grammar, const Ascii& used, int depth) {
  const Expression& one = resolved(part, grammar);
  if (one.kind == Kind::kChoice && depth > 0) {
    return std::any_of(one.parts.begin(), one.parts.end(),
                       [&](const Expression& option) { return has_other(option, grammar, used, depth - 1); });
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
  return add(part, grammar, used, kDeepest);
}

bool has_other_character(const Expression& part, const Grammar& grammar, const Ascii& used) {
  return has_other(part, grammar, used, kDeepest);
}

}  // namespace specguide
