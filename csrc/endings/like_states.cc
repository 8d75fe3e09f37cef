// Owns which states of an automaton continue alike for the length of a token, and the rows that they share; see
// automaton.h.
//
// A string of at most 255 characters has a state for each number of characters, and what may follow is the same after
// 10 characters as after 11. So counts that are far from their bounds are treated as equal: states that differ in
// nothing else have the same kind. Tokens that could reach a bound are checked one by one.
#include <algorithm>
#include <atomic>
#include <functional>
#include <string_view>
#include <utility>

#include "endings/automaton.h"
#include "row.h"

namespace specguide {

namespace {

constexpr int32_t kFar = static_cast<int32_t>(TokenTrie::kLong) + 1;
constexpr int32_t kUnbounded = kFar + 1;
constexpr int32_t kNumCounts = kUnbounded + 1;
constexpr int kMostStacks = 200;  // nested rules that are compared; what is behind them counts as different

}  // namespace

// A place without its exact count and without the identity of what follows its rule. `reach` is reduced to what is left
// of a count that is treated as equal: each call takes at least one byte.
Automaton::Item Automaton::alike(const Item& item, int depth, size_t& reach) {
  const Network::Node& node = (*network_)[item.node];
  Item found = item;
  if (node.kind == Network::Kind::kCall && !network_->may_be_empty(node.index)) {
    const auto seen = [&](int32_t num_left) {
      if (num_left < kFar) return std::max(0, num_left);
      reach = std::min(reach, static_cast<size_t>(num_left));
      return kFar;
    };
    const int32_t least = seen(node.least - item.done);
    found.done = least * kNumCounts + (node.most < 0 ? kUnbounded : seen(node.most - item.done));
  }
  const Likeness behind = likeness_of_stack(item.stack, depth + 1);
  found.stack = behind.kind;
  reach = std::min(reach, behind.reach);
  return found;
}

Automaton::Likeness Automaton::likeness_of(const Items& items, int depth, int32_t tag) {
  Likeness found;
  Items key;
  for (const Item& item : items) key.push_back(alike(item, depth, found.reach));
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  key.push_back({tag, 0, 0});
  const size_t num_bytes = key.size() * sizeof(Item) + 100;
  const auto [place, is_new] = kind_index_.try_emplace(std::move(key), static_cast<int32_t>(shared_rows_.size()));
  if (is_new) {
    shared_rows_.emplace_back();
    num_bytes_ += sizeof(SharedRow) + num_bytes;
  }
  found.kind = place->second;
  return found;
}

// A stack that leads back to itself, or is nested too deeply, is a kind of its own.
Automaton::Likeness Automaton::likeness_of_stack(int32_t stack, int depth) {
  const Likeness own{kUnknown - 1 - stack, kEndless};
  if (stack == kRoot || depth > kMostStacks) return own;
  const auto index = static_cast<size_t>(stack);
  if (stack_likeness_.size() < stacks_.size()) stack_likeness_.resize(stacks_.size());
  if (stack_likeness_[index].kind != kUnknown) return stack_likeness_[index];
  stack_likeness_[index] = own;
  const Likeness found = likeness_of(stacks_[index].returns, depth, -1);
  return stack_likeness_[index] = found;
}

Automaton::Likeness Automaton::likeness(State state) {
  const auto index = static_cast<size_t>(state);
  if (states_[index].likeness.kind == kUnknown) {
    states_[index].likeness = likeness_of(states_[index].scans, 0, states_[index].may_end ? 1 : 0);
  }
  return states_[index].likeness;
}

// Checks each token of more than `reach` bytes. False if that is not possible.
bool Automaton::set_longer(State state, const TokenTrie& trie, size_t reach, int32_t* row) {
  const bool had_lost_track = std::exchange(has_lost_track_, false);
  bool is_known = true;
  for (const int32_t token : trie.long_tokens()) {
    const std::string& bytes = trie.vocabulary().token_bytes[static_cast<size_t>(token)];
    if (bytes.size() <= reach || !is_known) break;
    const std::optional<bool> may_follow = takes(state, bytes);
    if (may_follow) put_bit(row, token, *may_follow);
    is_known = may_follow && !has_lost_track_;
  }
  has_lost_track_ = had_lost_track || has_lost_track_;
  return is_known;
}

// None for a token that continues where the text may end: libraries know better what whitespace they allow there.
std::optional<bool> Automaton::takes(State state, std::string_view bytes) {
  for (const char byte : bytes) {
    if (state == kDead) return false;
    const bool may_end = states_[static_cast<size_t>(state)].may_end;
    state = step(state, static_cast<uint8_t>(byte));
    if (may_end && state != kDead) return std::nullopt;
  }
  return state != kDead;
}

// The index of a row that is kept; -1 if there is no room for another one.
int32_t Automaton::keep(const int32_t* row, size_t num_words) {
  const size_t num_bytes = num_words * sizeof(int32_t);
  const size_t hash = std::hash<std::string_view>{}({reinterpret_cast<const char*>(row), num_bytes});
  const auto [first, last] = row_index_.equal_range(hash);
  const auto found = std::find_if(first, last, [&](const auto& known) {
    return std::equal(row, row + num_words, rows_[static_cast<size_t>(known.second)].words.begin());
  });
  if (found != last) return found->second;
  if (num_row_bytes_ + num_bytes > kMostRowBytes) return -1;
  const auto place = static_cast<int32_t>(rows_.size());
  row_index_.emplace(hash, place);
  static std::atomic<int64_t> num_contents{0};
  rows_.push_back({{row, row + num_words}, ++num_contents});
  num_row_bytes_ += num_bytes;
  num_bytes_ += num_bytes;
  return place;
}

bool Automaton::Walk::copy_row(State state, const TokenTrie& trie, FilledRow& row) {
  const Likeness like = automaton_.likeness(state);
  const SharedRow& shared = automaton_.shared_rows_[static_cast<size_t>(like.kind)];
  if (shared.row < 0) return false;
  const KeptRow& known = automaton_.rows_[static_cast<size_t>(shared.row)];
  known.copy_to(row);
  row.content = 0;
  if (!automaton_.set_longer(state, trie, std::min(shared.reach, like.reach), row.words)) return false;
  keep_row(state, row, known.words.size());
  return true;
}

// A kind keeps the row of the state that reaches farthest.
void Automaton::Walk::keep_row(State state, FilledRow& row, size_t num_words) {
  const int32_t place = automaton_.keep(row.words, num_words);
  if (place < 0) return;
  row.content = automaton_.rows_[static_cast<size_t>(place)].content;
  automaton_.states_[static_cast<size_t>(state)].row = place;
  const Likeness like = automaton_.likeness(state);
  SharedRow& shared = automaton_.shared_rows_[static_cast<size_t>(like.kind)];
  if (shared.row < 0 || like.reach > shared.reach) shared = {place, like.reach};
  Items places = automaton_.places_of(state);
  const size_t num_bytes = places.size() * sizeof(Item) + 100;
  if (automaton_.like_rows_.insert_or_assign(std::move(places), place).second) automaton_.num_bytes_ += num_bytes;
}

Automaton::Items Automaton::places_of(State state) const {
  Items places = states_[static_cast<size_t>(state)].scans;
  for (Item& item : places) {
    item.stack = 0;
    if ((*network_)[item.node].kind != Network::Kind::kLiteral) item.done = 0;
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

bool Automaton::Walk::copy_like_row(State state, FilledRow& row) const {
  const auto found = automaton_.like_rows_.find(automaton_.places_of(state));
  if (found == automaton_.like_rows_.end()) return false;
  automaton_.rows_[static_cast<size_t>(found->second)].copy_to(row);
  return true;
}

std::optional<bool> Automaton::Walk::allows(State state, int32_t token, size_t num_bytes) {
  const Likeness like = automaton_.likeness(state);
  const SharedRow& shared = automaton_.shared_rows_[static_cast<size_t>(like.kind)];
  if (shared.row < 0 || num_bytes > std::min(shared.reach, like.reach)) return std::nullopt;
  return has_bit(automaton_.rows_[static_cast<size_t>(shared.row)].words.data(), token);
}

}  // namespace specguide
