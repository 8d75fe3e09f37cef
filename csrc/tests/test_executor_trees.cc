// Trees of drafts in small cases: the order in which a stage is walked, which rows are valid, what may be verified.
#include <thread>
#include <utility>

#include "check.h"
#include "tree_case.h"

using namespace specguide;
using namespace std::chrono_literals;
using namespace tree_case;
using check::message_of;

namespace {

using Nodes = std::vector<int>;

}  // namespace

TEST(a_stage_is_walked_depth_first_from_where_the_matcher_stands) {
  Case c;
  c.verify({}, 9);
  CHECK(c.matcher->take_asked() == " +9" && c.rig.is_guided(0, 0));
  c.place(1, {{0, 1}, {0, 2}, {0, 3}});
  c.rig.call(2);
  CHECK(c.matcher->take_asked() == " +1 -1 +2 -1 +3" && c.guided() == (Nodes{0, 1, 2, 3}));
  c.place(4, {{1, 4}, {3, 5}, {1, 6}});  // the matcher is at node 3
  c.begin();
  CHECK(c.matcher->take_asked() == " +5 -2 +1 +4 -1 +6");
  CHECK(c.guided() == (Nodes{0, 1, 2, 3, 4, 5, 6}) && c.rig.held[0] == 0);
  for (int node = 1; node <= 6; ++node) CHECK(c.rig.row(0, node)[0] == node);
  c.verify({3, 5}, 8);
  CHECK(c.matcher->take_asked() == " -2 +3 +5 +8" && c.matcher->taken == (Tokens{9, 3, 5, 8}));
  const ExecutorCounters counters = c.rig.executor->counters();
  CHECK(counters.fills == 9 && counters.max_fills == 5 && counters.held == 0 && counters.iterations == 2);
}

TEST(the_last_stage_has_leaves_of_any_depth) {
  Case c;
  c.verify({}, 9);
  c.draft({{0, 1}, {0, 2}, {0, -1}}, {{0, 4}, {2, 5}, {3, 6}});  // node 3 does not exist
  CHECK(c.guided() == (Nodes{0, 1, 2, 4, 5}));
  c.matcher->take_asked();
  c.verify({4}, 8);
  CHECK(c.matcher->taken == (Tokens{9, 4, 8}) && c.error().empty());
  c.begin();
  CHECK(c.guided() == (Nodes{0}));  // nothing is left of the last tree
}

TEST(of_a_tree_of_less_depth_the_stages_left_become_known_together) {
  Case c;
  c.verify({}, 9);
  c.place(1, {{0, 1}, {0, 2}, {0, 3}});
  c.rig.call(2);
  c.place(4, {{1, 4}, {2, 5}, {3, 6}});
  c.begin(DraftLimits{1, 0, 0});
  c.verify({1, 4}, 8);
  c.place(1, {{0, 11}, {0, -1}, {0, 12}});
  c.place(4, {{0, 13}, {0, -1}, {0, -1}});
  c.begin(DraftLimits{0, 0, 0});
  CHECK(c.guided() == (Nodes{0, 1, 3, 4}) && c.rig.held[0] == 0 && c.error().empty());
  c.rig.accept(0, {4}, 7);  // the golden token is left, too
  c.begin();
  CHECK(c.guided() == (Nodes{0}) && c.rig.held[0] == 0 && c.error().empty());
  CHECK(c.matcher->taken == (Tokens{9, 1, 4, 8, 13, 7}));
}

TEST(a_refused_draft_takes_its_descendants_with_it) {
  Case c;
  c.verify({}, 9);
  c.draft({{0, kRefused}, {0, 2}, {0, 1000}}, {{1, 4}, {2, 5}, {3, 6}});
  CHECK(c.guided() == (Nodes{0, 2, 5}) && c.error().empty() && c.rig.held[0] == 0);
  c.verify({1}, 8);
  CHECK(c.error() == "the verification accepted 1 drafts where the grammar follows 0, after 1 token");
}

TEST(what_a_row_allowed_must_not_be_refused) {
  Case c;
  c.matcher->refuses_what_it_allows = true;
  c.verify({}, 9);
  c.draft({{0, 1}, {0, kRefused}, {0, 3}}, {{1, 4}, {2, 5}, {3, 6}});
  CHECK(c.error() == "the grammar refused token 50, which its row had allowed, after 1 token");
  CHECK(c.guided().empty() && c.rig.held[0] == 1);
}

