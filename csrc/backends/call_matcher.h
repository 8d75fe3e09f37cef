// Owns the matcher of messages with tool calls whose arguments have grammars of their own, which are compiled when a
// call has come as far as its tool's name.
//
// A part is a grammar of the rest of a message: the first of the whole message, each other one from behind a tool's
// name on. In each of them the arguments of those tools are left out that have a part of their own. No token may reach
// from a tool's name into its arguments; so between the two there is a place where one part takes over from another.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/call_walk.h"
#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

// What the matchers of a grammar share.
//
// has_part: by the number of a tool, whether its arguments have a part of their own
// part:     gives a matcher at the start of the part for a tool, behind whose name `num_left` bytes of the lead are
//           still to come; for a tool of -1, one of the whole message. May wait for a compile. Throws where there is no
//           matcher.
struct Calls {
  CallWalk walk;
  std::vector<bool> has_part;
  std::shared_ptr<const Vocabulary> vocabulary;
  std::function<std::shared_ptr<Matcher>(int call, size_t num_left)> part;
};

class CallMatcher final : public Matcher {
 public:
  explicit CallMatcher(std::shared_ptr<const Calls> calls);

  bool accept(int32_t token) override;
  void fill(int32_t* row) override { here().fill(row); }
  void rollback(int n) override;
  bool is_terminated() const override { return parts_.back().matcher->is_terminated(); }
  std::vector<int32_t> forced_tokens() override;
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                        const Spelling& spelling) override {
    return here().forced_drafts(row, num_words, limit, spelling);
  }

 private:
  struct Part {
    int call;
    size_t num_left;
    std::shared_ptr<Matcher> matcher;
    std::vector<int32_t> tokens{};  // that it has taken
  };

  static constexpr size_t kMostMatchers = 2;

  Matcher& here() { return *parts_.back().matcher; }
  void enter(const CallState& state);
  void leave();

  const std::shared_ptr<const Calls> calls_;
  std::vector<Part> parts_;       // the last ones have their matchers
  std::optional<Part> left_;      // the last that was rolled back, at its start: a tree may come back to it
  std::vector<CallState> states_;  // before each token, and behind the last
};

}  // namespace specguide
