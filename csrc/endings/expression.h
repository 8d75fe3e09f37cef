// Owns the right-hand side of a grammar's rule, independent of the language it was written in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace specguide {

// Code points `low` … `high`.
struct CodeRange {
  uint32_t low, high;
};

// Free text up to one of some triggers, each of which is followed by a rule.
//
// triggers: texts, and the names of the rules behind them
// goes_on:  whether free text follows again
// excluded: texts that the free text does not contain
struct FreeText {
  std::vector<std::pair<std::string, std::string>> triggers;
  std::vector<std::string> excluded;
  bool goes_on = true;
};

struct Expression {
  enum class Kind {
    kLiteral,   // text
    kClass,     // one character of some ranges
    kRule,      // text: its name
    kSequence,
    kChoice,
    kRepeat,    // parts[0], `least` to `most` times; -1: any number
    kBoth,      // texts that all parts allow
    kNot,       // texts that parts[0] does not allow
    kFirst,     // texts of parts[0] that do not begin with another one
    kFreeText,
  };

  Kind kind = Kind::kSequence;  // without parts: the empty text
  std::string text{};
  std::vector<CodeRange> ranges{};
  std::vector<Expression> parts{};
  int32_t least = 1, most = 1;
  std::shared_ptr<const FreeText> free_text{};

  static Expression literal(std::string text) {
    Expression found;
    found.kind = Kind::kLiteral;
    found.text = std::move(text);
    return found;
  }
  static Expression one_of(std::vector<CodeRange> ranges) {
    Expression found;
    found.kind = Kind::kClass;
    found.ranges = std::move(ranges);
    return found;
  }
  static Expression rule(std::string name) {
    Expression found;
    found.kind = Kind::kRule;
    found.text = std::move(name);
    return found;
  }
  static Expression repeat(Expression item, int32_t least, int32_t most) {
    Expression found = of_one(Kind::kRepeat, std::move(item));
    found.least = least;
    found.most = most;
    return found;
  }
  static Expression of_one(Kind kind, Expression part) {
    Expression found;
    found.kind = kind;
    found.parts.push_back(std::move(part));
    return found;
  }
  static Expression sequence(Expression first, Expression then) {
    Expression found;
    found.parts.reserve(2);
    found.parts.push_back(std::move(first));
    found.parts.push_back(std::move(then));
    return found;
  }
  // A single part of a sequence, of a choice or of kBoth stands for itself.
  static Expression of(Kind kind, std::vector<Expression> parts) {
    const bool is_list = kind == Kind::kSequence || kind == Kind::kChoice || kind == Kind::kBoth;
    if (is_list && parts.size() == 1) {
      Expression only = std::move(parts[0]);
      return only;
    }
    Expression found;
    found.kind = kind;
    found.parts = std::move(parts);
    return found;
  }
};

// A grammar: rules by name, and the name of the rule of the whole text.
struct Grammar {
  std::unordered_map<std::string, Expression> rules;
  std::string root = "root";
};

}  // namespace specguide
