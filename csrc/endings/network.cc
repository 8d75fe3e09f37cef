#include "endings/network.h"

#include <algorithm>
#include <array>
#include <utility>

namespace specguide {

namespace {

constexpr size_t kLongestToken = 16;  // bytes; longer ones are not considered
constexpr int kMostLeftOut = 16;      // calls between two literals that one token may skip

}  // namespace

ByteSet spellable_bytes(const Vocabulary& vocabulary) {
  ByteSet found;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto one = static_cast<char>(byte);
    if (vocabulary.find(std::string_view(&one, 1)) >= 0) found.set(byte);
  }
  return found;
}

int32_t Network::add_rule() {
  rules_.emplace_back();
  return static_cast<int32_t>(rules_.size()) - 1;
}

int32_t Network::add_node(int32_t rule, Node node) {
  const auto added = static_cast<int32_t>(nodes_.size());
  node.in_rule = rule;
  nodes_.push_back(std::move(node));
  rules_[static_cast<size_t>(rule)].nodes.push_back(added);
  return added;
}

int32_t Network::add_bytes(int32_t rule, const std::map<int32_t, ByteSet>& ways) {
  Node node;
  node.kind = Kind::kBytes;
  std::vector<int32_t> branch;
  for (const auto& [next, bytes] : ways) {
    branch.push_back(set_of(bytes));
    node.next.push_back(next);
  }
  const auto [found, is_new] = branch_index_.try_emplace(std::move(branch), static_cast<int32_t>(branches_.size()));
  if (is_new) branches_.push_back(found->first);
  node.index = found->second;
  return add_node(rule, std::move(node));
}

// The index of a set, which is stored once.
int32_t Network::set_of(const ByteSet& bytes) {
  const auto [found, is_new] = set_index_.try_emplace(bytes, static_cast<int32_t>(sets_.size()));
  if (is_new) {
    sets_.push_back(bytes);
    is_spellable_.push_back((bytes & spellable_).any());
  }
  return found->second;
}

int32_t Network::behind(const Node& node, uint8_t byte) const {
  const std::vector<int32_t>& branch = branches_[static_cast<size_t>(node.index)];
  for (size_t way = 0; way < branch.size(); ++way) {
    if (sets_[static_cast<size_t>(branch[way])][byte]) return node.next[way];
  }
  return -1;
}

int32_t Network::add_literal(int32_t rule, const std::string& text, int32_t next) {
  if (text.empty()) return next;
  const auto [found, is_new] = text_index_.try_emplace(text, static_cast<int32_t>(texts_.size()));
  if (is_new) {
    Text added{text, std::vector<int64_t>(text.size() + 1)};
    for (size_t at = text.size(); at-- > 0;) {
      const size_t len = vocabulary_.longest(std::string_view(text).substr(at), kLongestToken);
      added.tokens[at] = len == 0 ? kNever : sum(1, added.tokens[at + len]);
    }
    texts_.push_back(std::move(added));
  }
  Node node;
  node.kind = Kind::kLiteral;
  node.index = found->second;
  node.next = Ways(next);
  return add_node(rule, std::move(node));
}

int32_t Network::add_call(int32_t rule, int32_t callee, int32_t least, int32_t most, int32_t next) {
  Node node;
  node.kind = Kind::kCall;
  node.index = callee;
  node.least = least;
  node.most = most;
  node.next = Ways(next);
  return add_node(rule, std::move(node));
}

void Network::settle(int32_t root) {
  root_ = root;
  for (const std::vector<int32_t>& group : callees_first()) {
    for (const int32_t rule : group) {
      for (const int32_t at : rules_[static_cast<size_t>(rule)].nodes) find_run(at);
    }
    find_costs(group);
    find_most_missing(group);
  }
  find_classes();
}

