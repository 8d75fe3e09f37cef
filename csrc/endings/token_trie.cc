#include "endings/token_trie.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace specguide {

namespace {

constexpr size_t kMostBytes = 255;

size_t num_shared(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                                           b.begin()).first - a.begin());
}

}  // namespace

int TokenTrie::group_of(uint8_t byte) {
  if (byte >= 0x80) return 0;
  if (byte < ' ' || byte == 0x7F) return 1;
  switch (byte) {
    case ' ':
      return 2;
    case '"':
      return 3;
    case '\\':
      return 4;
  }
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
    while (open.size() > depth) {
      Node& node = nodes_[static_cast<size_t>(open.back())];
      node.end = static_cast<int32_t>(nodes_.size());
      open.pop_back();
      if (!open.empty()) nodes_[static_cast<size_t>(open.back())].groups |= static_cast<uint8_t>(node.groups | 1u << group_of(node.byte));
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
    before = &text;
  }
  close(0);
}

}  // namespace specguide
