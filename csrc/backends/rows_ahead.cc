#include "backends/rows_ahead.h"

#include <algorithm>

namespace specguide {

void RowsAhead::start() {
  forget();
  positions_.push_back(0);
  is_learning_ = true;
}

void RowsAhead::forget() {
  text_.clear();
  positions_.clear();
  known_.clear();
  rows_.clear();
  is_learning_ = false;
}

void RowsAhead::take(const std::string& bytes) {
  const size_t position = here();
  if (position == kNowhere) return;
  if (is_learning_ && position == text_.size()) text_ += bytes;
  if (bytes.empty() || text_.compare(position, bytes.size(), bytes) != 0) return forget();  // empty: a special token
  positions_.push_back(position + bytes.size());
}

void RowsAhead::rollback(int num_tokens) {
  if (static_cast<size_t>(num_tokens) >= positions_.size()) return forget();
  positions_.resize(positions_.size() - static_cast<size_t>(num_tokens));
}

bool RowsAhead::find(int32_t* row, size_t num_words) const {
  const auto found = std::find(known_.begin(), known_.end(), here());
  if (found == known_.end()) return false;
  std::copy_n(rows_.begin() + (found - known_.begin()) * static_cast<std::ptrdiff_t>(num_words), num_words, row);
  return true;
}

void RowsAhead::learn(const int32_t* row, size_t num_words) {
  if (!is_learning_) return;
  known_.push_back(here());
  rows_.insert(rows_.end(), row, row + num_words);
}

}  // namespace specguide
