// Owns what is known about the objects at each place of a schema whose keys may come in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace specguide {

// A set of the names that a place knows, by number.
class NameSet {
 public:
  NameSet() = default;
  explicit NameSet(size_t num_names) : words_((num_names + 63) / 64, 0) {}

  void add(size_t name) { words_[name / 64] |= uint64_t{1} << name % 64; }
  bool has(size_t name) const { return (words_[name / 64] >> name % 64 & 1) != 0; }
  // Whether it has a name with a number from `first` up to, not including, `last`.
  bool has_any(size_t first, size_t last) const;
  size_t size() const;
  NameSet both(const NameSet& other) const;
  NameSet without(const NameSet& other) const;

 private:
  std::vector<uint64_t> words_;
};

// What one kind of object that a place allows requires of its keys. Names are JSON strings, as texts spell them.
//
// allowed:     names of the place that it may have
// required:    names that it must have
// least, most: bounds of its number of keys
// unnamed:     which keys it accepts that its place does not name
struct KeyOption {
  enum class Unnamed { kNone, kSome, kAny };

  std::vector<std::string> allowed, required;
  size_t least = 0, most = SIZE_MAX;
  Unnamed unnamed = Unnamed::kNone;
};

// What is known about the values at a place.
//
// options:                          at most 64; none if the place allows no object
// names, other, prefix, rest:       places of an object's values, by their names, and of an array's items; -1: any
struct KeyPlace {
  std::vector<KeyOption> options;
  std::unordered_map<std::string, int> names;
  int other = -1;
  std::vector<int> prefix;
  int rest = -1;
};

// The combined demands of the options of a place that are still possible.
struct KeyDemand {
  NameSet allowed, missing;
  size_t least = 0, most = SIZE_MAX;
  bool takes_any_unnamed = true;  // each of them accepts unnamed keys
  bool takes_unnamed = true;      // one of them accepts unnamed keys
  bool is_sure = true;            // only one option is left
};

// A place in the form that guards read. The place of which nothing is known allows any object.
class KnownPlace {
 public:
  explicit KnownPlace(const KeyPlace& place);

  size_t num_names() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  // The number of a name, in sorted order; num_names() if there is no such name.
  size_t number(const std::string& name) const;
  // The range of names with a certain beginning: the first one, and the one behind the last.
  std::pair<size_t, size_t> beginning_with(std::string_view start) const;
  uint64_t all_options() const { return all_; }
  // Those of `options` that may have the key with this number.
  uint64_t with_key(uint64_t options, size_t number) const;
  KeyDemand demand(uint64_t options, const NameSet& seen) const;
  int value_place(size_t number) const { return number < names_.size() ? inner_[number] : other_; }
  int item_place(size_t index) const { return index < prefix_.size() ? prefix_[index] : rest_; }

 private:
  struct Option {
    NameSet allowed, required;
    size_t least, most;
    KeyOption::Unnamed unnamed;
  };

  std::vector<std::string> names_;
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<int> inner_, prefix_;
  int other_, rest_;
  std::vector<Option> options_;
  std::vector<uint64_t> having_;  // by name, and last for all other keys: the options that may have it
  uint64_t all_ = 0;
};

// All places of the schemas of a grammar. Shared and immutable.
class KeyPlaces {
 public:
  // Throws std::invalid_argument for numbers of places that do not exist, and for too many options.
  explicit KeyPlaces(const std::vector<KeyPlace>& places);

  // -1: the place of which nothing is known.
  const KnownPlace* at(int place) const { return place < 0 ? &anything_ : &places_[static_cast<size_t>(place)]; }

 private:
  const KnownPlace anything_;
  std::vector<KnownPlace> places_;
};

}  // namespace specguide
