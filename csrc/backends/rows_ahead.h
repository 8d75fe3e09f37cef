// Owns the rows that a look ahead along forced text has computed, so that the walk that then takes this text has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace specguide {

// Follows a matcher, whose rows depend on the text that it has taken alone, however that is spelt.
class RowsAhead {
 public:
  // Forgets all. What is taken from here on is the text, and rows that are filled behind it are kept, until `stop`.
  void start();
  void stop() { is_learning_ = false; }

  // The matcher has taken a token of these bytes, or taken back the last `num_tokens`. Away from the text all is
  // forgotten.
  void take(const std::string& bytes);
  void rollback(int num_tokens);

  // Whether the row of what may follow here is known; then it is copied.
  bool find(int32_t* row, size_t num_words) const;
  void learn(const int32_t* row, size_t num_words);
  void forget();

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  size_t here() const { return positions_.empty() ? kNowhere : positions_.back(); }

  std::string text_;
  std::vector<size_t> positions_;  // bytes of the text before each token taken since the start, and before the next
  std::vector<size_t> known_;      // positions whose rows are kept, in the order of the rows
  std::vector<int32_t> rows_;
  bool is_learning_ = false;
};

}  // namespace specguide
