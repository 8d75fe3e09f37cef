#include "walk_path.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace specguide {

namespace {

using Answer = Matcher::Answer;

bool is_yes(Answer answer) { return answer == Answer::kYes || answer == Answer::kYesByGuess; }
bool is_guess(Answer answer) { return answer == Answer::kNoByGuess || answer == Answer::kYesByGuess; }

}  // namespace

WalkPath::WalkPath(CountedMatcher& matcher, int num_nodes) : matcher_(matcher), nodes_(num_nodes) {
  path_.reserve(nodes_.size());
  way_.reserve(nodes_.size());
  tokens_here_.reserve(nodes_.size());
  take_root();
}

const std::vector<int32_t>& WalkPath::tokens_here() {
  tokens_here_.clear();
  for (int id : path_) tokens_here_.push_back((*this)[id].token);
  return tokens_here_;
}

void WalkPath::take_root() {
  path_.clear();
  std::fill(nodes_.begin(), nodes_.end(), Node{});
  nodes_[0].is_followed = true;
  has_guesses_ = false;
}

void WalkPath::forget_from(int first) {
  rollback_to(static_cast<int>(std::lower_bound(path_.begin(), path_.end(), first) - path_.begin()));
  std::fill(nodes_.begin() + first, nodes_.end(), Node{});
}

void WalkPath::add(int id, int parent, SpeltToken draft) {
  Node& node = nodes_[static_cast<size_t>(id)];
  node = Node{};
  node.token = draft.token;
  node.canonical = draft.canonical;
  node.parent = parent;
  node.depth = (*this)[parent].depth + 1;
}

// Depth first, and the subtree in which the matcher is now comes before its siblings. Then each edge that the matcher
// does not hold is walked once, and no edge that it holds.
void WalkPath::sort_depth_first(std::vector<int>& ids) const {
  if (ids.size() > 1) std::sort(ids.begin(), ids.end(), [this](int a, int b) { return comes_before(a, b); });
}

bool WalkPath::comes_before(int a, int b) const {
  while ((*this)[a].depth > (*this)[b].depth) a = (*this)[a].parent;
  while ((*this)[b].depth > (*this)[a].depth) b = (*this)[b].parent;
  while ((*this)[a].parent != (*this)[b].parent) {
    a = (*this)[a].parent;
    b = (*this)[b].parent;
  }
  return holds(a) != holds(b) ? holds(a) : a < b;
}

bool WalkPath::holds(int id) const {
  const auto depth = static_cast<size_t>((*this)[id].depth);
  return depth == 0 || (depth <= path_.size() && path_[depth - 1] == id);
}

bool WalkPath::follow(int id) {
  Node& node = nodes_[static_cast<size_t>(id)];
  move_to(node.parent);
  if (!matcher_.accept(node.token)) return false;
  path_.push_back(id);
  node.is_followed = true;
  node.is_ended = matcher_.is_terminated();
  return true;
}

std::optional<bool> WalkPath::follow_at_once(int id) {
  Node& node = nodes_[static_cast<size_t>(id)];
  const Node& parent = (*this)[node.parent];
  const bool is_reached = parent.is_followed && !refused_on_way_to(node.parent);
  const Answer answer = is_reached ? matcher_.accept_draft(node.token) : Answer::kNoByGuess;
  node.is_followed = is_yes(answer);
  node.is_ended = node.is_followed && matcher_.is_terminated();
  if (node.is_followed) path_.push_back(id);
  node.is_open = parent.is_open || is_guess(answer);
  has_guesses_ = has_guesses_ || node.is_open;
  return node.is_open ? std::nullopt : std::optional(node.is_followed);
}

bool WalkPath::follow_again(int id) {
  Node& node = nodes_[static_cast<size_t>(id)];
  node.is_open = node.is_followed = node.is_ended = false;
  node.fill_id = 0;
  return (*this)[node.parent].can_go_on() && follow(id);
}

void WalkPath::mark(int id, int64_t fill_id, bool is_guessed) {
  Node& node = nodes_[static_cast<size_t>(id)];
  node.fill_id = fill_id;
  node.is_guessed = is_guessed;
  has_guesses_ = has_guesses_ || is_guessed;
}

void WalkPath::mark_failed(int id, int64_t fill_id) {
  Node& node = nodes_[static_cast<size_t>(id)];
  node.is_followed = node.is_ended = node.is_open = false;
  mark(id, fill_id, false);
}

void WalkPath::move_to(int id) {
  const std::optional<int32_t> refused = refused_on_way_to(id);
  if (refused) throw std::runtime_error("it refuses token " + std::to_string(*refused) + ", which it accepted before");
}

// Moves to the node. Returns the token that the matcher refuses; it was accepted by a guess, or by mistake.
std::optional<int32_t> WalkPath::refused_on_way_to(int id) {
  if (id == here()) return std::nullopt;
  way_.clear();
  for (; !holds(id); id = (*this)[id].parent) way_.push_back(id);
  rollback_to((*this)[id].depth);
  for (auto next = way_.rbegin(); next != way_.rend(); ++next) {
    const Node& node = (*this)[*next];
    if (!(node.is_open ? is_yes(matcher_.accept_draft(node.token)) : matcher_.accept(node.token))) return node.token;
    path_.push_back(*next);
  }
  return std::nullopt;
}

void WalkPath::rollback_to(int depth) {
  const int num_tokens = static_cast<int>(path_.size()) - depth;
  path_.resize(static_cast<size_t>(depth));
  matcher_.rollback(num_tokens);
}

int WalkPath::num_followed(const std::vector<int>& ids, int num) const {
  int parent = 0, depth = 0;
  for (; depth < std::min(num, static_cast<int>(ids.size())); ++depth) {
    const int id = ids[static_cast<size_t>(depth)];
    if (id < 1 || id >= static_cast<int>(nodes_.size())) break;
    if (!(*this)[id].is_followed || (*this)[id].parent != parent) break;
    parent = id;
  }
  return depth;
}

}  // namespace specguide
