// Spelling: the target's habits are learnt from its choices where text is forced, and drafts follow them.
#include "spelling.h"

#include <string>

#include "backends/forced_tokens.h"
#include "check.h"
#include "executor_rig.h"

using namespace specguide;
using namespace std::chrono_literals;
using Tokens = std::vector<int32_t>;

namespace {

constexpr int32_t kA = 1, kB = 2, kAb = 3;

const Vocabulary& vocabulary() {
  static const Vocabulary made = [] {
    std::vector<std::string> bytes(fake::kVocab);
    bytes[kA] = "a", bytes[kB] = "b", bytes[kAb] = "ab";
    return Vocabulary(std::move(bytes), {0});
  }();
  return made;
}

// A language with one text, in any spelling.
class TextMatcher : public Matcher {
 public:
  explicit TextMatcher(std::string text) : text_(std::move(text)) {}

  bool accept(int32_t token) override {
    if (is_terminated() || !allows(token)) return false;
    taken_.push_back(token);
    num_bytes_ += bytes(token).size();
    return true;
  }
  void fill(int32_t* row) override {
    std::fill(row, row + fake::kWords, 0);
    for (const int32_t token : {kA, kB, kAb}) row[0] |= allows(token) ? 1 << token : 0;
  }
  void rollback(int n) override {
    for (; n > 0; --n) {
      num_bytes_ -= bytes(taken_.back()).size();
      taken_.pop_back();
    }
  }
  bool is_terminated() const override { return num_bytes_ == text_.size(); }
  std::vector<int32_t> forced_tokens() override { return {}; }
  std::vector<SpeltToken> forced_drafts(const int32_t* row, size_t, size_t limit, const Spelling& spelling) override {
    int32_t scratch[fake::kWords];
    return find_forced_drafts(*this, vocabulary(), forced_token(row, vocabulary()), limit, spelling, scratch);
  }

 private:
  static const std::string& bytes(int32_t token) { return vocabulary().token_bytes[static_cast<size_t>(token)]; }
  bool allows(int32_t token) const { return text_.compare(num_bytes_, bytes(token).size(), bytes(token)) == 0; }

  const std::string text_;
  Tokens taken_;
  size_t num_bytes_ = 0;
};

std::string repeated(const char* text, int times) {
  std::string whole;
  for (int i = 0; i < times; ++i) whole += text;
  return whole;
}

}  // namespace

TEST(what_is_said_twice_is_a_habit) {
  Spelling spelling(10);
  spelling.learn(7, 3);
  CHECK(spelling.of(7) == 7);
  spelling.learn(7, 3);
  CHECK(spelling.of(7) == 3 && spelling.of(3) == 3);
}

TEST(one_exception_does_not_end_a_habit_that_has_lasted) {
  Spelling spelling(10);
  for (int i = 0; i < 5; ++i) spelling.learn(7, 3);
  spelling.learn(7, 7);
  CHECK(spelling.of(7) == 3);
  spelling.learn(7, 4);
  CHECK(spelling.of(7) == 7);
  spelling.learn(7, 4);
  spelling.learn(7, 4);
  CHECK(spelling.of(7) == 4);
}

TEST(tokens_that_are_none_are_nobodys_habit) {
  Spelling nothing(0), spelling(10);
  nothing.learn(7, 3);
  for (int i = 0; i < 3; ++i) spelling.learn(-1, 3), spelling.learn(10, 3), spelling.learn(7, -1);
  CHECK(nothing.of(7) == 7 && spelling.of(-1) == -1 && spelling.of(10) == 10 && spelling.of(7) == 7);
}

TEST(forced_text_is_spelt_by_habit_as_far_as_that_spells_it) {
  TextMatcher matcher("ababab");
  int32_t scratch[fake::kWords];
  const auto drafts = [&](const Spelling& spelling) {
    Tokens tokens, canonical;
    for (const SpeltToken& draft : find_forced_drafts(matcher, vocabulary(), kAb, 4, spelling, scratch)) {
      tokens.push_back(draft.token);
      canonical.push_back(draft.canonical);
    }
    return std::make_pair(tokens, canonical);
  };
  Spelling spelling(fake::kVocab);
  CHECK((drafts(spelling) == std::make_pair(Tokens{kAb, kAb, kAb}, Tokens{kAb, kAb, kAb})));
  for (int i = 0; i < 2; ++i) spelling.learn(kAb, kB);  // it does not begin the text
  CHECK((drafts(spelling).first == Tokens{kAb, kAb, kAb}));
  for (int i = 0; i < 4; ++i) spelling.learn(kAb, kA);
  CHECK((drafts(spelling) == std::make_pair(Tokens{kA, kB, kA, kB}, Tokens{kAb, kB, kAb, kB})));
}

TEST(walks_learn_from_what_is_verified_for_all_requests) {
  ExecutorRig rig(2, {0, 4}, 1, 10s);
  const auto start = [&](int slot) {
    std::vector<GrammarExecutor::Start> started;
    started.emplace_back(slot, std::make_shared<TextMatcher>("b" + repeated("ab", 9)), Tokens{});
    rig.executor->submit(std::move(started), {});
    rig.call(0);
  };
  const auto verify = [&](int slot, int num_accepted, int32_t golden) {
    rig.num_accepted[slot] = num_accepted;
    rig.token(slot, 0) = golden;
    rig.call(1);
    return rig.chain(slot);
  };
  const auto go_on = [&](int slot) {
    rig.executor->submit({}, {slot});
    rig.call(0);
  };
  start(0);
  CHECK((verify(0, 0, kB) == Tokens{kAb, kAb, kAb, kAb}));
  go_on(0);
  CHECK((verify(0, 0, kA) == Tokens{kB, kAb, kAb, kAb}));
  go_on(0);
  CHECK((verify(0, 1, kA) == Tokens{kB, kA, kB, kA}));  // the second time
  go_on(0);
  CHECK((verify(0, 4, kB) == Tokens{kA, kB, kA, kB}));
  start(1);
  CHECK((verify(1, 0, kB) == Tokens{kA, kB, kA, kB}));
  CHECK(!rig.executor->error(0) && !rig.executor->error(1));
}
