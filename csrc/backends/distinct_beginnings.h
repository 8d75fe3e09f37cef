// Owns the order in which the beginnings of an item are tried that could only repeat it: the longest first.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace specguide {

// Goes back through an item's text from its end, as long as no other item can begin so. With keys in any order each
// member of an object may be the last. Only which members are before it counts: a set of members is looked at in one
// order, and only if the item is all that one member more can lead to.
class DistinctBeginnings {
 public:
  // Whether an item that begins so can only be one that is there. Longer beginnings are asked for first.
  // has_ended: a number at the end of the text goes on no more
  using IsDead = std::function<bool(const std::string& text, bool has_ended)>;

  DistinctBeginnings(IsDead is_dead, bool any_order) : is_dead_(std::move(is_dead)), any_order_(any_order) {}

  // text: an item without whitespace between values
  void find(std::string_view text) const;

 private:
  // The ones below go back through `text`, which is behind `before`. True: as far as before its first byte.
  bool passes_value(const std::string& before, std::string_view text) const;
  bool passes_number(const std::string& before, std::string_view text) const;
  bool passes_array(const std::string& before, std::string_view text) const;
  bool passes_object(const std::string& before, std::string_view text) const;
  bool passes_member(const std::string& before, std::string_view text) const;
  bool passes_bytes(const std::string& before, std::string_view text) const;

  const IsDead is_dead_;
  const bool any_order_;
};

}  // namespace specguide
