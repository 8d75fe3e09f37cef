// Owns how the guard of distinct items finds the beginnings that can only repeat an item: it tries them on the inner
// matcher, and rolls them back. See distinct_matcher.h.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "backends/distinct_beginnings.h"
#include "backends/distinct_matcher.h"
#include "json_text.h"
#include "row.h"

namespace specguide {

using DistinctMode = DistinctState::Mode;

namespace {

// Bytes to try for the other orders of one item. Objects with a dozen fixed members need more; then some of their
// orders are not tried. The bytes of the item itself are taken a few times for the items inside it.
constexpr size_t kMostTried = 1 << 13;
constexpr size_t kTimesTaken = 8;

// An array whose next item is begun on trial, behind `last`. The items of the arrays around it do not matter.
std::shared_ptr<const DistinctFrame> on_trial(const DistinctFrame& array, const std::shared_ptr<DistinctItem>& last) {
  auto tried = std::make_shared<DistinctFrame>(array);
  tried->items = last;
  tried->is_tried = true;
  for (DistinctFrame* inner = tried.get(); guarded(inner->parent) != nullptr;) {
    auto around = std::make_shared<DistinctFrame>(*inner->parent);
    around->items = nullptr;
    inner->parent = around;
    inner = around.get();
  }
  return tried;
}

}  // namespace

void DistinctMatcher::settle() {
  if (walk_.expected_at() != state_.raw_size) walk_.expect(nullptr, 0);
  for (const DistinctFrame* frame = guarded(state_.top); frame != nullptr; frame = guarded(frame->parent)) {
    if (frame->is_to_settle()) settle_items(*frame);
  }
  for (const DistinctFrame* frame = guarded(state_.top); frame != nullptr && !search_; frame = guarded(frame->parent)) {
    if (frame->is_distinct()) walk_.index().put(frame->items);
  }
  settle_ahead();
}

void DistinctMatcher::settle_items(const DistinctFrame& frame) {
  std::vector<std::shared_ptr<DistinctItem>> unsettled;
  for (auto item = frame.items; item && !item->is_settled; item = item->before) unsettled.push_back(item);
  for (size_t i = unsettled.size(); i > 0; --i) {
    const auto& item = unsettled[i - 1];
    if (item->is_even) {
      settle(item, item->raw_start);
    } else if (i > 1) {
      settle(item, unsettled[i - 2]->raw_start);
    } else {
      settle_told(item, frame);
    }
  }
}

// Items that are determined by their place are settled together with the last of them, where the next item begins.
void DistinctMatcher::settle_told(const std::shared_ptr<DistinctItem>& item, const DistinctFrame& frame) {
  const bool is_top = &frame == state_.top.get();
  const bool is_behind = state_.mode == DistinctMode::kAfter || state_.mode == DistinctMode::kValue;
  if (!is_top || !is_behind) return settle(item, frame.raw_start);
  if (state_.mode == DistinctMode::kValue) return settle(item, state_.raw_size);
  item->is_settled = true;  // even if nothing may follow it
  if (!lead(",")) return;
  settle(item, state_.raw_size);
  rollback(1);
}

// The bytes that end the item which is open in the nearest array of few values, and the comma behind them; empty where
// there is none.
std::string DistinctMatcher::item_end() const {
  const bool is_in_value = state_.mode == DistinctMode::kScalar || state_.mode == DistinctMode::kString;
  if (state_.is_key || state_.mode == DistinctMode::kEscape) return "";
  std::string end = state_.mode == DistinctMode::kString ? "\"" : "";
  const DistinctFrame* frame = guarded(state_.top);
  const bool is_open = is_in_value || (frame != nullptr && !frame->is_distinct());
  for (; frame != nullptr && !frame->is_distinct(); frame = guarded(frame->parent)) end += frame->is_object ? '}' : ']';
  const bool has_few = frame != nullptr && frame->is_to_settle() && frame->place->room == DistinctPlace::Room::kFew;
  return is_open && has_few ? end + ',' : "";
}

// A token may both end an item and ask for another one, as a comma behind a number does, or `","` within a string.
// Within a search only a comma is looked ahead for, so that each of its steps stays cheap.
void DistinctMatcher::settle_ahead() {
  const std::string end = item_end();
  if (end.empty() || (search_ && end.size() > 1) || !lead(end)) return;
  settle_items(*state_.top);
  std::shared_ptr<DistinctItem> item = state_.top->items;
  rollback(static_cast<int>(end.size()));
  walk_.expect(std::move(item), state_.raw_size);
}

void DistinctMatcher::settle(const std::shared_ptr<DistinctItem>& item, size_t place) {
  item->is_settled = true;
  if (!search_) {
    search_ = Search{item->end - item->text.size(), kMostTried + kTimesTaken * item->text.size(), {}};
    try_beginnings(item, place);
    search_.reset();
    return;
  }
  const std::string text = walk_.text_between(search_->start, item->end);
  const auto known = search_->dead.find(text);
  if (known != search_->dead.end()) {
    item->dead = known->second;
    return;
  }
  try_beginnings(item, place);
  search_->dead.emplace(text, item->dead);
}

void DistinctMatcher::try_beginnings(const std::shared_ptr<DistinctItem>& item, size_t place) {
  const DistinctState here = state_;
  const auto behind = std::upper_bound(taken_.begin(), taken_.end(), place, [](size_t raw, const Taken& one) {
    return raw < one.before.raw_size;
  });
  const auto first = behind - 1;  // the token that contains the place
  const std::string before = bytes_of(first->token).substr(0, place - first->before.raw_size);
  const std::string written = walk_.text_behind(first->before);
  std::vector<Taken> again(first, taken_.end());
  rollback(static_cast<int>(again.size()));
  const size_t num_taken = taken_.size();
  if (lead(before)) {
    state_.top = on_trial(*state_.top, item);
    Trial trial{item, ""};
    const auto is_dead_now = [&](const std::string& bytes, bool has_ended) { return is_dead(trial, bytes, has_ended); };
    const DistinctBeginnings beginnings(is_dead_now, walk_.any_order());
    beginnings.find(item->text);
    const DistinctItem* told = item->is_even ? nullptr : item->before.get();
    for (; told != nullptr; told = told->before.get()) beginnings.find(told->text);
  }
  rollback(static_cast<int>(taken_.size() - num_taken));
  walk_.put_back(state_, written);
  walk_.expect(nullptr, 0);
  for (Taken& one : again) {
    if (!inner_->accept(one.token)) throw std::runtime_error("a matcher refuses what it took before");
    taken_.push_back(std::move(one));
  }
  state_ = here;
}

// Takes bytes up to the place of an item; it does not matter there that items before it are not settled.
bool DistinctMatcher::lead(const std::string& bytes) {
  const size_t num_taken = taken_.size();
  walk_.go_on_unsettled(true);
  const bool leads = std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
    const int32_t token = tokens_->of_byte[static_cast<uint8_t>(byte)];
    return token >= 0 && take(token) == Taking::kYes;
  });
  walk_.go_on_unsettled(false);
  if (!leads) rollback(static_cast<int>(taken_.size() - num_taken));
  return leads;
}

