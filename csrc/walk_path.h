// Owns which drafts of a request's tree the grammar allows, where in the tree its matcher is, and how it moves.
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
    int32_t canonical = -1;  // if it was forced, as in SpeltToken
    int parent = 0;          // has a smaller id
    int depth = 0;
    bool is_followed = false;  // the grammar allows it behind its parent …
    bool is_ended = false;     // … and ends there
    int64_t fill_id = 0;       // number of its row's content; 0: not filled
    bool is_open = false;      // whether the grammar allows it is a guess …
    bool is_guessed = false;   // … or its row is
    bool can_go_on() const { return is_followed && !is_ended; }
  };

  // The matcher is at node 0, the root: the verified tokens.
  WalkPath(CountedMatcher& matcher, int num_nodes);

  const Node& operator[](int id) const { return nodes_[static_cast<size_t>(id)]; }
  int here() const { return path_.empty() ? 0 : path_.back(); }
  // The tokens of the drafts that the matcher holds; valid until the next call.
  const std::vector<int32_t>& tokens_here();

  // What the matcher holds is verified now: it is at the root of a tree without drafts.
  void take_root();
  // Rolls back to before `first`, and forgets the drafts from there on. The matcher holds some of them only in a chain.
  void forget_from(int first);
  // The matcher is a new one, which is at the root.
  void restart() { path_.clear(); }
  // The matcher failed at the draft: nothing follows it, and its row, already filled, allows nothing.
  void mark_failed(int id, int64_t fill_id);
  // Adds a draft; the grammar is not asked about it yet.
  void add(int id, int parent, SpeltToken draft);
  // Orders drafts so that following them takes the fewest accepts from here. None of them is behind another one.
  void sort_depth_first(std::vector<int>& ids) const;
  // Moves behind the draft. False if the grammar refuses it; the matcher is then at its parent, which can go on.
  bool follow(int id);
  // Like `follow`, by what the matcher says immediately. Returns nothing if that is a guess: then the draft is open.
  std::optional<bool> follow_at_once(int id);
  // Asks again whether an open draft is followed, once that is known for all drafts before it. Its row must be filled
  // again.
  bool follow_again(int id);
  void mark_filled(int id, int64_t fill_id) { mark(id, fill_id, false); }
  // Its row was filled by a guess, or not at all (0) because nothing was known immediately.
  void mark_guessed(int id, int64_t fill_id) { mark(id, fill_id, true); }
  // Whether any draft is open or any row guessed.
  bool has_guesses() const { return has_guesses_; }
  // Says that everything guessed will now be asked for again.
  void take_guesses() { has_guesses_ = false; }
  // Moves to the root, or to a draft that is followed and not open. Throws std::runtime_error if the matcher now
  // refuses what it had accepted.
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
  std::vector<int> path_;  // ids of the drafts that the matcher holds, ascending
  std::vector<int> way_;
  std::vector<int32_t> tokens_here_;
  bool has_guesses_ = false;
};

}  // namespace specguide