TEST(what_was_followed_must_not_be_refused_later) {
  Case c;
  c.verify({}, 9);
  c.place(1, {{0, 1}, {0, 2}, {0, 3}});
  c.rig.call(2);
  c.matcher->refused = 1;
  c.place(4, {{1, 4}, {2, 5}, {3, 6}});
  c.begin();
  CHECK(c.error() == "the matcher failed after 1 token: it refuses token 1, which it accepted before");
  CHECK(c.rig.held[0] == 1);
}

TEST(a_matcher_that_fails_at_a_draft_is_made_anew) {
  for (const bool is_taken : {false, true}) {
    Case c(kLong, /*restarts=*/true);
    c.verify({}, 9);
    c.matcher->failing = 2;
    c.draft({{0, 1}, {0, 2}, {0, 3}}, {{1, 4}, {2, 5}, {3, 6}});
    CHECK(c.guided() == (Nodes{0, 1, 2, 3, 4, 6}) && c.rig.held[0] == 0 && c.error().empty());
    CHECK(c.rig.row(0, 2) == fake::Row(fake::kWords) && c.rig.row(0, 3)[0] == 3 && c.rig.row(0, 6)[0] == 6);
    if (is_taken) {
      c.verify({2}, -1);
      CHECK(c.error() == "the matcher failed after 1 token: oh");
      continue;
    }
    c.verify({3, 6}, 8);
    CHECK(c.error().empty() && c.made.size() == 1 && c.made[0]->taken == (Tokens{9, 3, 6, 8}));
    c.made[0]->failing = 7;
    c.draft({{0, 7}, {0, -1}, {0, -1}}, {{0, 5}, {0, -1}, {0, -1}});
    c.verify({4}, 1);
    CHECK(c.error().empty() && c.made.size() == 2 && c.made[1]->taken == (Tokens{9, 3, 6, 8, 5, 1}));
  }
}

TEST(behind_an_end_token_nothing_is_followed) {
  for (const bool is_accepted : {true, false}) {
    Case c;
    c.verify({}, 9);
    c.draft({{0, kEnd}, {0, 2}, {0, 3}}, {{1, 4}, {2, kEnd}, {3, 6}});
    CHECK(c.guided() == (Nodes{0, 2, 3, 6}) && c.rig.held[0] == 0);
    if (is_accepted) {
      c.verify({2, 5}, 33);
    } else {
      c.verify({3}, 8);
    }
    CHECK(c.error().empty());
    c.begin();
    CHECK(c.guided() == (is_accepted ? Nodes{} : Nodes{0}) && c.rig.held[0] == 0);
    if (!is_accepted) CHECK(c.matcher->taken == (Tokens{9, 3, 8}));
  }
}

TEST(what_is_verified_behind_the_end_does_not_count) {
  Case c;
  c.verify({}, 9);
  c.draft({{0, kEnd}, {0, 2}, {0, 3}}, {{1, 4}, {2, 5}, {3, 6}});
  c.verify({1, 4}, 8);
  c.begin();
  CHECK(c.error().empty() && c.guided().empty() && c.rig.held[0] == 0);
}

TEST(only_a_path_of_the_tree_can_be_accepted) {
  const std::vector<std::pair<Nodes, int>> cases{{{5}, 0}, {{1, 5}, 1}, {{2, 5, 5}, 2}, {{0}, 0}, {{7}, 0}, {{-1}, 0}};
  for (const auto& [path, num_followed] : cases) {
    Case c;
    c.verify({}, 9);
    c.draft({{0, 1}, {0, 2}, {0, 3}}, {{1, 4}, {2, 5}, {3, 6}});
    std::copy_n(path.begin(), std::min<size_t>(path.size(), 2), c.rig.accepted_path.begin());
    c.rig.num_accepted[0] = static_cast<int32_t>(path.size());
    c.rig.call(1);
    CHECK_CONTAINS(c.error(), "accepted " + std::to_string(path.size()) + " drafts where the grammar follows " +
                                  std::to_string(num_followed));
  }
}

TEST(a_parent_is_of_an_earlier_stage) {
  for (const int parent : {-1, 4, 5, 6, 7, 1000}) {
    Case c;
    c.verify({}, 9);
    c.draft({{0, 1}, {0, 2}, {0, 3}}, {{1, 4}, {parent, 5}, {3, 6}});
    CHECK_CONTAINS(c.error(), "draft 5 is behind draft " + std::to_string(parent) + ", which no earlier stage has");
    CHECK(c.rig.held[0] == 1);
  }
}

