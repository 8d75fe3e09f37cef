// Owns what is known about objects whose keys may come in any order; see key_places.h.
#include "backends/key_places.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "json_text.h"

namespace specguide {

using Unnamed = KeyOption::Unnamed;

namespace {

constexpr size_t kMostOptions = 64;

KeyPlace any_place() {
  KeyPlace place;
  place.options.emplace_back();
  place.options.back().unnamed = Unnamed::kAny;
  return place;
}

}  // namespace

bool NameSet::has_any(size_t first, size_t last) const {
  while (first < last) {
    const uint64_t rest = words_[first / 64] >> first % 64;
    if (rest != 0) return first + static_cast<size_t>(__builtin_ctzll(rest)) < last;
    first += 64 - first % 64;
  }
  return false;
}

size_t NameSet::size() const {
  size_t count = 0;
  for (const uint64_t word : words_) count += static_cast<size_t>(__builtin_popcountll(word));
  return count;
}

NameSet NameSet::both(const NameSet& other) const {
  NameSet found = *this;
  for (size_t i = 0; i < words_.size(); ++i) found.words_[i] &= other.words_[i];
  return found;
}

NameSet NameSet::without(const NameSet& other) const {
  NameSet found = *this;
  for (size_t i = 0; i < words_.size(); ++i) found.words_[i] &= ~other.words_[i];
  return found;
}

KnownPlace::KnownPlace(const KeyPlace& place) : prefix_(place.prefix), other_(place.other), rest_(place.rest) {
  if (place.options.size() > kMostOptions) throw std::invalid_argument("a place allows more than 64 kinds of objects");
  for (const auto& [name, inner] : std::map<std::string, int>(place.names.begin(), place.names.end())) {
    numbers_[name] = names_.size();
    names_.push_back(name);
    inner_.push_back(inner);
  }
  having_.assign(names_.size() + 1, 0);
  for (const KeyOption& given : place.options) {
    const uint64_t bit = uint64_t{1} << options_.size();
    Option option{NameSet(names_.size()), NameSet(names_.size()), given.least, given.most, given.unnamed};
    for (const std::string& name : given.allowed) {
      option.allowed.add(numbers_.at(name));
      having_[numbers_.at(name)] |= bit;
    }
    for (const std::string& name : given.required) option.required.add(numbers_.at(name));
    if (given.unnamed != Unnamed::kNone) having_.back() |= bit;
    all_ |= bit;
    options_.push_back(std::move(option));
  }
}

size_t KnownPlace::number(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? names_.size() : found->second;
}

std::pair<size_t, size_t> KnownPlace::beginning_with(std::string_view start) const {
  const auto first = std::lower_bound(names_.begin(), names_.end(), start);
  const auto begins_so = [&](const std::string& name) { return begins_with(name, start); };
  const auto last = std::partition_point(first, names_.end(), begins_so);
  return {static_cast<size_t>(first - names_.begin()), static_cast<size_t>(last - names_.begin())};
}

uint64_t KnownPlace::with_key(uint64_t options, size_t number) const {
  return options & having_[std::min(number, names_.size())];
}

KeyDemand KnownPlace::demand(uint64_t options, const NameSet& seen) const {
  KeyDemand found;
  found.takes_unnamed = false;
  bool is_first = true;
  for (size_t i = 0; i < options_.size(); ++i) {
    if ((options >> i & 1) == 0) continue;
    const Option& option = options_[i];
    found.missing = is_first ? option.required : found.missing.both(option.required);
    found.least = is_first ? option.least : std::min(found.least, option.least);
    found.most = is_first ? option.most : std::max(found.most, option.most);
    found.takes_any_unnamed = found.takes_any_unnamed && option.unnamed == Unnamed::kAny;
    found.takes_unnamed = found.takes_unnamed || option.unnamed != Unnamed::kNone;
    found.is_sure = is_first;
    if (is_first) found.allowed = option.allowed;
    is_first = false;
  }
  if (is_first) return KeyDemand{NameSet(names_.size()), NameSet(names_.size()), 0, SIZE_MAX, true, true, false};
  found.missing = found.missing.without(seen);
  return found;
}

KeyPlaces::KeyPlaces(const std::vector<KeyPlace>& places) : anything_(any_place()) {
  const auto check = [&](int place) {
    const bool is_known = place < static_cast<int>(places.size());
    if (!is_known) throw std::invalid_argument("there is no place " + std::to_string(place));
  };
  for (const KeyPlace& place : places) {
    for (const auto& [name, inner] : place.names) check(inner);
    for (const int inner : place.prefix) check(inner);
    check(place.other);
    check(place.rest);
    places_.emplace_back(place);
  }
}

}  // namespace specguide