// Takes the bytes of a beginning. kNo: a byte is no token, or too many were tried; otherwise the result of `take`.
DistinctMatcher::Taking DistinctMatcher::reach(Trial& trial, const std::string& bytes) {
  const auto differs = std::mismatch(bytes.begin(), bytes.end(), trial.bytes.begin(), trial.bytes.end()).first;
  const auto num_same = static_cast<size_t>(differs - bytes.begin());
  rollback(static_cast<int>(trial.bytes.size() - num_same));
  trial.bytes.resize(num_same);
  for (size_t i = num_same; i < bytes.size(); ++i) {
    const int32_t token = tokens_->of_byte[static_cast<uint8_t>(bytes[i])];
    if (token < 0 || search_->num_left == 0) return Taking::kNo;
    --search_->num_left;
    settle();
    const Taking taking = take(token);
    if (taking != Taking::kYes) return taking;
    trial.bytes += bytes[i];
  }
  return Taking::kYes;
}

// Whether an item with this beginning can only repeat one; if so, the beginning is noted with the last item.
bool DistinctMatcher::is_dead(Trial& trial, const std::string& bytes, bool has_ended) {
  const Taking taking = reach(trial, bytes);
  if (taking != Taking::kYes) return taking == Taking::kRuledOut;
  settle();
  if (is_live(has_ended)) return false;
  DistinctState state = state_;
  if (has_ended && !walk_.take(state, " ")) return true;
  const DistinctFrame* frame = state.top.get();
  while (frame->items != trial.item) frame = frame->parent.get();
  const std::string_view start = bytes.empty() ? "" : walk_.noted(state, *frame);
  std::vector<std::string>& dead = trial.item->dead;
  while (!dead.empty() && begins_with(dead.back(), start)) dead.pop_back();  // the shorter one rules these out
  dead.emplace_back(start);
  return true;
}

// Whether another item may continue from the present state. Whitespace does not count, and if no item has been begun,
// the end of an empty array does not count either.
bool DistinctMatcher::is_live(bool has_ended) {
  const bool is_begun = state_.mode != DistinctMode::kValue || !state_.top->is_tried;
  scratch_.resize(static_cast<size_t>(vocabulary().num_words()));
  inner_->fill(scratch_.data());
  mask(state_, scratch_.data());
  for (int word = 0; word < vocabulary().num_words(); ++word) {
    for (auto bits = static_cast<uint32_t>(scratch_[static_cast<size_t>(word)]); bits != 0; bits &= bits - 1) {
      const std::string& bytes = bytes_of(word * 32 + __builtin_ctz(bits));
      if (!is_begun && !bytes.empty() && bytes[0] == ']') continue;
      const bool is_apart = !bytes.empty() && is_space(bytes[0]);
      const bool goes_on =
          has_ended && !bytes.empty() && DistinctTokens::kEnding.find(bytes[0]) == std::string_view::npos;
      if (state_.is_in_string() || (!is_apart && !goes_on)) return true;
    }
  }
  return false;
}

}  // namespace specguide
