// The numbers of rows: equal rows have the same number for as long as a device has kept them.
#include <random>
#include <set>
#include <unordered_map>

#include "check.h"
#include "row_numbers.h"

using specguide::RowNumbers;

TEST(rows_of_unknown_content_have_numbers_of_their_own) {
  RowNumbers numbers(8);
  const int64_t one = numbers.of(0), other = numbers.of(0);
  CHECK(one < 0 && other < 0 && one != other);
  CHECK(numbers.told(one) == one && numbers.told(0) == 0);
}

TEST(where_nothing_is_kept_all_rows_are_their_own) {
  RowNumbers numbers(0);
  const int64_t one = numbers.of(5), other = numbers.of(5);
  CHECK(one < 0 && other < 0 && one != other);
}

TEST(equal_rows_have_one_number_until_it_is_old) {
  RowNumbers numbers(8);
  const int64_t number = numbers.of(77);
  CHECK(number > 0);
  for (int64_t content = 1; content <= 3; ++content) {
    CHECK(numbers.of(content) > number);
    CHECK(numbers.of(77) == number && numbers.told(number) == number);
  }
  numbers.of(4);  // half of the eight places have newer rows
  CHECK(numbers.told(number) < 0);
  CHECK(numbers.of(77) > number);
}

TEST(a_device_that_keeps_rows_by_their_numbers_has_the_right_ones) {
  constexpr int64_t kNumKept = 64;
  RowNumbers numbers(kNumKept);
  std::mt19937_64 random(3);
  std::unordered_map<int64_t, std::pair<int64_t, int64_t>> kept;  // number and content, by place
  std::unordered_map<int64_t, int64_t> held;                      // content by number, some of them taken late
  int num_found = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    std::set<int64_t> told;
    for (int i = 0; i < static_cast<int>(kNumKept) / 2; ++i) {
      const int64_t content = 1 + static_cast<int64_t>(random() % 9 == 0 ? random() % 4000 : random() % 12);
      held[numbers.of(content)] = content;
    }
    std::unordered_map<int64_t, int64_t> places;
    for (const auto& [number, content] : held) {
      const int64_t now = numbers.told(number);
      if (now < 0) continue;
      CHECK(now == number && places.try_emplace(number % kNumKept, number).second);
      auto& place = kept[number % kNumKept];
      num_found += place.first == number;
      if (place.first != number) place = {number, content};
      CHECK(place.second == content);
    }
    if (turn % 5 == 0) held.clear();
  }
  CHECK(num_found > 4000);
}
