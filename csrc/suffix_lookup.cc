#include "suffix_lookup.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <utility>

#include "suffix_trie.h"

namespace specguide {

namespace {

constexpr size_t kKnownTokens = 16384;    // a text's last tokens that are searched, at least
constexpr size_t kAppendedPerCall = 512;  // tokens of a long text: some hundreds of microseconds
constexpr size_t kAppendedPerLock = 32;

}  // namespace

// The outputs of requests that have ended.
class SuffixCache {
 public:
  SuffixCache(int max_depth, size_t max_nodes) : tries_(max_depth, max_nodes) {}

  void add(const std::vector<int32_t>& output) {
    SuffixTries::Place place;
    for (size_t begin = 0; begin < output.size(); begin += kAppendedPerLock) {
      std::unique_ptr<SuffixTrie> evicted;  // released outside the lock
      std::unique_lock lock(mutex_);
      evicted = tries_.make_room(place);
      const size_t end = std::min(output.size(), begin + kAppendedPerLock);
      for (size_t i = begin; i < end; ++i) tries_.append(place, output[i]);
      lock.unlock();
    }
  }

  SuffixTrie::Match match(const std::vector<int32_t>& tail) const {
    std::shared_lock lock(mutex_);
    return tries_.match(tail);
  }

  size_t num_nodes() const {
    std::shared_lock lock(mutex_);
    return tries_.num_nodes();
  }

  int max_depth() const { return tries_.max_depth(); }

 private:
  mutable std::shared_mutex mutex_;
  SuffixTries tries_;
};

namespace {

class SuffixLookup final : public Lookup {
 public:
  SuffixLookup(std::shared_ptr<SuffixCache> cache, std::vector<int32_t> text)
      : cache_(std::move(cache)),
        own_(cache_->max_depth(), 2 * kKnownTokens * static_cast<size_t>(cache_->max_depth())),
        text_(std::move(text)),
        num_given_(text_.size()) {
    if (text_.size() > kKnownTokens) num_appended_ = text_.size() - kKnownTokens;
  }

  void append(int32_t token) override { text_.push_back(token); }

  LookedUp next(const std::vector<int32_t>& path) override {
    const size_t end = std::min(text_.size(), num_appended_ + kAppendedPerCall);
    own_.make_room(place_);
    for (; num_appended_ < end; ++num_appended_) own_.append(place_, text_[num_appended_]);
    std::vector<int32_t> tail;  // reversed
    const auto longest = static_cast<size_t>(own_.max_depth() - 1);
    for (auto token = path.rbegin(); token != path.rend() && tail.size() < longest; ++token) tail.push_back(*token);
    for (auto token = text_.rbegin(); token != text_.rend() && tail.size() < longest; ++token) tail.push_back(*token);
    const SuffixTrie::Match own = own_.match(tail), others = cache_->match(tail);
    return others.length > own.length ? others.next : own.next;
  }

  void finish() override { cache_->add({text_.begin() + static_cast<std::ptrdiff_t>(num_given_), text_.end()}); }

 private:
  const std::shared_ptr<SuffixCache> cache_;
  SuffixTries own_;
  SuffixTries::Place place_;
  std::vector<int32_t> text_;
  const size_t num_given_;  // tokens of the prompt
  size_t num_appended_ = 0;
};

}  // namespace

SuffixSource::SuffixSource(int max_depth, size_t max_nodes, double least_probability)
    : cache_(std::make_shared<SuffixCache>(max_depth, max_nodes)), least_probability_(least_probability) {
  if (max_depth < 2 || max_depth > 64 || max_nodes < 2) {
    throw std::invalid_argument("suffix drafting needs a max_depth of 2 to 64 and at least 2 nodes");
  }
  if (!(least_probability >= 0 && least_probability <= 1)) {
    throw std::invalid_argument("least_probability must be 0 to 1");
  }
}

std::unique_ptr<Lookup> SuffixSource::start(std::vector<int32_t> text) {
  return std::make_unique<SuffixLookup>(cache_, std::move(text));
}

size_t SuffixSource::num_nodes() const { return cache_->num_nodes(); }

}  // namespace specguide
