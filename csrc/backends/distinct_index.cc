// Owns the items of arrays whose items must differ; see distinct_index.h.
#include "backends/distinct_index.h"

#include <algorithm>
#include <utility>

#include "json_text.h"

namespace specguide {

namespace {

// Adds the byte that follows the beginning `start` of a text.
void add_byte(std::string_view text, std::string_view start, DistinctIndex::Bytes& found) {
  if (text.size() > start.size() && begins_with(text, start)) found.set(static_cast<uint8_t>(text[start.size()]));
}

}  // namespace

void DistinctIndex::put(const std::shared_ptr<DistinctItem>& last) {
  std::vector<std::shared_ptr<DistinctItem>> missing;
  const Known* found = nullptr;
  for (auto item = last; item != nullptr && (found = find(item.get())) == nullptr; item = item->before) {
    missing.push_back(item);
  }
  if (missing.size() <= 2 * kFewestBehind) return;
  missing.erase(missing.begin(), missing.begin() + kFewestBehind);
  Known* known = const_cast<Known*>(found);
  if (known == nullptr) {
    if (known_.size() < kMostArrays) known_.emplace_back();
    next_ = (next_ + 1) % known_.size();
    known_[next_] = std::make_unique<Known>();
    known = known_[next_].get();
  }
  for (const auto& item : missing) known->add(*item);
  known->last = missing.front();
}

bool DistinctIndex::holds(const DistinctItem* last, const std::string& canonical) const {
  for (const DistinctItem* item = last; item != nullptr; item = item->before.get()) {
    if (const Known* known = find(item)) return known->canonical.count(canonical) > 0;
    if (item->canonical == canonical) return true;
  }
  return false;
}

bool DistinctIndex::rules_out(const DistinctItem* last, std::string_view start) const {
  for (const DistinctItem* item = last; item != nullptr; item = item->before.get()) {
    if (const Known* known = find(item)) return known->rules_out(start);
    const auto& dead = item->dead;
    if (std::any_of(dead.begin(), dead.end(), [&](const auto& one) { return begins_with(start, one); })) return true;
  }
  return false;
}

DistinctIndex::Bytes DistinctIndex::repeating(const DistinctItem* last, std::string_view start) const {
  Bytes found;
  for (const DistinctItem* item = last; item != nullptr; item = item->before.get()) {
    if (const Known* known = find(item)) return add_next(known->canonical, start, found), found;
    add_byte(item->canonical, start, found);
  }
  return found;
}

DistinctIndex::Bytes DistinctIndex::going_wrong(const DistinctItem* last, std::string_view start) const {
  Bytes found;
  for (const DistinctItem* item = last; item != nullptr; item = item->before.get()) {
    if (const Known* known = find(item)) return add_next(known->dead, start, found), found;
    for (const std::string& one : item->dead) add_byte(one, start, found);
  }
  return found;
}

// Adds the bytes that follow a beginning in the texts. Texts are sorted, so it skips from one byte to the next.
void DistinctIndex::add_next(const Texts& texts, std::string_view start, Bytes& found) {
  auto text = texts.upper_bound(start);
  while (text != texts.end() && begins_with(*text, start)) {
    const auto byte = static_cast<uint8_t>((*text)[start.size()]);
    found.set(byte);
    if (byte == 0xFF) return;
    text = texts.lower_bound(std::string(start) + static_cast<char>(byte + 1));
  }
}

const DistinctIndex::Known* DistinctIndex::find(const DistinctItem* last) const {
  if (last == nullptr) return nullptr;
  for (const auto& known : known_) {
    if (known != nullptr && known->last.get() == last) return known.get();
  }
  return nullptr;
}

void DistinctIndex::Known::add(const DistinctItem& item) {
  canonical.insert(item.canonical);
  for (const std::string& one : item.dead) {
    dead.insert(one);
    dead_lengths.insert(one.size());
  }
}

bool DistinctIndex::Known::rules_out(std::string_view start) const {
  for (const size_t length : dead_lengths) {
    if (length > start.size()) return false;
    if (dead.count(start.substr(0, length)) > 0) return true;
  }
  return false;
}

}  // namespace specguide
