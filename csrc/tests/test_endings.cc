// Endings: what is missing to a grammar's end, computed by several threads at once and also after states were dropped,
// and matchers that end in time.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "endings/builder.h"
#include "endings/ebnf.h"
#include "endings/ending_matcher.h"
#include "endings/lark.h"
#include "endings/utf8_ranges.h"
#include "row.h"
#include "utf8.h"

using namespace specguide;

namespace {

constexpr int32_t kEnd = 256;

// A vocabulary of all bytes, and an end token.
std::shared_ptr<const Vocabulary> vocabulary() {
  static const auto made = [] {
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    bytes.emplace_back();
    return std::make_shared<const Vocabulary>(std::move(bytes), std::vector<int32_t>{kEnd});
  }();
  return made;
}

std::shared_ptr<Endings> endings_of(const Grammar& grammar, std::shared_ptr<AutomatonPool> pool = nullptr,
                                    bool is_exact = false) {
  static const auto trie = std::make_shared<const TokenTrie>(vocabulary());
  if (!pool) pool = std::make_shared<AutomatonPool>(size_t{256} << 20);
  return std::make_shared<Endings>(build_network(grammar, *vocabulary(), is_exact), trie, std::move(pool));
}

// Accepts what an automaton does not refuse, as a library would for the same grammar.
class AutomatonMatcher : public Matcher {
 public:
  explicit AutomatonMatcher(std::shared_ptr<Endings> endings) : endings_(std::move(endings)) {}

  bool accept(int32_t token) override {
    if (is_terminated_ || !allows(token)) return false;
    if (token == kEnd) is_terminated_ = true;
    else text_ += static_cast<char>(token);
    return true;
  }
  void fill(int32_t* row) override {
    for (int word = 0; word < vocabulary()->num_words(); ++word) row[word] = 0;
    for (int32_t token = 0; token <= kEnd; ++token) {
      if (allows(token)) set_bit(row, token);
    }
  }
  void rollback(int n) override {
    if (n > 0 && is_terminated_) is_terminated_ = false, --n;
    text_.resize(text_.size() - static_cast<size_t>(n));
  }
  bool is_terminated() const override { return is_terminated_; }
  std::vector<int32_t> forced_tokens() override { return {}; }

 private:
  bool allows(int32_t token) const {
    if (token == kEnd) return endings_->num_missing(text_) == 1;
    return endings_->num_missing(text_ + static_cast<char>(token)) > 0;
  }

  const std::shared_ptr<Endings> endings_;
  std::string text_;
  bool is_terminated_ = false;
};

const char* const kJson = R"(root ::= value
value ::= "{" (pair ("," pair)*)? "}" | "[" (value ("," value)*)? "]" | "\"" [^"\\]{0,5} "\"" | [0-9]+ | "null"
pair ::= "\"" [a-z]* "\":" value)";

}  // namespace

TEST(what_is_missing_is_counted_in_tokens) {
  const auto endings = endings_of(read_ebnf(kJson));
  const std::vector<std::pair<std::string, int64_t>> expected{
      {"", 2},   {"[", 2},  {"[[[", 4},     {"{\"a\":", 3}, {"{\"a", 5},
      {"12", 1}, {"nu", 3}, {"\"abcde", 2}, {"\"abcdef", -1}};
  for (const auto& [text, missing] : expected) {
    CHECK(endings->num_missing(text) == missing);
  }
}

TEST(a_class_of_many_ranges_takes_few_nodes) {
  Expression every_third = Expression::one_of({});
  for (uint32_t code = 0; code <= kLastCode; code += 3) every_third.ranges.push_back({code, code});
  const auto network = build_network({{{"root", every_third}}}, *vocabulary(), /*is_exact=*/true);
  std::vector<int32_t> met{network->start(network->root())};
  for (size_t i = 0; i < met.size(); ++i) {
    for (const int32_t next : (*network)[met[i]].next) {
      if (std::find(met.begin(), met.end(), next) == met.end()) met.push_back(next);
    }
  }
  CHECK(met.size() < 20);
  Automaton automaton(network, std::make_shared<AutomatonPool>(size_t{1} << 20));
  Automaton::Walk walk(automaton);
  for (uint32_t code = 0; code <= kLastCode; ++code) {
    std::string text;
    append_utf8(text, code);
    const Automaton::State state = walk.step(walk.start(), text);
    const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
    CHECK((state != Automaton::kDead && walk.may_end(state)) == (code % 3 == 0 && !is_surrogate));
  }
}

