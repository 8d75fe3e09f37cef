// Owns one request that goes through small trees of drafts, and a matcher that records its calls.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor_rig.h"

namespace tree_case {

using namespace specguide;
using namespace std::chrono_literals;
using Tokens = std::vector<int32_t>;

constexpr auto kLong = 10s;
constexpr auto kShort = 200ms;  // a busy machine can keep to it, and a test can wait for it
constexpr int32_t kRefused = 50, kEnd = fake::kEnd;

// Accepts any token except the refused one; the first word of its rows is the last token. It records its calls.
class TellingMatcher : public Matcher {
 public:
  bool refuses_what_it_allows = false;
  int32_t refused = kRefused, failing = -1;  // at the latter it throws, and forgets its tokens
  std::chrono::milliseconds sleep_at_7{0};  // in the fill after token 7, once

  bool accept(int32_t token) override {
    asked += " +" + std::to_string(token);
    if (token == failing) {
      taken.clear();
      throw std::runtime_error("oh");
    }
    if (token == refused || is_terminated()) return false;
    taken.push_back(token);
    return true;
  }
  void fill(int32_t* row) override {
    if (!taken.empty() && taken.back() == 7) std::this_thread::sleep_for(std::exchange(sleep_at_7, 0ms));
    const uint32_t allowed = refuses_what_it_allows ? ~0u : ~(1u << (kRefused % 32));
    row[0] = taken.empty() ? -1 : taken.back();
    row[1] = static_cast<int32_t>(allowed);
    row[2] = 63;
  }
  void rollback(int n) override {
    asked += " -" + std::to_string(n);
    taken.resize(taken.size() - static_cast<size_t>(n));
  }
  bool is_terminated() const override { return !taken.empty() && taken.back() == kEnd; }
  std::vector<int32_t> forced_tokens() override { return {}; }

  std::string take_asked() { return std::exchange(asked, ""); }
  Tokens taken;
  std::string asked;
};

struct Draft {
  int parent;
  int32_t token;
};

// One request that goes through trees of two stages with three drafts each: nodes 1 … 3, then 4 … 6.
struct Case {
  explicit Case(std::chrono::microseconds deadline = kLong, bool restarts = false)
      : rig(1, DraftShape::tree({0, 1, 4, 7}), 1, deadline) {
    Walk::Restart restart = [this](const Tokens& tokens) {
      made.push_back(std::make_shared<TellingMatcher>());
      made.back()->taken = tokens;
      return made.back();
    };
    rig.executor->submit({{0, matcher, {}, {}, restarts ? restart : nullptr}}, {});
    rig.call(0);
  }
  void verify(const std::vector<int>& path, int32_t golden) {
    rig.accept(0, path, golden);
    rig.call(1);
  }
  void place(int first, const std::vector<Draft>& drafts) {
    for (size_t i = 0; i < drafts.size(); ++i) {
      rig.token(0, first + static_cast<int>(i)) = drafts[i].token;
      rig.parent(0, first + static_cast<int>(i)) = drafts[i].parent;
    }
  }
  void wait() const {
    for (int i = 0; i < 1000 && !rig.executor->is_idle(0); ++i) std::this_thread::sleep_for(5ms);
  }
  void draft(const std::vector<Draft>& stage_1, const std::vector<Draft>& stage_2) {
    place(1, stage_1);
    rig.call(2);
    place(4, stage_2);
    begin();
  }
  void begin(std::optional<DraftLimits> limits = {}) {
    rig.executor->submit({}, {0}, limits);
    rig.call(0);
  }
  std::vector<int> guided() const {
    std::vector<int> nodes;
    for (int node = 0; node < rig.num_nodes; ++node) {
      if (rig.is_guided(0, node)) nodes.push_back(node);
    }
    return nodes;
  }
  std::string error() const { return rig.executor->error(0).value_or(""); }

  std::shared_ptr<TellingMatcher> matcher = std::make_shared<TellingMatcher>();
  std::vector<std::shared_ptr<TellingMatcher>> made;  // replacements of the first matcher
  ExecutorRig rig;
};

}  // namespace tree_case
