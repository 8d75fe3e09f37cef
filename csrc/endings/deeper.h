// Owns the limit to calls that lead into each other, as the parts of a grammar do, before the stack ends.
#pragma once

#include <stdexcept>

namespace specguide {

// One more call within the calls of a kind that lead into each other, which must not come to the stack's end.
class Deeper {
 public:
  static constexpr int kMost = 2'000;

  explicit Deeper(int& depth) : depth_(++depth) {
    if (depth_ <= kMost) return;
    --depth_;
    throw std::invalid_argument("the grammar's parts lead too deep into each other");
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace specguide