// The literal that may follow a node immediately; -1 if there is none. Nodes come after those that they lead to, except
// in loops, which are not followed.
int32_t Network::literal_behind(int32_t at) const {
  for (int num_left_out = 0; num_left_out <= kMostLeftOut; ++num_left_out) {
    const int32_t behind = (*this)[at].next[0];
    if (behind >= at) return -1;
    const Node& node = (*this)[behind];
    if (node.kind == Kind::kLiteral) return behind;
    if (node.kind != Kind::kCall || !may_be_left_out(node)) return -1;
    at = behind;
  }
  return -1;
}

bool Network::may_be_left_out(const Node& call) const {
  return call.least == 0 || rules_[static_cast<size_t>(call.index)].least == 0;
}

// Finds the run of a literal, once the runs of the literals behind it are known.
void Network::find_run(int32_t at) {
  const int32_t second = (*this)[at].kind == Kind::kLiteral ? literal_behind(at) : -1;
  if (second < 0) return;
  std::string bytes = text((*this)[at]);
  const size_t size = bytes.size();
  for (int32_t next = second; next >= 0 && bytes.size() < size + kLongestToken; next = literal_behind(next)) {
    bytes += text((*this)[next]);
  }
  const Node& behind = (*this)[second];
  const int32_t end = behind.run < 0 ? behind.next[0] : runs_[static_cast<size_t>(behind.run)].end;
  Run found{std::vector<int64_t>(size), end};
  for (size_t from = size; from-- > 0;) {
    const size_t len = vocabulary_.longest(std::string_view(bytes).substr(from), kLongestToken);
    const size_t to = from + len;
    found.tokens[from] = len == 0 ? kNever : sum(1, to < size ? found.tokens[to] : rest_of_run(second, to - size));
  }
  nodes_[static_cast<size_t>(at)].run = static_cast<int32_t>(runs_.size());
  runs_.push_back(std::move(found));
}

// Tokens to the end of the run that a literal belongs to, from byte `done` of it on.
int64_t Network::rest_of_run(int32_t at, size_t done) const {
  while (at >= 0 && done >= text((*this)[at]).size()) {
    done -= text((*this)[at]).size();
    at = literal_behind(at);
  }
  if (at < 0) return 0;
  const Node& node = (*this)[at];
  return (node.run < 0 ? texts_[static_cast<size_t>(node.index)].tokens
                       : runs_[static_cast<size_t>(node.run)].tokens)[done];
}

int64_t Network::cost(const Node& node, int32_t done) const {
  if (node.kind == Kind::kLiteral) {
    const Text& text = texts_[static_cast<size_t>(node.index)];
    const int64_t alone = sum(text.tokens[static_cast<size_t>(done)], (*this)[node.next[0]].cost);
    if (node.run < 0) return alone;
    const Run& run = runs_[static_cast<size_t>(node.run)];
    return std::min(alone, sum(run.tokens[static_cast<size_t>(done)], (*this)[run.end].cost));
  }
  if (node.kind != Kind::kCall) return node.cost;
  const int64_t left = std::max(0, node.least - done);
  const int64_t behind = (*this)[node.next[0]].cost;
  return sum(times(left, rules_[static_cast<size_t>(node.index)].least), behind);
}

int64_t Network::cost_of(const Node& node) const {
  if (node.kind == Kind::kFinal) return 0;
  if (node.kind != Kind::kSplit && node.kind != Kind::kBytes) return cost(node, 0);
  int64_t best = kNever;
  if (node.kind == Kind::kBytes) {
    for (size_t way = 0; way < node.next.size(); ++way) {
      if (may_read(node, way)) best = std::min(best, sum(1, (*this)[node.next[way]].cost));
    }
    return best;
  }
  for (const int32_t next : node.next) best = std::min(best, cost_at(next));
  return best;
}

// The cost of a node. The cost of a byte node is computed again from the node behind it, which saves rounds.
int64_t Network::cost_at(int32_t at) const {
  const Node& node = (*this)[at];
  return node.kind == Kind::kBytes ? cost_of(node) : node.cost;
}

int64_t Network::most_missing_at(int32_t at) const {
  const Node& node = (*this)[at];
  return node.kind == Kind::kBytes ? most_missing_of(node) : node.most_missing;
}

