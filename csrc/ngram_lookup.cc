#include "ngram_lookup.h"

#include <algorithm>
#include <stdexcept>

#include "growing_map.h"

namespace specguide {

namespace {

constexpr int kMaxN = 16;
constexpr size_t kIndexedPerCall = 4096;  // tokens of a long text: some hundreds of microseconds

uint64_t mix(uint64_t hash, int32_t token) {
  uint64_t x = hash * 0x9e3779b97f4a7c15ull + static_cast<uint32_t>(token) + 1;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

class NgramLookup final : public Lookup {
 public:
  NgramLookup(int min_n, int max_n, std::vector<int32_t> text) : min_n_(min_n), max_n_(max_n), text_(std::move(text)) {}

  void append(int32_t token) override { text_.push_back(token); }

  LookedUp next(const std::vector<int32_t>& path) override {
    index_some();
    std::vector<int32_t> tail;  // reversed
    const auto take = [&](const std::vector<int32_t>& tokens) {
      for (auto token = tokens.rbegin(); token != tokens.rend() && tail.size() < static_cast<size_t>(max_n_); ++token) {
        tail.push_back(*token);
      }
    };
    take(path);
    take(text_);
    for (int n = static_cast<int>(tail.size()); n >= min_n_; --n) {
      uint64_t hash = n;
      for (int i = 0; i < n; ++i) hash = mix(hash, tail[i]);
      const uint32_t found = positions_.find(hash);
      if (found == GrowingMap<uint32_t>::kNone) continue;
      const uint32_t position = positions_[found];
      if (is_before(position, tail, n)) return {text_[position], 1};
    }
    return {};
  }

 private:
  bool is_before(size_t position, const std::vector<int32_t>& tail, int n) const {
    for (int i = 0; i < n; ++i) {
      if (text_[position - 1 - i] != tail[i]) return false;
    }
    return true;
  }

  // Notes for each position the tokens before it; a later position replaces an earlier one.
  void index_some() {
    const size_t end = std::min(text_.size(), num_indexed_ + kIndexedPerCall);
    for (; num_indexed_ < end; ++num_indexed_) {
      uint64_t hashes[kMaxN + 1];
      const int longest = static_cast<int>(std::min<size_t>(num_indexed_, max_n_));
      for (int n = min_n_; n <= longest; ++n) hashes[n] = n;
      for (int i = 0; i < longest; ++i) {
        for (int n = std::max(i + 1, min_n_); n <= longest; ++n) {
          hashes[n] = mix(hashes[n], text_[num_indexed_ - 1 - i]);
        }
      }
      for (int n = min_n_; n <= longest; ++n) {
        positions_[positions_.put(hashes[n])] = static_cast<uint32_t>(num_indexed_);
      }
    }
  }

  const int min_n_, max_n_;
  std::vector<int32_t> text_;
  GrowingMap<uint32_t> positions_;  // the latest position for each n tokens before it
  size_t num_indexed_ = 0;
};

}  // namespace

NgramSource::NgramSource(int min_n, int max_n) : min_n_(min_n), max_n_(max_n) {
  if (min_n < 1 || max_n < min_n || max_n > kMaxN) {
    throw std::invalid_argument("prompt lookup needs 1 <= min_n <= max_n <= 16");
  }
}

std::unique_ptr<Lookup> NgramSource::start(std::vector<int32_t> text) {
  return std::make_unique<NgramLookup>(min_n_, max_n_, std::move(text));
}

}  // namespace specguide
