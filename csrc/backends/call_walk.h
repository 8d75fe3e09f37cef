// Owns the walk through a message with tool calls, which finds where the arguments of a call begin and end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/key_walk.h"

namespace specguide {

// The position in a message. kBefore: no call may have begun; kText: outside of calls; kName: in a tool's name; kLead:
// in the text between name and arguments; kValue: where the arguments begin; the others: inside the arguments. kQuoted:
// in a text between single quotes; kHeldName, kHeldBegin, kHeld: in the name of an argument, in the mark behind it, and
// in a text that may contain the beginning of a call
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
  int node = 0;         // node of the search for texts, or for names
  int call = -1;        // the last call that was found
  size_t num_left = 0;  // bytes of the lead still to come; for the mark before a held text, bytes that have come
  int64_t depth = 0;    // number of open arrays and objects
};

// How the end of arguments is found. kSearched: it is not looked for, because the beginning of a call occurs in no
// arguments, or only in held texts; kJson: the arguments are one JSON value; kBracketed: they are behind an open
// bracket, up to the one that closes it, and brackets inside are in pairs, in JSON strings or in single quotes.
enum class CallArguments : unsigned char { kSearched, kJson, kBracketed };

// Marks of arguments that are written one by one, some of which are texts that may contain the beginning of a call.
//
// before:      the texts before an argument's name
// behind_name: what separates the name from the value
// begin, end:  enclose such a text, and no other value
// after:       what follows each value
struct HeldTexts {
  std::vector<std::string> before{};
  std::string behind_name{}, begin{}, end{}, after{};
};

// A call whose name a token completes. head_len: bytes of the token before the arguments; num_left: bytes of the lead
// that must still follow the token. If the token has more than `head_len` bytes, it reaches into the arguments.
struct FoundCall {
  int call;
  size_t head_len, num_left;
};

// The texts with which calls begin, in the bytes of KeyStarts: those before a name, which are always followed by a
// name, and the names, each with the number of its tool and with what follows it, up to the first byte of the lead or
// to the special token. Immutable.
class CallWalk {
 public:
  using Texts = std::vector<std::string>;
  using Names = std::vector<std::pair<std::string, int>>;

  // gate:     no call begins before this text; "": calls may begin at once
  // lead_len: bytes of the lead after its first byte, or after a special token with which it begins; -1: there is no
  //           lead, and the arguments begin with the special token behind the name
  // held:     none: no text in arguments contains the beginning of a call
  CallWalk(const Texts& before, const Names& names, const std::string& gate, int lead_len, CallArguments arguments,
           HeldTexts held);

  CallState start() const;
  // Advances by a text, or by a special token. Returns the calls that were found in it; of a special token, either no
  // byte or every byte is before the arguments.
  std::vector<FoundCall> take(CallState& state, std::string_view bytes) const;
  std::vector<FoundCall> take_special(CallState& state, int32_t token) const;
  // Whether a text of so many bytes may find a call, outside of arguments.
  bool may_find(const CallState& state, size_t num_bytes) const;
  // Whether a text may contain a whole beginning of a call behind the end of a call's arguments.
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
