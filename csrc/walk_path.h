// Owns which drafts of a request's tree the grammar follows, where among them its matcher stands, and how it moves.
#pragma once

#include <cstdint>
#include <vector>

#include "counted_matcher.h"

namespace specguide {

class WalkPath {
 public:
  struct Node {
    int32_t token = -1;
    int32_t canonical = -1;  // where it was forced, as in SpeltToken
    int parent = 0;          // of a smaller id
    int depth = 0;
    bool is_followed = false;  // the grammar takes it behind its parent …
    bool is_ended = false;     // … and ends there
    bool is_filled = false;    // its row has been filled
    bool can_go_on() const { return is_followed && !is_ended; }
  };

  // The matcher stands at node 0, the root: what is verified.
  WalkPath(CountedMatcher& matcher, int num_nodes);

  const Node& operator[](int id) const { return nodes_[static_cast<size_t>(id)]; }
  int here() const { return path_.empty() ? 0 : path_.back(); }
  // Of the drafts that the matcher holds; good until the next call.
  const std::vector<int32_t>& tokens_here();

  // What the matcher holds is verified: it stands at the root of a tree that has no drafts.
  void take_root();
  // Goes back to before `first`, and forgets the drafts from there on. Only of a chain it holds any.
  void forget_from(int first);
  // Knows a draft from now on; whether the grammar takes it is not asked yet.
  void add(int id, int parent, SpeltToken draft);
  // In the order that takes the fewest accepts from here. None of them is behind another.
  void sort_depth_first(std::vector<int>& ids) const;
  // Moves behind the draft. False where the grammar refuses it, and the matcher stands at its parent, which can go on.
  bool follow(int id);
  void mark_filled(int id) { nodes_[static_cast<size_t>(id)].is_filled = true; }
  // To the root or a draft that is followed. Throws std::runtime_error where the matcher refuses what it had taken.
  void move_to(int id);
  // How many of the first `num` ids lie on one path from the root that the grammar follows.
  int num_followed(const std::vector<int>& ids, int num) const;

 private:
  bool holds(int id) const;
  bool comes_before(int a, int b) const;
  void rollback_to(int depth);

  CountedMatcher& matcher_;
  std::vector<Node> nodes_;
  std::vector<int> path_;  // ids of the drafts that the matcher holds, rising
  std::vector<int> way_;
  std::vector<int32_t> tokens_here_;
};

}  // namespace specguide
