// Owns the search backwards through the beginnings of an item; see distinct_beginnings.h.
#include "backends/distinct_beginnings.h"

#include <map>
#include <set>

#include "json_canonical.h"
#include "json_text.h"

namespace specguide {

namespace {

// The bounds of an object's members, or of an array's items.
std::vector<std::pair<size_t, size_t>> split(std::string_view text) {
  std::vector<std::pair<size_t, size_t>> found;
  bool is_in_string = false;
  int depth = 0;
  size_t start = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') ++i;
      is_in_string = c != '"';
      continue;
    }
    is_in_string = c == '"';
    if (c == '[' || c == '{') ++depth;
    const bool closes = c == ']' || c == '}';
    if (closes) --depth;
    const bool ends = depth == 1 ? c == ',' : depth == 0 && closes;
    if (!ends) continue;
    if (i > start) found.emplace_back(start, i);
    start = i + 1;
  }
  return found;
}

// Where a member's value begins.
size_t value_start(std::string_view member) {
  size_t i = 1;
  while (member[i] != '"') i += member[i] == '\\' ? 2 : 1;
  return i + 2;
}

bool is_number(std::string_view value) { return value[0] == '-' || is_digit(value[0]); }

// The spellings that a grammar may allow for a number, without additional zeros.
std::vector<std::string> spellings(std::string_view number) {
  if (canonical_json(number) == "0") return {"0", "-0", "0.0", "-0.0"};
  const size_t point = number.find('.');
  const std::string whole(number.substr(0, point));
  const bool has_part = point != number.npos && number.find_first_not_of('0', point + 1) != number.npos;
  if (has_part || whole.find_first_not_of("-0123456789") != whole.npos) return {std::string(number)};
  return {whole, whole + ".0"};
}

}  // namespace

void DistinctBeginnings::find(std::string_view text) const {
  if (passes_value("", text)) is_dead_("", false);
}

bool DistinctBeginnings::passes_value(const std::string& before, std::string_view text) const {
  if (text[0] == '{') return passes_object(before, text);
  if (text[0] == '[') return passes_array(before, text);
  return is_number(text) ? passes_number(before, text) : passes_bytes(before, text);
}

bool DistinctBeginnings::passes_bytes(const std::string& before, std::string_view text) const {
  for (size_t size = text.size(); size > 0; --size) {
    if (!is_dead_(before + std::string(text.substr(0, size)), false)) return false;
  }
  return true;
}

// The beginning that all spellings of the number share is passed together with the last of them.
bool DistinctBeginnings::passes_number(const std::string& before, std::string_view text) const {
  bool passes = false;
  for (const std::string& spelling : spellings(text)) {
    if (is_dead_(before + spelling, true)) passes |= passes_bytes(before, spelling);
  }
  return passes;
}

bool DistinctBeginnings::passes_array(const std::string& before, std::string_view text) const {
  const auto items = split(text);
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    const auto [start, end] = *item;
    if (!is_dead_(before + std::string(text.substr(0, end)), true)) return false;
    const std::string upto = before + std::string(text.substr(0, start));
    if (!passes_value(upto, text.substr(start, end - start))) return false;
    if (start > 1 && !is_dead_(upto, false)) return false;
  }
  return is_dead_(before + "[", false);
}

// Sets of members are searched from all members downwards. What may follow a set is then known for every order of it.
bool DistinctBeginnings::passes_object(const std::string& before, std::string_view text) const {
  using Members = std::vector<bool>;
  const auto members = split(text);
  const auto written = [&](const Members& chosen) {
    std::string found = before + "{";
    for (size_t i = 0; i < members.size(); ++i) {
      const auto [start, end] = members[i];
      if (!chosen[i]) continue;
      if (found.size() > before.size() + 1) found += ',';
      found += text.substr(start, end - start);
    }
    return found;
  };
  const Members none(members.size(), false);
  const Members all(members.size(), true);
  if (!is_dead_(written(all), true)) return false;
  std::set<Members> dead{all};
  while (!dead.empty() && *dead.begin() != none) {
    std::map<Members, std::vector<size_t>> last;  // for each set of members before: which members may come last
    for (const Members& chosen : dead) {
      for (size_t i = members.size(); i > 0; --i) {
        if (!chosen[i - 1]) continue;
        Members fewer = chosen;
        fewer[i - 1] = false;
        last[fewer].push_back(i - 1);
        if (!any_order_) break;
      }
    }
    dead.clear();
    for (auto set = last.rbegin(); set != last.rend(); ++set) {  // the order of the text first
      const auto& [chosen, missing] = *set;
      const std::string start = written(chosen);
      const std::string upto = chosen == none ? start : start + ",";
      bool passes = false;  // what these share is passed together with the last of them
      for (const size_t i : missing) {
        const auto [from, end] = members[i];
        passes |= passes_member(upto, text.substr(from, end - from));
      }
      if (passes && is_dead_(upto, false) && (chosen == none || is_dead_(start, true))) dead.insert(chosen);
    }
  }
  return !dead.empty();
}

bool DistinctBeginnings::passes_member(const std::string& before, std::string_view text) const {
  const size_t value = value_start(text);
  const std::string key(text.substr(0, value));
  return passes_value(before + key, text.substr(value)) && passes_bytes(before, key);
}

}  // namespace specguide
