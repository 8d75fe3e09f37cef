// Owns the order in which the beginnings of an item are tried to find those that could only repeat it: longest first.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace specguide {

// Goes backwards through an item's text as long as no other item can begin in the same way. If keys may come in any
// order, each member of an object may be the last one. Only the set of members before it matters: such a set is tried
// in one order, and only if every member that can follow it leads to the same item.
class DistinctBeginnings {
 public:
  // Whether every item with this beginning is already there. Longer beginnings are asked for first.
  // has_ended: a number at the end of the text is complete
  using IsDead = std::function<bool(const std::string& text, bool has_ended)>;

  DistinctBeginnings(IsDead is_dead, bool any_order) : is_dead_(std::move(is_dead)), any_order_(any_order) {}

  // text: an item without whitespace between values
  void find(std::string_view text) const;

 private:
  // The following go backwards through `text`, which comes after `before`. True: they passed its first byte.
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
