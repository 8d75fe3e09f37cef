// Owns Vocabulary: what a grammar must know about a tokenizer, in the form that the adapters share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace specguide {

// token_bytes: bytes of each token id, as many as the logits are wide; empty for special tokens and padding.
// eos_token_ids: the end tokens; their bytes are treated as empty, so that no grammar takes one for text.
struct Vocabulary {
  Vocabulary(std::vector<std::string> bytes, std::vector<int32_t> eos)
      : token_bytes(std::move(bytes)), eos_token_ids(std::move(eos)) {
    if (eos_token_ids.empty()) throw std::invalid_argument("a vocabulary needs an end token");
    for (int32_t token : eos_token_ids) {
      if (token < 0 || token >= size()) throw std::invalid_argument("an end token is not among the token ids");
      token_bytes[static_cast<size_t>(token)].clear();
    }
    index_.reserve(token_bytes.size());
    for (int32_t token = 0; token < size(); ++token) {
      const std::string& text = token_bytes[static_cast<size_t>(token)];
      index_[text] = token;
      if (text.size() >= kHead) {
        uint8_t& most = most_bytes_[head_of(text)];
        most = std::max(most, static_cast<uint8_t>(std::min<size_t>(text.size(), 255)));
      }
    }
  }
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int32_t size() const { return static_cast<int32_t>(token_bytes.size()); }
  int num_words() const { return (size() + 31) / 32; }

  bool is_eos(int32_t token) const {
    return std::find(eos_token_ids.begin(), eos_token_ids.end(), token) != eos_token_ids.end();
  }

  // Whether a grammar may accept this token as text.
  bool is_text(int32_t token) const {
    return token >= 0 && token < size() && !token_bytes[static_cast<size_t>(token)].empty();
  }

  // The token with these bytes, -1 if there is none; among equals the last one, because byte tokens, if a vocabulary
  // has them, come before all others.
  int32_t find(std::string_view bytes) const {
    const auto found = index_.find(bytes);
    return found == index_.end() || bytes.empty() ? -1 : found->second;
  }

  // The length of the longest token with which a text begins, up to `most` bytes; 0 if there is none.
  size_t longest(std::string_view text, size_t most) const {
    most = std::min(text.size(), most);
    if (most >= kHead) most = std::min(most, std::max<size_t>(kHead - 1, most_bytes_[head_of(text)]));
    while (most > 0 && find(text.substr(0, most)) < 0) --most;
    return most;
  }

  std::vector<std::string> token_bytes;
  std::vector<int32_t> eos_token_ids;

 private:
  static constexpr size_t kHead = 4;
  static constexpr int kHeadBits = 18;

  static size_t head_of(std::string_view text) {
    uint32_t hash = 0;
    for (size_t i = 0; i < kHead; ++i) hash = hash << 8 | static_cast<uint8_t>(text[i]);
    return hash * 0x9E3779B1u >> (32 - kHeadBits);
  }

  // The maximum length of tokens with these first bytes, by a hash of them; 255 for more.
  std::vector<uint8_t> most_bytes_ = std::vector<uint8_t>(size_t{1} << kHeadBits);
  std::unordered_map<std::string_view, int32_t> index_;
};

}  // namespace specguide
