// Owns the way through a message with tool calls that finds where the arguments of a call begin and end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/key_walk.h"

namespace specguide {

// Where a message has come to. kText: outside of arguments; kLead: in the text between a tool's name and its arguments;
// kValue: where the arguments begin; the others: within the arguments, which are one JSON value
struct CallState {
  enum class Mode : unsigned char { kText, kLead, kValue, kNested, kString, kEscape, kScalar };

  Mode mode = Mode::kText;
  int node = 0;         // node among the beginnings that are searched for
  int call = -1;        // the last one that was found
  size_t num_left = 0;  // bytes of the lead to come
  int64_t depth = 0;    // of open arrays and objects
};

// The texts with which calls begin, each up to the first byte of the lead, or the special token, that is behind its
// tool's name, and the number of its tool; in the bytes of KeyStarts. Immutable.
class CallWalk {
 public:
  // lead_len: bytes of the lead behind the first, or behind a special token with which it begins
  // are_json: arguments are one JSON value, in which no call begins; else their end is not looked for
  CallWalk(const std::vector<std::pair<std::string, int>>& starts, size_t lead_len, bool are_json);

  CallState start() const;
  // Go on by a text, or by a special token. True where a call was found in it.
  bool take(CallState& state, std::string_view bytes) const;
  bool take_special(CallState& state, int32_t token) const;

 private:
  bool step(CallState& state, char byte) const;
  void end_arguments(CallState& state) const;

  const KeyStarts starts_;
  const size_t lead_len_;
  const bool are_json_;
};

}  // namespace specguide
