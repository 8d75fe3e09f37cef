#include "endings/token_trie.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace specguide {

namespace {

constexpr size_t kMostBytes = 255;

// Number of bytes of the character at `i`; 0 if there is none (RFC 3629, section 4).
size_t num_bytes_of_char(const std::string& text, size_t i) {
  const auto byte = [&](size_t place) { return place < text.size() ? static_cast<uint8_t>(text[place]) : uint8_t{0}; };
  const uint8_t lead = byte(i), second = byte(i + 1);
  if (lead < 0x80) return 1;
  const size_t size = lead < 0xC2 || lead > 0xF4 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t k = 1; k < size; ++k) {
    if (byte(i + k) >> 6 != 2) return 0;
  }
  const bool is_out = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return is_out ? 0 : size;
}

// The groups of the characters behind each byte of a text, and of all characters.
std::vector<uint8_t> groups_behind(const std::string& text) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); i += std::max<size_t>(1, num_bytes_of_char(text, i))) begins.push_back(i);
  std::vector<uint8_t> found(text.size() + 1);
  size_t end = text.size();
  for (; !begins.empty(); end = begins.back(), begins.pop_back()) {
    const size_t begin = begins.back();
    const auto byte = static_cast<uint8_t>(text[begin]);
    const bool is_char = num_bytes_of_char(text, begin) > 0;
    const int group = !is_char      ? TokenTrie::kNoCharacter
                      : byte < 0x80 ? TokenTrie::ascii_group(byte)
                                    : TokenTrie::kBeyondAscii;
    found[begin] = static_cast<uint8_t>(found[end] | 1u << group);
    for (size_t i = begin + 1; i < end; ++i) {
      found[i] = static_cast<uint8_t>(found[end] | 1u << TokenTrie::kNoCharacter);
    }
  }
  return found;
}

size_t num_shared(const std::string& a, const std::string& b) {
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin()).first -
      a.begin());
}

}  // namespace

int TokenTrie::ascii_group(uint8_t byte) {
  if (byte < ' ' || byte == 0x7F) return 2;
  if (byte == '"') return 3;
  if (byte == '\\') return 4;
  if (byte >= '0' && byte <= '9') return 5;
  const int letter = byte | 0x20;
  return letter >= 'a' && letter <= 'z' ? 6 : 7;
}

TokenTrie::TokenTrie(std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)), same_(vocabulary_->token_bytes.size(), -1) {
  const std::vector<std::string>& texts = vocabulary_->token_bytes;
  std::vector<int32_t> order;
  for (int32_t token = 0; token < vocabulary_->size(); ++token) {
    const size_t size = texts[static_cast<size_t>(token)].size();
    if (size > 0 && size <= kMostBytes) order.push_back(token);
    if (size > kLong) long_tokens_.push_back(token);
  }
  std::stable_sort(long_tokens_.begin(), long_tokens_.end(), [&](int32_t a, int32_t b) {
    return texts[static_cast<size_t>(a)].size() > texts[static_cast<size_t>(b)].size();
  });
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return texts[static_cast<size_t>(a)] < texts[static_cast<size_t>(b)];
  });
  std::vector<int32_t> open;  // nodes, by depth
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      nodes_[static_cast<size_t>(open.back())].end = static_cast<int32_t>(nodes_.size());
    }
  };
  const std::string* before = nullptr;
  for (const int32_t token : order) {
    const std::string& text = texts[static_cast<size_t>(token)];
    const size_t shared = before == nullptr ? 0 : num_shared(*before, text);
    close(shared);
    for (size_t depth = shared; depth < text.size(); ++depth) {
      open.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(text[depth]), static_cast<uint8_t>(depth + 1), 0, 0, -1,
                        static_cast<int32_t>(tokens_.size())});
    }
    Node& last = nodes_[static_cast<size_t>(open.back())];
    same_[static_cast<size_t>(token)] = last.token;
    if (last.token >= 0) tokens_.pop_back();
    last.token = token;
    tokens_.push_back(token);
    const std::vector<uint8_t> groups = groups_behind(text);
    for (size_t depth = 1; depth <= text.size(); ++depth) {
      nodes_[static_cast<size_t>(open[depth - 1])].groups |= groups[depth];
    }
    before = &text;
  }
  close(0);
}

}  // namespace specguide