TEST(a_held_slot_keeps_its_tree) {
  Case c;
  c.verify({}, 9);
  c.draft({{0, 1}, {0, 2}, {0, 3}}, {{1, 4}, {2, 5}, {3, 6}});
  c.matcher->take_asked();
  c.rig.num_accepted[0] = -1;
  c.rig.call(1);
  c.rig.call(2);
  c.begin();
  CHECK(c.matcher->take_asked().empty() && c.guided() == (Nodes{0, 1, 2, 3, 4, 5, 6}));
  c.verify({1, 4}, 8);
  CHECK(c.matcher->taken == (Tokens{9, 1, 4, 8}) && c.error().empty());
}

TEST(a_late_tree_is_walked_by_the_tokens_of_its_time) {
  Case c(kShort);
  c.matcher->sleep_at_7 = 4 * kShort;
  c.verify({}, 9);
  c.place(1, {{0, 1}, {0, 7}, {0, 3}});
  c.rig.call(2);
  CHECK(c.guided() == (Nodes{0}) && c.rig.executor->counters().late_draft_rows == 3);
  c.place(4, {{1, 4}, {2, 5}, {3, 6}});
  c.begin();
  CHECK(c.rig.held[0] == 1 && c.guided().empty());
  for (int node = 1; node < 7; ++node) {
    c.rig.token(0, node) = kRefused;
    c.rig.parent(0, node) = 6;
  }
  c.rig.num_accepted[0] = -1;
  for (int i = 0; i < 1000 && c.rig.held[0] == 1; ++i) {
    std::this_thread::sleep_for(5ms);
    c.rig.call(1);
    c.rig.call(2);
    c.begin();
  }
  CHECK(c.guided() == (Nodes{0, 1, 2, 3, 4, 5, 6}));
  for (int node = 1; node <= 6; ++node) CHECK(c.rig.row(0, node)[0] == (node == 2 ? 7 : node));
  c.verify({2, 5}, 8);
  c.wait();
  CHECK(c.matcher->taken == (Tokens{9, 7, 5, 8}) && c.error().empty());
}

TEST(a_late_tree_writes_nothing_into_the_next_requests_rows) {
  Case c(kShort);
  c.matcher->sleep_at_7 = 4 * kShort;
  c.verify({}, 9);
  c.place(1, {{0, 7}, {0, 2}, {0, 3}});
  c.rig.call(2);
  c.rig.executor->detach(0);
  CHECK(!c.rig.executor->is_idle(0));
  c.wait();
  const std::vector<int32_t> rows = c.rig.rows;
  c.matcher = std::make_shared<TellingMatcher>();
  c.rig.executor->submit({{0, c.matcher}}, {});
  c.rig.call(0);
  CHECK(c.guided() == (Nodes{0}) && c.rig.held[0] == 0);
  CHECK(std::equal(rows.begin() + fake::kWords, rows.end(), c.rig.rows.begin() + fake::kWords));
}

TEST(a_free_slot_has_trees_without_rows) {
  ExecutorRig rig(1, DraftShape::tree({0, 1, 4, 7}), 1, kLong);
  rig.executor->submit({{0, nullptr}}, {});
  rig.call_all();
  rig.accept(0, {2, 5}, 8);
  rig.executor->submit({}, {0});
  rig.call_all();
  CHECK(rig.held[0] == 0 && !rig.executor->error(0));
  for (int node = 0; node < 7; ++node) CHECK(!rig.is_guided(0, node));
}

TEST(what_the_constructor_refuses) {
  const auto refusal = [](std::vector<int> stage_begins, int num_forced = 0) {
    DraftShape shape(2, num_forced);
    shape.stage_begins = std::move(stage_begins);
    return message_of<std::invalid_argument>([&] { ExecutorRig(1, shape, 1, kLong); });
  };
  CHECK_CONTAINS(refusal({0, 1, 4}), "num_draft_tokens + 2");
  CHECK_CONTAINS(refusal({0, 1, 4, 7, 8}), "num_draft_tokens + 2");
  CHECK_CONTAINS(refusal({0, 2, 4, 7}), "golden token alone");
  CHECK_CONTAINS(refusal({0, 1, 4, 4}), "at least one node");
  CHECK_CONTAINS(refusal({0, 1, 4, 3}), "at least one node");
  CHECK_CONTAINS(refusal({0, 1, 4, 7}, 1), "not with trees");
}
