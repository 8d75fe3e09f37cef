#include "endings/utf8_ranges.h"

#include <algorithm>
#include <map>
#include <utility>

namespace specguide {

namespace {

constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kLastCode};
constexpr uint8_t kFirstOfLength[] = {0x00, 0xC0, 0xE0, 0xF0};  // bits of a first byte that are not the code point's
constexpr CodeRange kSurrogates{0xD800, 0xDFFF};

using Intervals = std::vector<std::pair<uint32_t, uint32_t>>;  // ascending, neither overlapping nor adjacent

// Adds nodes for characters, byte by byte. Bytes with the same continuations lead to one node, as in a minimal
// automaton, because a class of letters has hundreds of ranges.
class Characters {
 public:
  Characters(Network& network, int32_t rule, int32_t next) : network_(network), rule_(rule), next_(next) {}

  int32_t all(const std::vector<CodeRange>& ranges) {
    Ways ways;
    for (int num_bytes = 1; num_bytes <= 4; ++num_bytes) {
      const uint32_t first = num_bytes == 1 ? 0 : kLastOfLength[num_bytes - 2] + 1;
      Intervals of_length;
      for (const CodeRange& range : ranges) {
        const uint32_t low = std::max(range.low, first), high = std::min(range.high, kLastOfLength[num_bytes - 1]);
        if (low <= high) of_length.emplace_back(low, high);
      }
      add_ways(ways, of_length, num_bytes - 1, kFirstOfLength[num_bytes - 1]);
    }
    return network_.add_bytes(rule_, ways);
  }

 private:
  using Ways = std::map<int32_t, ByteSet>;  // the bytes that lead to each node

  // The first node for the last `num_bytes` bytes of characters.
  int32_t rest(Intervals codes, int num_bytes) {
    if (num_bytes == 0) return next_;
    const auto [found, is_new] = known_.try_emplace({num_bytes, std::move(codes)}, -1);
    if (!is_new) return found->second;
    Ways ways;
    add_ways(ways, found->first.second, num_bytes - 1, 0x80);
    return found->second = network_.add_bytes(rule_, ways);
  }

  // mark: the bits of the byte that do not belong to the code point
  void add_ways(Ways& ways, const Intervals& codes, int num_behind, uint8_t mark) {
    const int shift = 6 * num_behind;
    const uint32_t last = (1u << shift) - 1;
    std::map<uint32_t, Intervals> parts;  // by the bits of the byte that belong to the code point
    for (const auto& [low, high] : codes) {
      for (uint32_t part = low >> shift; part <= high >> shift; ++part) {
        parts[part].emplace_back(part == low >> shift ? low & last : 0, part == high >> shift ? high & last : last);
      }
    }
    for (auto& [part, behind] : parts) ways[rest(std::move(behind), num_behind)].set(mark | part);
  }

  Network& network_;
  const int32_t rule_, next_;
  std::map<std::pair<int, Intervals>, int32_t> known_;  // nodes by number of bytes and code points
};

}  // namespace

std::vector<CodeRange> all_but(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
  std::vector<CodeRange> found;
  uint32_t next = 0;
  for (const CodeRange& range : ranges) {
    if (range.low > next) found.push_back({next, range.low - 1});
    next = std::max(next, range.high + 1);
  }
  if (next <= kLastCode) found.push_back({next, kLastCode});
  return found;
}

int32_t add_code_ranges(Network& network, int32_t rule, const std::vector<CodeRange>& ranges, int32_t next,
                        bool has_surrogates) {
  std::vector<CodeRange> left_out = all_but(ranges);
  if (!has_surrogates) left_out.push_back(kSurrogates);
  return Characters(network, rule, next).all(all_but(std::move(left_out)));
}

}  // namespace specguide