TEST(threads_share_states) {
  const auto endings = endings_of(read_ebnf(kJson));
  std::vector<std::thread> threads;
  std::vector<int> num_wrong(4);
  for (size_t i = 0; i < num_wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int depth = 1; depth < 60; ++depth) {
        if (endings->num_missing(std::string(static_cast<size_t>(depth), '[')) != depth + 1) ++num_wrong[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int wrong : num_wrong) CHECK(wrong == 0);
}

TEST(states_that_take_too_much_memory_are_forgotten) {
  const auto endings = endings_of(read_lark("start: /(a|b)*a(a|b){18}/"));
  uint32_t random = 1;
  int num_afterwards = 0;
  for (int i = 0; i < 150 && num_afterwards < 5; ++i) {
    std::string text;
    while (text.size() < 1000) {
      random = random * 1664525u + 1013904223u;
      text += (random >> 31) != 0 ? 'a' : 'b';
    }
    CHECK(endings->num_missing(text) >= 1);
    num_afterwards += Automaton::Walk(*endings->automaton()).epoch() > 1;
  }
  CHECK(num_afterwards == 5);
}

TEST(many_grammars_take_no_more_than_their_pool) {
  constexpr size_t kMost = 200'000;
  const auto pool = std::make_shared<AutomatonPool>(kMost);
  std::vector<std::shared_ptr<Endings>> all;
  for (int i = 0; i < 8; ++i) all.push_back(endings_of(read_ebnf(kJson), pool));
  std::vector<std::thread> threads;
  std::vector<int> num_wrong(4);
  for (size_t i = 0; i < num_wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (size_t depth = 1; depth < 400; ++depth) {
        const auto& endings = all[(i + depth) % all.size()];
        if (endings->num_missing(std::string(depth % 80, '[')) !=
            std::max<int64_t>(2, static_cast<int64_t>(depth % 80) + 1)) {
          ++num_wrong[i];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int wrong : num_wrong) CHECK(wrong == 0);
  all[0]->num_missing("[");
  CHECK(pool->num_bytes() > 0 && pool->num_bytes() <= kMost);
  int64_t num_forgotten = 0;
  for (const auto& endings : all) num_forgotten += Automaton::Walk(*endings->automaton()).epoch() - 1;
  CHECK(num_forgotten > 0);
  all.clear();
  CHECK(pool->num_bytes() == 0);
}

TEST(outputs_end_in_time) {
  const auto endings = endings_of(read_ebnf(kJson));
  for (int64_t most = endings->num_least(); most < 40; ++most) {
    EndingMatcher matcher(std::make_shared<AutomatonMatcher>(endings), endings, most);
    std::vector<int32_t> row(static_cast<size_t>(vocabulary()->num_words()));
    uint32_t random = static_cast<uint32_t>(most);
    int64_t num_taken = 0;
    while (!matcher.is_terminated()) {
      matcher.fill(row.data());
      std::vector<int32_t> allowed;
      for (int32_t token = 0; token <= kEnd; ++token) {
        if (has_bit(row.data(), token)) allowed.push_back(token);
      }
      CHECK(!allowed.empty());
      random = random * 1664525u + 1013904223u;
      CHECK(matcher.accept(allowed[(random >> 8) % allowed.size()]));
      if (++num_taken > most) break;
      if (matcher.is_terminated() || (random >> 28) > 3) continue;
      matcher.rollback(1);
      --num_taken;
    }
    CHECK(num_taken <= most);
  }
}

// Bytes, and words of whole and incomplete characters, some of them twice.
std::shared_ptr<const Vocabulary> vocabulary_of_words() {
  const std::vector<std::string> parts{"a", "b7", " ", "\"", "\",\"", "\"}", "\\n", "\x01", "\xC3\xA9", "\xE6\x97\xA5",
                                       "\xF0\x9F\x98\x80", "\xE6\x97", "\xA5", "\xED\xA0\x80", "m\":\""};
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  bytes.emplace_back();
  for (const std::string& first : parts) {
    for (const std::string& second : parts) {
      for (const std::string& third : parts) bytes.push_back(first + second + third);
    }
  }
  bytes.push_back("aaa");
  return std::make_shared<const Vocabulary>(std::move(bytes), std::vector<int32_t>{kEnd});
}

TEST(rows_keep_the_tokens_behind_which_texts_may_end_in_time) {
  const auto words = vocabulary_of_words();
  const TokenTrie trie(words);
  const Grammar grammar = read_ebnf(R"(root ::= "{" "\"k\":" string "," "\"m\":" string "}"
string ::= "\"" [^"\\]* "\"")");
  Automaton automaton(build_network(grammar, *words, /*is_exact=*/false),
                      std::make_shared<AutomatonPool>(size_t{64} << 20));
  Automaton::Walk walk(automaton);
  for (const std::string text :
       {"", "{\"k\":", "{\"k\":\"", "{\"k\":\"a\xC3\xA9", "{\"k\":\"\xE6", "{\"k\":\"\",\"m\":\"a"}) {
    const Automaton::State state = walk.step(walk.start(), text);
    std::vector<int64_t> missing;  // behind each token; -1: it may not follow
    for (const std::string& bytes : words->token_bytes) {
      const Automaton::State behind = bytes.empty() ? Automaton::kDead : walk.step(state, bytes);
      missing.push_back(behind == Automaton::kDead ? -1 : walk.least(behind));
    }
    for (const int32_t num_tokens : {300, words->size()}) {  // in a row, few and many
      std::vector<int32_t> all(static_cast<size_t>(words->num_words()));
      for (int32_t token = 0; token < num_tokens; ++token) set_bit(all.data(), token);
      const auto last = missing.begin() + num_tokens;
      int64_t least = Network::kNever;
      for (auto one = missing.begin(); one != last; ++one) least = *one < 0 ? least : std::min(least, *one);
      CHECK(walk.least_behind(state, trie, all.data()) == least);
      for (int64_t most = 0; most < 12; ++most) {
        std::vector<int32_t> row = all;
        walk.keep_endable(state, trie, most, row.data());
        const bool all_fit = *std::max_element(missing.begin(), last) <= most;
        for (int32_t token = 0; token < num_tokens; ++token) {
          const int64_t behind = missing[static_cast<size_t>(token)];
          CHECK(has_bit(row.data(), token) == (all_fit || (behind >= 0 && behind <= most)));
        }
      }
    }
  }
}

TEST(rows_are_shared_where_texts_go_on_alike) {
  const auto endings = endings_of(read_ebnf(kJson), nullptr, true);
  CHECK(endings->is_exact());
  std::vector<std::thread> threads;
  std::vector<int> num_wrong(4);
  for (size_t i = 0; i < num_wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      AutomatonMatcher own(endings);
      EndingMatcher matcher(std::make_shared<AutomatonMatcher>(endings), endings, int64_t{1} << 62);
      const auto num_words = static_cast<size_t>(vocabulary()->num_words());
      std::vector<int32_t> row(num_words), expected(num_words);
      uint32_t random = static_cast<uint32_t>(i);
      for (int step = 0; step < 60 && !matcher.is_terminated(); ++step) {
        matcher.fill(row.data());
        own.fill(expected.data());
        if (row != expected) ++num_wrong[i];
        random = random * 1664525u + 1013904223u;
        int32_t token = static_cast<int32_t>(random >> 24);
        while (!has_bit(row.data(), token)) token = (token + 1) % (kEnd + 1);
        if (!matcher.accept(token) || !own.accept(token)) ++num_wrong[i];
        if (step % 5 != 4) continue;
        matcher.rollback(1);
        own.rollback(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int wrong : num_wrong) CHECK(wrong == 0);
  CHECK(endings->num_shared > 0);
}

TEST(half_of_a_surrogate_pair_is_refused) {
  CHECK(!read_lark("start: \"\\udbff\\udfff\"").rules.empty());
  const auto read = [] { read_lark("start: \"\\udbff\\uffff\""); };
  CHECK_CONTAINS(check::message_of<std::invalid_argument>(read), "half of a surrogate pair");
}
