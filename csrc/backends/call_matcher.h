// Owns the matcher of messages with tool calls whose arguments have grammars of their own, which are compiled when a
// call has come as far as its tool's name.
//
// A part is a grammar of the rest of a message: the first of the whole message, each other one from behind a tool's
// name on. In each of them the arguments of those tools are left out that have a part of their own. Where a token
// reaches from a tool's name into its arguments, the part begins before that token; and the part before, which takes
// any text for arguments, does not tell whether such a token may follow: the part does.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/call_walk.h"
#include "backends/vocabulary.h"
#include "matcher.h"

namespace specguide {

// What the matchers of a grammar share.
//
// lead:     what is between a tool's name and its arguments, behind the first byte or special token
// has_part: by the number of a tool, whether its arguments have a part of their own
// reaching: all tokens that may reach from a tool's name into its arguments
// part:     gives a matcher at the start of the part for a tool, in which a text comes before the arguments; for a tool
//           of -1, one of the whole message. May wait for a compile. Throws where there is no matcher.
struct Calls {
  using Part = std::function<std::shared_ptr<Matcher>(int call, const std::string& before)>;

  Calls(CallWalk call_walk, std::string rest_of_lead, std::vector<bool> have_parts,
        std::shared_ptr<const Vocabulary> words, const std::vector<int32_t>& reaching, Part make_part);

  // The calls that a token finds.
  std::vector<FoundCall> take(CallState& state, int32_t token) const;
  // Of the tokens that reach into arguments, those that may do so in this state; in the bits of a row. None: no token.
  const std::vector<int32_t>* reaching(const CallState& state) const;
  // What is to come before the arguments of a call, from the token on that found it, or from behind that.
  std::string before(const FoundCall& call, int32_t token) const;
  bool reaches(const FoundCall& call, int32_t token) const;

  const CallWalk walk;
  const std::string lead;
  const std::vector<bool> has_part;
  const std::shared_ptr<const Vocabulary> vocabulary;
  const Part part;

 private:
  std::vector<int32_t> reaching_, reaching_later_;
  size_t most_reaching_ = 0;  // bytes
};

class CallMatcher final : public Matcher {
 public:
  explicit CallMatcher(std::shared_ptr<const Calls> calls);

  bool accept(int32_t token) override;
  void fill(int32_t* row) override;
  void rollback(int n) override;
  bool is_terminated() const override { return parts_.back().matcher->is_terminated(); }
  std::vector<int32_t> forced_tokens() override;
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                        const Spelling& spelling) override {
    return here().forced_drafts(row, num_words, limit, spelling);
  }

 private:
  // first: the token that reaches into the arguments, which the matcher takes first; -1: none does
  struct Part {
    int call = -1;
    std::string before{};
    int32_t first = -1;
    std::shared_ptr<Matcher> matcher{};
    std::vector<int32_t> tokens{};  // that it has taken, behind the first

    bool is_like(const Part& other) const {
      return call == other.call && first == other.first && before == other.before;
    }
  };
  // What a part says of tokens that reach into its arguments.
  struct Verdict {
    int call;
    std::string before;
    std::vector<int32_t> row;
  };

  static constexpr size_t kMostMatchers = 2, kMostVerdicts = 4;

  Matcher& here() { return *parts_.back().matcher; }
  bool start(Part& part) const;
  bool enter(const FoundCall& found, int32_t token);
  void leave();
  void judge(int32_t* row, int32_t token);
  const Verdict& verdict(const FoundCall& found, int32_t token);

  const std::shared_ptr<const Calls> calls_;
  std::vector<Part> parts_;       // the last ones have their matchers
  std::optional<Part> left_;      // the last that was rolled back, at its start: a tree may come back to it
  std::vector<CallState> states_;  // before each token, and behind the last
  std::vector<Verdict> verdicts_;  // the last ones
};

}  // namespace specguide
