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

// Where a message has come to. kBefore: no call may have begun; kText: outside of calls; kName: in a tool's name;
// kLead: in the text between that and the arguments; kValue: where the arguments begin; the others: within the
// arguments. kQuoted: in a text between single quotes; kHeldName, kHeldBegin, kHeld: in the name of an argument, in the
// mark behind it, and in a text that may have what begins a call
struct CallState {
  enum class Mode : unsigned char {
    kBefore,
    kText,
    kName,
    kLead,
    kValue,
    kNested,
    kString,
    kEscape,
    kQuoted,
    kScalar,
    kHeldName,
    kHeldBegin,
    kHeld
  };

  Mode mode = Mode::kText;
  int node = 0;         // node among the texts that are searched for, or among the names
  int call = -1;        // the last one that was found
  size_t num_left = 0;  // bytes of the lead to come; of the mark at a held text's beginning, those that have come
  int64_t depth = 0;    // of open arrays and objects
};

// How the end of arguments is found. kSearched: it is not, for what begins a call is in no arguments, or in held texts
// alone; kJson: they are one JSON value; kBracketed: they are behind an open bracket, up to the one that closes it, and
// brackets within are in pairs, or in JSON's strings or single quotes.
enum class CallArguments : unsigned char { kSearched, kJson, kBracketed };

// Marks of arguments that are written one by one, of which some are texts that may have what begins a call.
//
// before:      the texts in front of an argument's name
// behind_name: what stands between the name and the value
// begin, end:  stand around such a text, and around no other value
// after:       what stands behind each value
struct HeldTexts {
  std::vector<std::string> before{};
  std::string behind_name{}, begin{}, end{}, after{};
};

// A call that a token has found. head_len: bytes of the token before the arguments; num_left: bytes of the lead that
// are to come behind the token. The token reaches into the arguments where it has more than `head_len` bytes.
struct FoundCall {
  int call;
  size_t head_len, num_left;
};

// The texts with which calls begin, in the bytes of KeyStarts: those in front of a name, behind which there is nothing
// but a name, and the names, each with what is behind it up to the first byte of the lead, or the special token, and
// the number of its tool. Immutable.
class CallWalk {
 public:
  using Texts = std::vector<std::string>;
  using Names = std::vector<std::pair<std::string, int>>;

  // gate:     before it has come no call begins; "": calls may begin at once
  // lead_len: bytes of the lead behind the first, or behind a special token with which it begins; -1: there is no lead,
  //           and what is behind a name is a special token that the arguments begin with
  // held:     none: no text in arguments has what begins a call
  CallWalk(const Texts& before, const Names& names, const std::string& gate, int lead_len, CallArguments arguments,
           HeldTexts held);

  CallState start() const;
  // Go on by a text, or by a special token. The calls that were found in it; of a special token, none of its bytes or
  // all are before the arguments.
  std::vector<FoundCall> take(CallState& state, std::string_view bytes) const;
  std::vector<FoundCall> take_special(CallState& state, int32_t token) const;
  // Whether a text of so many bytes may find a call, outside of arguments.
  bool may_find(const CallState& state, size_t num_bytes) const;
  // Whether a text may find a call of which it has all from the end of a call's arguments on.
  bool has_later(std::string_view bytes) const;

 private:
  bool step(CallState& state, char byte) const;
  bool step_name(CallState& state, char byte) const;
  bool step_json(CallState& state, char byte) const;
  bool step_nested(CallState& state, char byte) const;
  bool step_held(CallState& state, char byte) const;
  bool begin_arguments(CallState& state, char byte) const;
  void enter_text(CallState& state, char mark) const;

  const HeldTexts held_;
  const KeyStarts before_, names_, gate_, held_name_, held_end_;
  const int lead_len_;
  const CallArguments arguments_;
  const std::vector<size_t> left_before_, left_of_name_, left_of_gate_;  // bytes
};

}  // namespace specguide
