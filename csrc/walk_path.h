// Owns which drafts of a request's tree the grammar follows, where among them its matcher stands, and how it moves.
#pragma once

#include <cstdint>
#include <optional>
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
    int64_t fill_id = 0;       // of what filled its row; 0: nothing has
    bool is_open = false;      // whether the grammar takes it is a guess …
    bool is_guessed = false;   // … or what its row says
    bool can_go_on() const { return is_followed && !is_ended; }
  };

  // The matcher stands at node 0, the root: what is verified.
  WalkPath(CountedMatcher& matcher, int num_nodes);

  const Node& operator[](int id) const { return nodes_[static_cast<size_t>(id)]; }
  int here() const { return path_.empty() ? 0 : path_.back(); }
  // The tokens of the drafts that the matcher holds; good until the next call.
  const std::vector<int32_t>& tokens_here();

  // What the matcher holds is verified: it stands at the root of a tree that has no drafts.
  void take_root();
  // Goes back to before `first`, and forgets the drafts from there on. The matcher holds some of them only where the
  // tree is a chain.
  void forget_from(int first);
  // The matcher is another one, which stands at the root.
  void restart() { path_.clear(); }
  // The matcher has failed at the draft: nothing follows it, and its row, filled by now, allows nothing.
  void mark_failed(int id, int64_t fill_id);
  // Knows a draft from now on; whether the grammar takes it is not asked yet.
  void add(int id, int parent, SpeltToken draft);
  // Puts drafts in the order that takes the fewest accepts from here. None of them is behind another.
  void sort_depth_first(std::vector<int>& ids) const;
  // Moves behind the draft. False where the grammar refuses it, and the matcher stands at its parent, which can go on.
  bool follow(int id);
  // The same as `follow`, by what the matcher says at once. Nothing where that is a guess: then the draft is open.
  std::optional<bool> follow_at_once(int id);
  // Asks again whether an open draft is followed, once that is known of all before it. Its row is to be filled again.
  bool follow_again(int id);
  void mark_filled(int id, int64_t fill_id) { mark(id, fill_id, false); }
  // Its row has been filled by a guess, or not at all (0) since nothing was known at once.
  void mark_guessed(int id, int64_t fill_id) { mark(id, fill_id, true); }
  // Whether drafts are open, or rows guessed.
  bool has_guesses() const { return has_guesses_; }
  // Says that what was guessed of any node is going to be asked for again.
  void take_guesses() { has_guesses_ = false; }
  // Moves to the root, or to a draft that is followed and not open. Throws std::runtime_error where the matcher refuses
  // what it had taken.
  void move_to(int id);
  // The number of the first `num` ids that lie on one path from the root that the grammar follows.
  int num_followed(const std::vector<int>& ids, int num) const;

 private:
  void mark(int id, int64_t fill_id, bool is_guessed);
  std::optional<int32_t> refused_on_way_to(int id);
  bool holds(int id) const;
  bool comes_before(int a, int b) const;
  void rollback_to(int depth);

  CountedMatcher& matcher_;
  std::vector<Node> nodes_;
  std::vector<int> path_;  // ids of the drafts that the matcher holds, rising
  std::vector<int> way_;
  std::vector<int32_t> tokens_here_;
  bool has_guesses_ = false;
};

}  // namespace specguide
