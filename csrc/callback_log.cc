#include "callback_log.h"

#include <algorithm>
#include <stdexcept>

namespace specguide {

void CallbackLog::start(size_t capacity) {
  if (capacity == 0) throw std::invalid_argument("capacity must be at least 1");
  std::lock_guard lock(mutex_);
  ring_.assign(capacity, {});
  num_added_ = 0;
  is_on_.store(true, std::memory_order_release);
}

void CallbackLog::push(CallbackSpan span) {
  std::lock_guard lock(mutex_);
  ring_[num_added_++ % ring_.size()] = span;
}

std::vector<CallbackSpan> CallbackLog::take() {
  std::lock_guard lock(mutex_);
  const size_t num_kept = std::min(num_added_, ring_.size());
  std::vector<CallbackSpan> spans;
  spans.reserve(num_kept);
  for (size_t i = num_added_ - num_kept; i < num_added_; ++i) spans.push_back(ring_[i % ring_.size()]);
  num_added_ = 0;
  return spans;
}

}  // namespace specguide
