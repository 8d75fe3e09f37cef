// Owns the walk through texts with JSON in them that finds keys which an object must not have, or still must have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/key_places.h"
#include "chain.h"

namespace specguide {

// The texts behind which JSON begins, and the place of that JSON. None: the whole text is JSON, of the first place.
// Immutable.
//
// Bytes that occur in no text stand for what is not text: kTextStart for the start of the text, kJsonEnd for the end of
// JSON, kArgumentsStart for the start of a call's arguments, and kToken around the decimal id of a special token.
class KeyStarts {
 public:
  static constexpr char kTextStart = '\xFE', kJsonEnd = '\xFD', kToken = '\xFF', kArgumentsStart = '\xFC';

  // Throws std::invalid_argument for an empty text.
  explicit KeyStarts(const std::vector<std::pair<std::string, int>>& starts);

  // How much of the texts has come, and the place of the JSON that begins.
  struct Search {
    int node = 0, place = 0;
  };

  bool empty() const { return nodes_.size() == 1; }
  // The node after a byte; Aho and Corasick, "Efficient string matching", 1975.
  int next(int node, char byte) const;
  // The node that continues this one by the byte; -1: there is none.
  int child(int node, char byte) const;
  // The place of the JSON that begins at this node; -1: none begins.
  int place(int node) const { return nodes_[static_cast<size_t>(node)].place; }
  // Advances by a byte outside JSON. Returns whether JSON may begin after it; may_begin: whether it could before.
  bool step(Search& search, bool may_begin, char byte) const;
  // By node, the minimum number of text bytes until one of the texts has come; kNoText if there is none.
  static constexpr size_t kNoText = size_t{1} << 20;
  std::vector<size_t> least_left() const;
  // The bytes that stand for a token that is not text.
  static std::string of_special(int32_t token) { return kToken + std::to_string(token) + kToken; }

 private:
  struct Node {
    std::vector<std::pair<char, int>> next;
    int shorter = 0, place = -1;
  };

  std::vector<Node> nodes_;
};

// A key of an object as it was written, which its place does not name, and those before it.
struct SeenKey {
  std::shared_ptr<SeenKey> before;
  std::string text;

  ~SeenKey() { release_chain(before, &SeenKey::before); }
};

// An open array or object.
//
// num:     number of items or keys that have come
// object:  number of the innermost open object, from 1 in the order in which they began; 0: none
// inner:   what is known about the value behind the last key
// others:  the keys so far that the place does not name
// seen:    the keys so far that it names
// options: the options of the place that allow all of these
struct KeyFrame {
  KeyFrame() = default;
  KeyFrame(const KeyFrame&) = default;
  KeyFrame& operator=(const KeyFrame&) = delete;
  ~KeyFrame() { release_chain(parent, &KeyFrame::parent); }

  std::shared_ptr<const KeyFrame> parent;
  bool is_object = false;
  const KnownPlace* place = nullptr;
  const KnownPlace* inner = nullptr;
  size_t num = 0, object = 0;
  std::shared_ptr<SeenKey> others{};
  NameSet seen{};
  uint64_t options = 0;
  KeyDemand demand{};

  bool has_come(const std::string& key) const;
  // Whether some key that has come has this beginning.
  bool may_repeat(std::string_view start) const;
  bool may_close() const { return num >= demand.least && demand.missing.size() == 0; }
  // Whether there is only room for the keys that are still required.
  bool is_full() const { return demand.most != SIZE_MAX && num + demand.missing.size() >= demand.most; }
};

// The position in a text. kOutside: outside JSON; kFirst: where an object's first key may begin; kKey: where another
// must
struct KeyState {
  enum class Mode : unsigned char { kOutside, kValue, kFirst, kKey, kAfter, kScalar, kString, kEscape };

  std::shared_ptr<const KeyFrame> top;
  Mode mode = Mode::kValue;
  bool is_key = false;
  KeyStarts::Search search{};
  std::string key;  // as far as it has come, with its opening quote
  size_t num_objects = 0;  // number of objects that have begun

  bool is_in_string() const { return mode == Mode::kString || mode == Mode::kEscape; }
  bool is_before_key() const { return mode == Mode::kKey || mode == Mode::kFirst; }
  // Whether a key must follow, or is open.
  bool is_in_key() const { return mode == Mode::kKey || (is_key && is_in_string()); }
};

// The verdict on a text: forbidden, allowed, or dependent on whether the grammar knows another key.
enum class KeyVerdict { kNo, kYes, kPerhaps };

// Takes bytes of texts that a grammar allows, in which each key has only one spelling.
class KeyWalk {
 public:
  KeyWalk(std::shared_ptr<const KeyPlaces> places, std::shared_ptr<const KeyStarts> starts);

  KeyState start() const;
  // Advances `state` by a token that is not text.
  void take_special(KeyState& state, int32_t token) const;
  // Advances `state` by `bytes`; `state` is invalid if the verdict is kNo.
  KeyVerdict take(KeyState& state, std::string_view bytes) const;
  // Whether a key of the object may follow, or be completed, in a state.
  KeyVerdict may_go_on(const KeyState& state) const;

 private:
  bool step(KeyState& state, char byte) const;
  void step_outside(KeyState& state, char byte) const;
  bool step_between(KeyState& state, char byte) const;
  bool begin_string(KeyState& state) const;
  void open(KeyState& state, bool is_object) const;
  bool close(KeyState& state) const;
  bool end_key(KeyState& state) const;
  void end_value(KeyState& state) const;

  const std::shared_ptr<const KeyPlaces> places_;
  const std::shared_ptr<const KeyStarts> starts_;
};

}  // namespace specguide
