// Random trees for thousands of iterations, with random accepted paths. Every valid row is recomputed by a new matcher
// that walks the whole path; where nothing is late, fills and accepts are counted exactly.
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "check.h"
#include "executor_rig.h"

using namespace specguide;
using namespace std::chrono_literals;
using fake::FakeMatcher;
using Path = std::vector<int32_t>;

namespace {

constexpr int kSlots = 3, kMaxTokens = 40;

// Remembers its tokens and its calls.
class LoggingMatcher : public FakeMatcher {
 public:
  using FakeMatcher::FakeMatcher;
  bool accept(int32_t token) override {
    ++num_accepts;
    if (!FakeMatcher::accept(token)) return false;
    taken.push_back(token);
    return true;
  }
  void refill(FilledRow& row) override {  // it need not fill what the row holds already
    ++num_fills[row.words];
    FakeMatcher::refill(row);
  }
  void rollback(int n) override {
    FakeMatcher::rollback(n);
    taken.resize(taken.size() - static_cast<size_t>(n));
  }
  Path taken;
  int num_accepts = 0;
  std::map<int32_t*, int> num_fills;
};

struct Draft {
  int32_t token = -1;
  int parent = 0;
};

struct Request {
  Request(uint64_t seed, fake::Behaviour behaviour, int num_nodes) : tree(num_nodes) {
    grammar.seed = seed;
    matcher = std::make_shared<LoggingMatcher>(grammar, behaviour);
  }

  std::vector<int> nodes_to(int node) const {
    std::vector<int> nodes;
    for (; node != 0; node = tree[node].parent) nodes.insert(nodes.begin(), node);
    return nodes;
  }
  Path path_to(int node) const {
    Path path = text;
    for (int step : nodes_to(node)) path.push_back(tree[step].token);
    return path;
  }
  // A new matcher at the node; null if the grammar does not allow it.
  std::unique_ptr<FakeMatcher> walked_to(int node) const {
    auto fresh = std::make_unique<FakeMatcher>(grammar);
    for (int32_t token : path_to(node)) {
      if (token < 0 || !fresh->accept(token)) return nullptr;
    }
    return fresh;
  }
  std::optional<fake::Row> row(int node) const {
    const auto fresh = walked_to(node);
    if (!fresh || fresh->is_terminated()) return std::nullopt;
    fake::Row row(fake::kWords);
    fresh->fill(row.data());
    return row;
  }
  // The minimum accepts of a stage: one for each draft behind a followed node, and the edges to these nodes.
  int num_accepts_for(int begin, int end) const {
    std::set<Path> edges;
    int num_drafts = 0;
    for (int node = begin; node < end; ++node) {
      if (tree[node].token < 0 || !row(tree[node].parent)) continue;
      ++num_drafts;
      Path path = path_to(tree[node].parent);
      for (; path.size() > text.size(); path.pop_back()) edges.insert(path);
    }
    for (Path held = matcher->taken; held.size() > text.size(); held.pop_back()) edges.erase(held);
    return num_drafts + static_cast<int>(edges.size());
  }
  bool has_ended() const { return !text.empty() && text.back() == fake::kEnd; }

  fake::Grammar grammar;
  std::shared_ptr<LoggingMatcher> matcher;
  Path text;  // verified, including the golden token
  std::vector<Draft> tree;
};

std::vector<int> random_stages(std::mt19937_64& random) {
  std::vector<int> begins{0, 1};
  for (int depth = 1 + static_cast<int>(random() % 6); depth > 0; --depth) {
    begins.push_back(begins.back() + 1 + static_cast<int>(random() % 7));
  }
  return begins;
}

class Simulation {
 public:
  // is_exact: nothing is ever late
  Simulation(uint64_t seed, bool is_exact, int num_threads, std::chrono::microseconds deadline)
      : random_(seed),
        is_exact_(is_exact),
        stages_(random_stages(random_)),
        rig_(kSlots, DraftShape::tree(stages_), num_threads, deadline),
        requests_(kSlots) {}

