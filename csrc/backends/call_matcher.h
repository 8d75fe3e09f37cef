// Owns the matcher of messages with tool calls whose arguments have their own grammars. These are compiled when a call
// has reached its tool's name.
//
// A part is a grammar of the rest of a message: the first one of the whole message, each other one from the end of a
// tool's name on. Each part leaves out the arguments of those tools that have their own part. If a token reaches from a
// tool's name into its arguments, the new part begins before that token. The part before cannot say whether such a
// token may follow, because it allows any text as arguments; the new part decides that.
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
// lead:     the text between a tool's name and its arguments, without its first byte or special token
// has_part: by the number of a tool, whether its arguments have their own part
// reaching: all tokens that may reach from a tool's name into its arguments
// part:     makes a matcher at the start of a tool's part, where a given text comes before the arguments; for tool -1,
//           of the whole message. May wait for a compile. Throws if there is no matcher.
struct Calls {
  using Part = std::function<std::shared_ptr<Matcher>(int call, const std::string& before)>;

  Calls(CallWalk call_walk, std::string rest_of_lead, std::vector<bool> have_parts,
        std::shared_ptr<const Vocabulary> words, const std::vector<int32_t>& reaching, Part make_part);

  // The calls whose names a token completes.
  std::vector<FoundCall> take(CallState& state, int32_t token) const;
  // A row with those tokens that may reach into arguments in this state. Null: there are none.
  const std::vector<int32_t>* reaching(const CallState& state) const;
  // What must come before the arguments of a call: from the token on in which its name ended, or from behind that
  // token.
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
  // first: the token that reaches into the arguments, which the matcher accepts first; -1: none does
  struct Part {
    int call = -1;
    std::string before{};
    int32_t first = -1;
    std::shared_ptr<Matcher> matcher{};
    std::vector<int32_t> tokens{};  // the tokens that it has accepted, without the first

    bool is_like(const Part& other) const {
      return call == other.call && first == other.first && before == other.before;
    }
  };
  // What a part allows among the tokens that reach into its arguments.
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
  std::vector<Part> parts_;       // only the last ones have their matchers
  std::optional<Part> left_;      // the last that was rolled back, at its start: a tree may return to it
  std::vector<CallState> states_;  // before each token, and after the last
  std::vector<Verdict> verdicts_;  // the most recent ones
};

}  // namespace specguide
