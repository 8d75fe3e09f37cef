// Owns the limit of recursion, which follows the nested parts of a grammar, before the stack overflows.
#pragma once

#include <stdexcept>

namespace specguide {

// One more level of a kind of recursive calls, which must not exhaust the stack.
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