  void run(int num_iterations) {
    const int most_depth = static_cast<int>(stages_.size()) - 2;
    int depth = most_depth;
    for (int i = 0; i < num_iterations; ++i) {
      const std::vector<int> num_accepts = accepts_for(stages_[depth], rig_.num_nodes);
      depth = roll(2) ? most_depth : 1 + static_cast<int>(random_() % static_cast<uint64_t>(most_depth));
      submit({depth, 0, 0});
      rig_.call(0);
      for_each([&](int slot) { check_target(slot, num_accepts[slot]); });
      for_each([&](int slot) { verify(slot); });
      rig_.call(1);
      for_each([&](int slot) { check_stage(slot, 0); });
      for (int stage = 1; stage <= depth; ++stage) {
        const int end = stage == depth ? rig_.num_nodes : stages_[stage + 1];
        for_each([&](int slot) { draft(slot, stages_[stage], end); });
        if (stage == depth) break;
        const std::vector<int> expected = accepts_for(stages_[stage], end);
        rig_.call(stage + 1);
        for_each([&](int slot) { check_stage(slot, stage); });
        for_each([&](int slot) { check_accepts(slot, expected[slot]); });
        for_each([&](int slot) { if (!is_exact_ && roll(100)) leave(slot); });
      }
      for_each([&](int slot) {
        if (requests_[slot]->has_ended() || requests_[slot]->text.size() > kMaxTokens) leave(slot);
      });
    }
    rig_.executor->check();
    for (int slot = 0; slot < kSlots; ++slot) leave(slot);
  }

  int num_verified = 0, num_ended = 0, num_held = 0;

 private:
  bool roll(int in) { return random_() % static_cast<uint64_t>(in) == 0; }

  template <typename Function>
  void for_each(Function function) {
    for (int slot = 0; slot < kSlots; ++slot) {
      if (requests_[slot]) function(slot);
    }
  }

  void submit(DraftLimits limits) {
    std::vector<GrammarExecutor::Start> started;
    std::vector<int> continued;
    for (int slot = 0; slot < kSlots; ++slot) {
      if (requests_[slot]) {
        continued.push_back(slot);
      } else if (rig_.executor->is_idle(slot)) {
        const fake::Behaviour behaviour{is_exact_ ? 0 : 30, 300, 0, 0};
        requests_[slot] = std::make_unique<Request>(random_(), behaviour, rig_.num_nodes);
        started.emplace_back(slot, requests_[slot]->matcher);
        is_drafting_[slot] = false;
      }
    }
    rig_.executor->submit(std::move(started), continued, limits);
  }

  void leave(int slot) {
    if (!requests_[slot]) return;
    rig_.executor->detach(slot);
    requests_[slot] = nullptr;
  }

  void check_row(int slot, int node, bool must_be_guided) {
    const std::optional<fake::Row> expected = requests_[slot]->row(node);
    if (must_be_guided) CHECK(rig_.is_guided(slot, node) == expected.has_value());
    if (rig_.is_guided(slot, node)) CHECK(expected && rig_.row(slot, node) == *expected);
  }

  void check_target(int slot, int num_accepts) {
    if (const auto error = rig_.executor->error(slot)) throw std::logic_error(*error);
    if (rig_.held[slot] == 1) {
      CHECK(!is_exact_);
      ++num_held;
      for (int node = 0; node < rig_.num_nodes; ++node) CHECK(!rig_.is_guided(slot, node));
      return;
    }
    for (int node = 0; node < rig_.num_nodes; ++node) check_row(slot, node, true);
    if (is_drafting_[slot]) check_accepts(slot, num_accepts);
    for (int node = 0; is_exact_ && node < rig_.num_nodes; ++node) {
      int32_t* row = rig_.rows.data() + rig_.row_index(slot, node) * fake::kWords;
      CHECK(requests_[slot]->matcher->num_fills[row] == (rig_.is_guided(slot, node) ? 1 : 0));
    }
  }

  void check_stage(int slot, int stage) {
    if (!is_drafting_[slot]) return;
    for (int node = stages_[stage]; node < stages_[stage + 1]; ++node) check_row(slot, node, is_exact_);
  }

