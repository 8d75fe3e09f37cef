#include "row_numbers.h"

#include <mutex>
#include <utility>

namespace specguide {

int64_t RowNumbers::of(int64_t content) {
  if (content == 0 || num_kept() == 0) return own();
  const std::lock_guard lock(lock_);
  int64_t& number = numbers_[content];
  if (number > 0 && is_recent(number)) return number;
  number = last_.load(std::memory_order_relaxed) + 1;
  last_.store(number, std::memory_order_relaxed);
  const int64_t before = std::exchange(contents_[static_cast<size_t>(number % num_kept())], content);
  const auto old = numbers_.find(before);
  if (before != content && old != numbers_.end() && old->second == number - num_kept()) numbers_.erase(old);
  return number;
}

}  // namespace specguide
