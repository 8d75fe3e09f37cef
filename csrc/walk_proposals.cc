// Owns how a walk proposes drafts itself: what the grammar forces, as the target spells it, and what a lookup finds.
#include <algorithm>

#include "walk.h"

namespace specguide {

// Proposes until nothing is known, or the grammar refuses, or the chain is full. Forced tokens come first.
void Walk::propose() {
  if (!buffers_->has_proposals()) return;
  forced_.clear();
  probability_ = 1;
  const int most_forced = this->most_forced();
  int num_forced = 0, num_looked_up = 0;
  for (int here = path_.here(); here < limits_.max_chain_len() && !path_[here].is_ended; here = path_.here()) {
    SpeltToken draft = forced_draft(most_forced - num_forced);
    if (path_.here() != here) break;  // the matcher has failed
    const bool is_forced = draft.token >= 0;
    if (!is_forced && num_looked_up < limits_.num_lookup_tokens) draft = looked_up_draft();
    if (draft.token < 0) break;
    path_.add(here + 1, here, draft);
    bool is_taken = false;
    if (failure_of([&] { is_taken = take_draft(here + 1); })) path_.forget_from(here + 1);
    if (!is_taken) break;
    ++(is_forced ? num_forced : num_looked_up);
    proposed_.push_back({draft.token, is_forced ? DraftOrigin::kForced : DraftOrigin::kLookup});
  }
}

// Maximum forced tokens behind the walk's token. In a model's chain they are the tail, which begins in place of the
// last draft.
int Walk::most_forced() const {
  const int num_forced = limits_.num_forced_tokens, last_draft = limits_.num_draft_tokens;
  if (num_forced == 0 || last_draft == 0) return num_forced;
  return path_.here() == last_draft - 1 ? 1 + num_forced : 0;
}

SpeltToken Walk::forced_draft(int limit) {
  if (limit == 0) return {-1, -1};
  if (forced_.empty()) {
    const int32_t* row = buffers_->row(slot_, path_.here());
    const auto ask = [&] {
      forced_ = matcher_.forced_drafts(row, buffers_->num_words(), static_cast<size_t>(limit), *spelling_);
    };
    if (path_.here() == 0) ask();
    else failure_of(ask);
    std::reverse(forced_.begin(), forced_.end());
  }
  if (forced_.empty()) return {-1, -1};
  const SpeltToken next = forced_.back();
  forced_.pop_back();
  return next;
}

SpeltToken Walk::looked_up_draft() {
  const LookedUp found = lookup_->next(path_.tokens_here());
  probability_ *= found.probability;
  return {probability_ >= least_probability_ ? found.token : -1, -1};
}

void Walk::take_verified(int num_accepted, int32_t token) {
  if (!lookup_) return;
  for (int i = 0; i < num_accepted; ++i) lookup_->append(path_[accepted_[static_cast<size_t>(i)]].token);
  if (token >= 0) lookup_->append(token);
}

// Learns from a chain's forced drafts, up to and including the place where the golden token differs.
void Walk::learn_spelling(int num_accepted, int32_t token) {
  for (int node = 1; node <= num_accepted + 1 && node < buffers_->num_nodes(); ++node) {
    spelling_->learn(path_[node].canonical, node <= num_accepted ? path_[node].token : token);
  }
}

}  // namespace specguide
