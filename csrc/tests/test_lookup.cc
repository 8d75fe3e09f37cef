// Lookups: the proposals of prompt lookup and suffix drafting, and the bound on their memory.
#include <random>
#include <thread>
#include <unordered_map>

#include "check.h"
#include "growing_map.h"
#include "ngram_lookup.h"
#include "suffix_lookup.h"
#include "suffix_trie.h"

using namespace specguide;
using check::message_of;
using Tokens = std::vector<int32_t>;

namespace {

// What followed the latest occurrence of the longest suffix, by linear search.
int32_t search(const Tokens& text, const Tokens& path, int min_n, int max_n) {
  Tokens all = text;
  all.insert(all.end(), path.begin(), path.end());
  for (int n = std::min<int>(max_n, all.size()); n >= min_n; --n) {
    for (int at = static_cast<int>(text.size()) - 1; at >= n; --at) {
      if (std::equal(all.end() - n, all.end(), text.begin() + at - n)) return text[at];
    }
  }
  return -1;
}

}  // namespace

TEST(prompt_lookup_finds_what_a_search_does) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&](int below) { return static_cast<int32_t>(random() % below); };
    const int min_n = 1 + draw(2), max_n = min_n + draw(3);
    Tokens text;
    for (int i = draw(30); i > 0; --i) text.push_back(draw(3));
    auto lookup = NgramSource(min_n, max_n).start(text);
    for (int i = 0; i < 30; ++i) {
      Tokens path;
      for (int j = draw(4); j > 0; --j) path.push_back(draw(3));
      CHECK(lookup->next(path).token == search(text, path, min_n, max_n));
      text.push_back(draw(3));
      lookup->append(text.back());
    }
  }
}

TEST(a_long_prompt_is_indexed_bit_by_bit) {
  Tokens text(20000);
  for (int i = 0; i < 20000; ++i) text[i] = i;
  auto lookup = NgramSource(1, 2).start(text);
  CHECK(lookup->next({19000}).token == -1);
  for (int i = 0; i < 5; ++i) lookup->next({});
  CHECK(lookup->next({19000}).token == 19001);
}

TEST(the_trie_knows_what_followed_most_often) {
  SuffixTrie trie(4);
  SuffixTrie::Ends ends;
  for (int32_t token : {1, 2, 3, 9, 1, 2, 4, 9, 1, 2, 4, 8, 5, 2, 3}) trie.append(ends, token);
  const auto match = [&](Tokens tail) { return trie.match({tail.rbegin(), tail.rend()}); };
  CHECK(match({1, 2}).length == 2 && match({1, 2}).next.token == 4);
  CHECK(match({1, 2}).next.probability == 2.0 / 3);
  CHECK(match({7, 7, 5, 2}).length == 2 && match({7, 7, 5, 2}).next.token == 3);
  CHECK(match({7, 2}).length == 1 && match({7, 2}).next.probability == 0.5);
  CHECK(match({77}).length == 0 && match({77}).next.token == -1);
  CHECK(match({6, 9, 1, 2}).length == 3 && match({6, 9, 1, 2}).next.token == 4);
}

TEST(suffix_drafting_looks_in_its_own_text_and_in_finished_outputs) {
  SuffixSource source(8, 100000, 0.5);
  CHECK(source.least_probability() == 0.5);
  auto first = source.start({1, 2, 3, 1});
  CHECK(first->next({}).token == 2 && first->next({2}).token == 3 && first->next({5}).token == -1);
  for (int32_t token : {30, 31, 32, 33}) first->append(token);
  auto second = source.start({30});
  CHECK(second->next({31}).token == -1);
  first->finish();
  CHECK(second->next({}).token == 31 && second->next({31}).token == 32);
  CHECK(second->next({1}).token == -1);  // a prompt is not shared with others
}

TEST(what_is_kept_of_outputs_is_bounded) {
  SuffixSource source(8, 4000, 0);
  for (int round = 0; round < 50; ++round) {
    auto lookup = source.start({});
    for (int i = 0; i < 200; ++i) lookup->append(round * 1000 + i);
    lookup->finish();
    CHECK(source.num_nodes() <= 4000 + 2 * 32 * 8 + 2);
  }
  auto lookup = source.start({});
  CHECK(lookup->next({49 * 1000 + 190}).token == 49 * 1000 + 191);
  CHECK(lookup->next({5}).token == -1);
}

TEST(outputs_are_added_at_once_while_others_make_room) {
  SuffixSource source(8, 1000, 0);
  const auto add_some = [&source](int32_t first) {
    for (int round = 0; round < 20; ++round) {
      auto lookup = source.start({});
      for (int i = 0; i < 3000; ++i) lookup->append(first + i);
      lookup->finish();
    }
  };
  std::thread other(add_some, 1'000'000);
  add_some(0);
  other.join();
  CHECK(source.num_nodes() <= 1000 + 2 * 32 * 8 + 2);
}

TEST(what_is_kept_of_a_long_text_is_bounded) {
  SuffixSource source(2, 100, 0);
  Tokens prompt(10000);
  for (int i = 0; i < 10000; ++i) prompt[i] = i;
  auto lookup = source.start(prompt);
  for (int i = 10000; i < 100000; ++i) {
    lookup->append(i);
    lookup->next({});
  }
  CHECK(lookup->next({5}).token == -1);
  CHECK(lookup->next({100000 - 16384}).token == 100000 - 16384 + 1);
}

TEST(a_map_that_grows_finds_all_keys_and_moves_none) {
  std::mt19937_64 random(1);
  GrowingMap<int> map;
  std::unordered_map<uint64_t, uint32_t> expected;
  CHECK(map.find(0) == GrowingMap<int>::kNone);
  const int* first = &map[map.put(0)];
  expected[0] = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t key = random() % 3 == 0 ? uint64_t{random() % 1000} << 32 : random() % 50000;
    CHECK(map.find(key) == (expected.count(key) > 0 ? expected[key] : GrowingMap<int>::kNone));
    CHECK(map.put(key) == expected.emplace(key, static_cast<uint32_t>(expected.size())).first->second);
  }
  CHECK(map.size() == expected.size() && first == &map[0]);
  for (const auto& [key, number] : expected) CHECK(map.find(key) == number);
}

TEST(what_lookups_refuse) {
  CHECK_CONTAINS(message_of<std::invalid_argument>([] { NgramSource(0, 3); }), "min_n");
  CHECK_CONTAINS(message_of<std::invalid_argument>([] { NgramSource(3, 2); }), "min_n");
  CHECK_CONTAINS(message_of<std::invalid_argument>([] { SuffixSource(1, 100, 0); }), "max_depth");
  CHECK_CONTAINS(message_of<std::invalid_argument>([] { SuffixSource(8, 100, 2); }), "least_probability");
}
