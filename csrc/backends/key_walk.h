// Owns the way through texts with JSON in them that finds keys which an object must not have, or must have yet.
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

// The texts behind which JSON begins, and its place. None: the whole text is JSON, of the first place. Immutable.
//
// Bytes that are in no text stand for what is no text: kTextStart for its start, kJsonEnd for the end of JSON,
// kArgumentsStart for the start of a call's arguments, and kToken before and behind the decimal id of a special token.
class KeyStarts {
 public:
  static constexpr char kTextStart = '\xFE', kJsonEnd = '\xFD', kToken = '\xFF', kArgumentsStart = '\xFC';

  // Throws std::invalid_argument for a text that is empty.
  explicit KeyStarts(const std::vector<std::pair<std::string, int>>& starts);

  // How much of the texts has come, and the place of the JSON that begins.
  struct Search {
    int node = 0, place = 0;
  };

  bool empty() const { return nodes_.size() == 1; }
  // The node behind a byte; Aho and Corasick, "Efficient string matching", 1975.
  int next(int node, char byte) const;
  // The node behind a byte that goes on from there; -1: none does.
  int child(int node, char byte) const;
  // The place of the JSON that begins there; -1: none does.
  int place(int node) const { return nodes_[static_cast<size_t>(node)].place; }
  // Goes on by a byte outside of JSON. Whether JSON may begin behind it; may_begin: whether it might before.
  bool step(Search& search, bool may_begin, char byte) const;
  // By node, the least number of bytes of text behind which one of the texts has come; kNoText where there is none.
  static constexpr size_t kNoText = size_t{1} << 20;
  std::vector<size_t> least_left() const;
  // The bytes that stand for a token which is no text.
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

// An array or object that is open.
//
// num:     items that have come, or keys
// object:  the number of the innermost object that is open, from 1 in the order in which they began; 0: none
// inner:   what is known of the value behind the last key
// others:  the keys that have come which the place does not name
// seen:    those that it names
// options: those of the place that may have them
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
  // Whether a key that has come begins so.
  bool may_repeat(std::string_view start) const;
  bool may_close() const { return num >= demand.least && demand.missing.size() == 0; }
  // Whether there is room for no key but those that are missing.
  bool is_full() const { return demand.most != SIZE_MAX && num + demand.missing.size() >= demand.most; }
};

// Where a text has come to. kOutside: in no JSON; kFirst: where an object's first key may begin; kKey: another one
struct KeyState {
  enum class Mode : unsigned char { kOutside, kValue, kFirst, kKey, kAfter, kScalar, kString, kEscape };

  std::shared_ptr<const KeyFrame> top;
  Mode mode = Mode::kValue;
  bool is_key = false;
  KeyStarts::Search search{};
  std::string key;  // as far as it has come, with its first quote
  size_t num_objects = 0;  // that have begun

  bool is_in_string() const { return mode == Mode::kString || mode == Mode::kEscape; }
  bool is_before_key() const { return mode == Mode::kKey || mode == Mode::kFirst; }
  // Whether a key must follow, or is open.
  bool is_in_key() const { return mode == Mode::kKey || (is_key && is_in_string()); }
};

// The verdict on a text: it must not be, it may, or that depends on whether the grammar knows another key.
enum class KeyVerdict { kNo, kYes, kPerhaps };

// Takes bytes of texts that a grammar allows, whose objects have keys that are spelt in one way each.
class KeyWalk {
 public:
  KeyWalk(std::shared_ptr<const KeyPlaces> places, std::shared_ptr<const KeyStarts> starts);

  KeyState start() const;
  // Goes on from `state` by a token that is no text.
  void take_special(KeyState& state, int32_t token) const;
  // Goes on from `state` by `bytes`, which is spoilt where the verdict is kNo.
  KeyVerdict take(KeyState& state, std::string_view bytes) const;
  // Whether an object's key may follow, or be ended, in a state.
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
