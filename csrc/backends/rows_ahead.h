// Owns the rows that were computed while looking ahead along forced text, so that the walk that then takes this text
// can reuse them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace specguide {

// Follows a matcher whose rows depend only on the text that it has accepted, not on its spelling.
class RowsAhead {
 public:
  // Forgets everything. The text begins here; until `stop`, accepted tokens extend it, and the rows filled after it are
  // kept.
  void start();
  void stop() { is_learning_ = false; }

  // The matcher has accepted a token with these bytes, or rolled back the last `num_tokens`. Everything is forgotten
  // when it leaves the text.
  void take(const std::string& bytes);
  void rollback(int num_tokens);

  // Whether the row for the present place is known; if so, it is copied.
  bool find(int32_t* row, size_t num_words) const;
  void learn(const int32_t* row, size_t num_words);
  void forget();

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  size_t here() const { return positions_.empty() ? kNowhere : positions_.back(); }

  std::string text_;
  std::vector<size_t> positions_;  // bytes of the text before each token since the start, and before the next
  std::vector<size_t> known_;      // positions whose rows are kept, in the order of the rows
  std::vector<int32_t> rows_;
  bool is_learning_ = false;
};

}  // namespace specguide
