#include "endings/utf8_ranges.h"

#include <algorithm>
#include <utility>

namespace specguide {

namespace {

constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kLastCode};

// Without surrogates.
std::vector<CodeRange> characters(const std::vector<CodeRange>& ranges) {
  constexpr CodeRange kSurrogates{0xD800, 0xDFFF};
  std::vector<CodeRange> found;
  for (const CodeRange& range : ranges) {
    if (range.low < kSurrogates.low) found.push_back({range.low, std::min(range.high, kSurrogates.low - 1)});
    if (range.high > kSurrogates.high) found.push_back({std::max(range.low, kSurrogates.high + 1), range.high});
  }
  return found;
}

// Bytes low[i] … high[i] in place i.
struct ByteRanges {
  std::vector<std::pair<uint8_t, uint8_t>> places;
};

void append_utf8_bytes(std::vector<uint8_t>& bytes, uint32_t code, int num_bytes) {
  static constexpr uint8_t kFirst[] = {0x00, 0xC0, 0xE0, 0xF0};
  bytes.push_back(static_cast<uint8_t>(kFirst[num_bytes - 1] | code >> (6 * (num_bytes - 1))));
  for (int i = num_bytes - 2; i >= 0; --i) bytes.push_back(static_cast<uint8_t>(0x80 | (code >> (6 * i) & 0x3F)));
}

// Cuts a range of codes of one length so that each byte ranges by itself, as Thompson's UTF-8 automata do.
void split(uint32_t low, uint32_t high, int num_bytes, std::vector<ByteRanges>& found) {
  for (int i = 1; i < num_bytes; ++i) {
    const uint32_t rest = (1u << (6 * i)) - 1;
    if ((low & ~rest) == (high & ~rest)) continue;
    if ((low & rest) != 0) {
      split(low, low | rest, num_bytes, found);
      return split((low | rest) + 1, high, num_bytes, found);
    }
    if ((high & rest) != rest) {
      split(low, (high & ~rest) - 1, num_bytes, found);
      return split(high & ~rest, high, num_bytes, found);
    }
  }
  std::vector<uint8_t> first, last;
  append_utf8_bytes(first, low, num_bytes);
  append_utf8_bytes(last, high, num_bytes);
  ByteRanges ranges;
  for (size_t i = 0; i < first.size(); ++i) ranges.places.push_back({first[i], last[i]});
  found.push_back(std::move(ranges));
}

ByteSet range_of(std::pair<uint8_t, uint8_t> place) {
  ByteSet bytes;
  for (size_t byte = place.first; byte <= place.second; ++byte) bytes.set(byte);
  return bytes;
}

}  // namespace

void append_utf8(std::string& text, uint32_t code) {
  int num_bytes = 1;
  while (code > kLastOfLength[num_bytes - 1]) ++num_bytes;
  std::vector<uint8_t> bytes;
  append_utf8_bytes(bytes, code, num_bytes);
  text.append(bytes.begin(), bytes.end());
}

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
  ByteSet ascii;
  std::vector<ByteRanges> others;
  for (const CodeRange& range : has_surrogates ? ranges : characters(ranges)) {
    for (uint32_t code = range.low; code <= std::min(range.high, kLastOfLength[0]); ++code) ascii.set(code);
    for (int num_bytes = 2; num_bytes <= 4; ++num_bytes) {
      const uint32_t low = std::max(range.low, kLastOfLength[num_bytes - 2] + 1);
      const uint32_t high = std::min(range.high, kLastOfLength[num_bytes - 1]);
      if (low <= high) split(low, high, num_bytes, others);
    }
  }
  Network::Node choice;
  choice.kind = Network::Kind::kSplit;
  if (ascii.any()) choice.next.push_back(network.add_bytes(rule, ascii, next));
  for (const ByteRanges& sequence : others) {
    int32_t first = next;
    for (auto place = sequence.places.rbegin(); place != sequence.places.rend(); ++place) {
      first = network.add_bytes(rule, range_of(*place), first);
    }
    choice.next.push_back(first);
  }
  return choice.next.size() == 1 ? choice.next[0] : network.add_node(rule, std::move(choice));
}

}  // namespace specguide