// Lowers costs until none of a group changes (Knuth 1977).
void Network::find_costs(const std::vector<int32_t>& group) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (const int32_t index : group) {
      Rule& rule = rules_[static_cast<size_t>(index)];
      for (const int32_t at : rule.nodes) {
        Node& node = nodes_[static_cast<size_t>(at)];
        const int64_t found = cost_of(node);
        if (found >= node.cost) continue;
        node.cost = found;
        has_changed = true;
      }
      if (rule.start >= 0) rule.least = (*this)[rule.start].cost;
    }
  }
}

// With each round, rules of a group that call each other may be entered at least one level deeper.
void Network::find_most_missing(const std::vector<int32_t>& group) {
  bool has_changed = true;
  for (int round = 0; round < kMostEntered && has_changed; ++round) {
    has_changed = false;
    for (const int32_t index : group) {
      Rule& rule = rules_[static_cast<size_t>(index)];
      for (bool is_rising = true; is_rising;) {
        is_rising = false;
        for (const int32_t at : rule.nodes) {
          Node& node = nodes_[static_cast<size_t>(at)];
          const int64_t most = most_missing_of(node);
          if (most <= node.most_missing) continue;
          node.most_missing = most;
          has_changed = is_rising = true;
        }
      }
      if (rule.start >= 0) rule.most_missing = (*this)[rule.start].most_missing;
    }
  }
}

// A byte or a literal that no token begins cannot be read, so nothing is missing behind it.
bool Network::may_read(const Node& node, size_t way) const {
  if (node.kind == Kind::kBytes) {
    const std::vector<int32_t>& branch = branches_[static_cast<size_t>(node.index)];
    return is_spellable_[static_cast<size_t>(branch[way])];
  }
  return texts_[static_cast<size_t>(node.index)].tokens[0] < kNever;
}

int64_t Network::most_missing_of(const Node& node) const {
  if (node.kind == Kind::kLiteral && !may_read(node, 0)) return 0;
  const bool reads = node.kind == Kind::kBytes || node.kind == Kind::kLiteral;
  const bool is_split = node.kind == Kind::kSplit;
  int64_t most = node.cost < kNever ? node.cost : 0;
  for (size_t way = 0; way < node.next.size(); ++way) {
    if (reads && !may_read(node, way)) continue;
    const int32_t next = node.next[way];
    if (reads && (*this)[next].cost >= kNever) return kNever;
    most = std::max(most, is_split ? most_missing_at(next) : (*this)[next].most_missing);
  }
  if (node.kind == Kind::kLiteral) {
    // More may be missing inside it than at its beginning, where a single token may be all of it.
    const Text& text = texts_[static_cast<size_t>(node.index)];
    const int64_t last = (*this)[node.next[0]].cost;
    const int64_t longest = *std::max_element(text.tokens.begin(), text.tokens.end());
    return sum(longest, last) < kNever ? std::max(most, sum(longest, last)) : most;
  }
  if (node.kind != Kind::kCall) return most;
  const Rule& callee = rules_[static_cast<size_t>(node.index)];
  const int64_t behind = callee.least < kNever ? cost(node, 1) : 0;
  return std::max(most, sum(callee.most_missing, behind));
}

void Network::find_classes() {
  ByteSet in_texts;
  for (const Text& text : texts_) {
    for (const char sign : text.bytes) in_texts.set(static_cast<uint8_t>(sign));
  }
  std::vector<ByteSet> all = sets_;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (in_texts[byte]) all.push_back(ByteSet().set(byte));
  }
  std::vector<size_t> found(256, 0);
  for (const ByteSet& bytes : all) {
    std::array<int, 512> parts;  // by the class so far, and whether the set has the byte
    parts.fill(-1);
    num_classes_ = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      int& part = parts[2 * found[byte] + (bytes[byte] ? 1 : 0)];
      if (part < 0) part = num_classes_++;
      found[byte] = static_cast<size_t>(part);
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) classes_[byte] = static_cast<uint8_t>(found[byte]);
}

}  // namespace specguide