  std::vector<int> accepts_for(int begin, int end) {
    std::vector<int> num_accepts(kSlots);
    if (!is_exact_) return num_accepts;
    for_each([&](int slot) {
      Request& request = *requests_[slot];
      request.matcher->num_accepts = 0;
      if (is_drafting_[slot]) num_accepts[slot] = request.num_accepts_for(begin, end);
    });
    return num_accepts;
  }

  void check_accepts(int slot, int expected) const {
    if (is_exact_ && is_drafting_[slot]) CHECK(requests_[slot]->matcher->num_accepts == expected);
  }

  // Accepts a random path; the device has the new golden token immediately.
  void verify(int slot) {
    Request& request = *requests_[slot];
    is_drafting_[slot] = rig_.held[slot] == 0 && !roll(8);
    rig_.num_accepted[slot] = -1;
    if (!is_drafting_[slot]) return;
    int node = static_cast<int>(random_() % static_cast<uint64_t>(rig_.num_nodes));
    while (!request.walked_to(node)) node = request.tree[node].parent;
    const std::vector<int> nodes = request.nodes_to(node);
    const std::optional<fake::Row> row = request.row(node);
    const int32_t golden = row ? random_token(*row) : 11;
    rig_.accept(slot, nodes, golden);
    num_verified += static_cast<int>(nodes.size());
    request.text = request.path_to(node);
    if (row) request.text.push_back(golden);
    num_ended += request.has_ended();
    request.tree.assign(request.tree.size(), {});
    if (is_exact_) request.matcher->num_fills.clear();
    if (request.has_ended()) is_drafting_[slot] = false;
  }

  int32_t random_token(const fake::Row& row) { return fake::choose(random_(), row.data()); }

  void draft(int slot, int begin, int end) {
    if (!is_drafting_[slot]) return;
    Request& request = *requests_[slot];
    std::set<std::pair<int, int32_t>> seen;  // a node's path is identified by its tokens alone
    for (int node = 1; node < begin; ++node) seen.emplace(request.tree[node].parent, request.tree[node].token);
    for (int node = begin; node < end; ++node) {
      Draft draft{-1, static_cast<int>(random_() % static_cast<uint64_t>(begin))};
      const std::optional<fake::Row> row = request.row(draft.parent);
      draft.token = row && !roll(5) ? random_token(*row) : static_cast<int32_t>(random_() % fake::kVocab);
      if (roll(10) || !seen.emplace(draft.parent, draft.token).second) draft = {-1, draft.parent};
      request.tree[node] = draft;
      rig_.token(slot, node) = draft.token;
      rig_.parent(slot, node) = draft.token < 0 ? -5 : draft.parent;
    }
  }

  std::mt19937_64 random_;
  const bool is_exact_;
  const std::vector<int> stages_;
  ExecutorRig rig_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<bool> is_drafting_ = std::vector<bool>(kSlots, false);  // a tree is being drafted, or has been
};

int num_iterations() {
  const char* given = std::getenv("SPECGUIDE_STRESS_ITERATIONS");
  return given ? std::atoi(given) : 1500;
}

void simulate(uint64_t first_seed, bool is_exact, int num_threads, std::chrono::microseconds deadline) {
  constexpr int kShapes = 10;
  int num_verified = 0, num_ended = 0, num_held = 0;
  const int alive = FakeMatcher::num_alive;
  for (uint64_t seed = first_seed; seed < first_seed + kShapes; ++seed) {
    Simulation simulation(seed, is_exact, num_threads, deadline);
    simulation.run(num_iterations() / kShapes);
    num_verified += simulation.num_verified;
    num_ended += simulation.num_ended;
    num_held += simulation.num_held;
  }
  std::printf("        %d drafts accepted, %d ended, %d times held\n", num_verified, num_ended, num_held);
  CHECK(num_verified > 0 && (num_held > 0) == !is_exact);
  CHECK(num_ended > 0 || !is_exact);  // if much is late, progress depends on timing
  CHECK(FakeMatcher::num_alive == alive);
}

}  // namespace

TEST(trees_that_are_never_late) { simulate(1, true, 2, 10s); }
TEST(trees_with_a_short_deadline) { simulate(101, false, 3, 150us); }
TEST(trees_that_are_always_late) { simulate(201, false, 2, 1us); }
