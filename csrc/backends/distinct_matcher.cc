// Owns the guard of arrays whose items must differ; see distinct_matcher.h.
#include "backends/distinct_matcher.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "backends/forced_tokens.h"
#include "json_canonical.h"
#include "json_text.h"
#include "row.h"

namespace specguide {

using DistinctMode = DistinctState::Mode;

namespace {

constexpr std::string_view kEnding = DistinctTokens::kEnding;

// Whether a token may continue behind an array's item, by the beginning of the next one.
bool holds_item(std::string_view bytes) {
  const size_t comma = bytes.find(',');
  return comma != std::string_view::npos && bytes.find_first_not_of(kJsonSpaces, comma + 1) != std::string_view::npos;
}

// Whether it may contain a whole value.
bool holds_value(std::string_view bytes) {
  const size_t start = bytes.find_first_not_of(kJsonSpaces);
  return start != std::string_view::npos && bytes.find_first_of(kEnding, start + 1) != std::string_view::npos;
}

// Whether it may begin the exponent of an item, or an item with an exponent.
bool may_be_power(std::string_view bytes) {
  const size_t power = bytes.find_first_not_of("-.0123456789");
  return power != std::string_view::npos && (bytes[power] == 'e' || bytes[power] == 'E');
}

const DistinctFrame* nearest_distinct(const DistinctState& state) {
  const DistinctFrame* frame = guarded(state.top);
  while (frame != nullptr && !frame->is_distinct()) frame = guarded(frame->parent);
  return frame;
}

}  // namespace

DistinctTokens::DistinctTokens(std::shared_ptr<const Vocabulary> words) : vocabulary(std::move(words)) {
  const auto num_words = static_cast<size_t>(vocabulary->num_words());
  ending.assign(num_words, 0);
  whole = closing = holding = quoting = ending;
  of_byte.fill(-1);
  for (int32_t token = 0; token < vocabulary->size(); ++token) {
    const std::string& bytes = vocabulary->token_bytes[static_cast<size_t>(token)];
    const auto opens = [](char byte) { return byte == '[' || byte == '{'; };
    most_opening = std::max(most_opening, static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), opens)));
    if (bytes.size() == 1) of_byte[static_cast<uint8_t>(bytes[0])] = token;
    const bool ends = bytes.find_first_of(kEnding) != std::string::npos;
    const bool is_power = may_be_power(bytes);
    if (ends || is_power) set_bit(ending.data(), token);
    const bool closes = holds_item(bytes) || bytes.find_first_of("]}") != std::string::npos;
    if (holds_value(bytes) || closes || is_power) set_bit(whole.data(), token);
    if (holds_item(bytes)) set_bit(holding.data(), token);
    if (closes) set_bit(closing.data(), token);
    if (bytes.find('"') != std::string::npos) set_bit(quoting.data(), token);
  }
}

DistinctMatcher::DistinctMatcher(std::shared_ptr<Matcher> inner, std::shared_ptr<const DistinctTokens> tokens,
                                 DistinctWalk walk)
    : inner_(std::move(inner)), tokens_(std::move(tokens)), walk_(std::move(walk)), state_(walk_.start()) {
  if (!inner_ || !tokens_) throw std::invalid_argument("distinct items need a matcher and tokens");
}

bool DistinctMatcher::accept(int32_t token) {
  if (!inner_->is_terminated() && vocabulary().is_text(token)) {
    settle();
    return take(token) == Taking::kYes;
  }
  if (!inner_->accept(token)) return false;
  taken_.push_back({token, state_});
  if (!inner_->is_terminated()) walk_.take_special(state_, token);
  return true;
}

DistinctMatcher::Taking DistinctMatcher::take(int32_t token) {
  if (!inner_->accept(token)) return Taking::kNo;
  DistinctState after = state_;
  if (!walk_.take(after, bytes_of(token)) || is_spent(after)) {
    inner_->rollback(1);
    return Taking::kRuledOut;
  }
  taken_.push_back({token, std::exchange(state_, std::move(after))});
  return Taking::kYes;
}

void DistinctMatcher::fill(int32_t* row) {
  if (!inner_->is_terminated()) settle();
  inner_->fill(row);
  mask(state_, row);
}

void DistinctMatcher::rollback(int n) {
  if (n < 0 || n > static_cast<int>(taken_.size())) {
    throw std::invalid_argument("rollback of " + std::to_string(n) + " tokens, " + std::to_string(taken_.size()) +
                                " were accepted");
  }
  if (n == 0) return;
  inner_->rollback(n);
  state_ = std::move(taken_[taken_.size() - static_cast<size_t>(n)].before);
  taken_.resize(taken_.size() - static_cast<size_t>(n));
}

std::vector<int32_t> DistinctMatcher::forced_tokens() {
  if (is_terminated()) return {};
  row_.resize(static_cast<size_t>(vocabulary().num_words()));
  return find_forced_tokens(*this, vocabulary(), row_.data());
}

std::vector<SpeltToken> DistinctMatcher::forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                                       const Spelling& spelling) {
  const int32_t first = forced_token(row, vocabulary());
  if (first < 0) return only_draft(row, num_words);
  row_.resize(num_words);
  return find_forced_drafts(*this, vocabulary(), first, limit, spelling, row_.data());
}

void DistinctMatcher::mask(const DistinctState& state, int32_t* row) {
  const Suspects wanted = suspects(state);
  for (int word = 0; word < vocabulary().num_words(); ++word) {
    const auto at = static_cast<size_t>(word);
    const int32_t leaving = state.is_in_string() ? tokens_->quoting[at] : -1;
    const int32_t among = wanted.words == nullptr ? -1 : (*wanted.words)[at] & leaving;
    for (auto bits = static_cast<uint32_t>(row[word] & among); bits != 0; bits &= bits - 1) {
      const int bit = __builtin_ctz(bits);
      const std::string& bytes = bytes_of(word * 32 + bit);
      const bool closes = ((tokens_->closing[at] & leaving) >> bit & 1) != 0;
      if (bytes.empty() || (!closes && !wanted.first[static_cast<uint8_t>(bytes[0])])) continue;
      if (may_take(state, word * 32 + bit)) continue;
      row[word] = static_cast<int32_t>(static_cast<uint32_t>(row[word]) & ~(1u << bit));
    }
  }
}

// Whether a token may come, given that the inner matcher allows it.
bool DistinctMatcher::may_take(const DistinctState& state, int32_t token) {
  DistinctState after = state;
  if (!walk_.take(after, bytes_of(token))) return false;
  if (!walk_.may_be_spent(after)) return true;
  if (!inner_->accept(token)) throw std::runtime_error("a matcher refuses what its row allows");
  const bool spent = is_spent(after);
  inner_->rollback(1);
  return !spent;
}

// Whether an item with an exponent, of which a grammar allows only few, can only become a number that is already there.
// The inner matcher must be in the state `state`.
bool DistinctMatcher::is_spent(const DistinctState& state) {
  if (!walk_.may_be_spent(state)) return false;
  for (const char byte : std::string_view("0123456789-+")) {
    const int32_t token = tokens_->of_byte[static_cast<uint8_t>(byte)];
    if (token < 0) return false;
    if (!inner_->accept(token)) continue;
    DistinctState after = state;
    const bool goes_on = walk_.take(after, {&byte, 1}) && !is_spent(after);
    inner_->rollback(1);
    if (goes_on) return false;
  }
  return true;
}

DistinctMatcher::Suspects DistinctMatcher::suspects(const DistinctState& state) {
  Suspects found{&tokens_->ending, going_wrong(state)};
  if (found.first.any() || walk_.has_exponent(state)) found.words = nullptr;
  const DistinctFrame* nearest = nearest_distinct(state);
  if (nearest == nullptr) return {&tokens_->holding, Bytes().set()};
  if (state.top->nested + tokens_->most_opening > kMostNestedValues) return {nullptr, Bytes().set()};
  if (walk_.any_order() && state.top->is_within) {
    // The end of a member changes how the beginning is noted, so the first byte of a token says nothing.
    found.first.set();
    return found;
  }
  if (nearest != state.top.get()) {
    if (found.words != nullptr) found.words = &tokens_->closing;
    return found;
  }
  const bool has_escape = state.is_in_string() && walk_.begun(state, *nearest).find('\\') != std::string_view::npos;
  const bool is_plain = state.is_in_string() && nearest->place->room != DistinctPlace::Room::kFew && !has_escape;
  found.first |= is_plain ? repeating(state) : Bytes().set();
  if (found.words != nullptr && state.mode == DistinctMode::kValue) found.words = &tokens_->whole;
  return found;
}

// The bytes by which a string may continue towards a repeated item. It has no escapes so far.
DistinctMatcher::Bytes DistinctMatcher::repeating(const DistinctState& state) {
  return walk_.index().repeating(state.top->items.get(), walk_.begun(state, *state.top)).set('\\');
}

// The bytes by which an open item may continue to a beginning that it must not have.
DistinctMatcher::Bytes DistinctMatcher::going_wrong(const DistinctState& state) {
  Bytes found;
  for (const DistinctFrame* frame = guarded(state.top); frame != nullptr; frame = guarded(frame->parent)) {
    const bool is_top = frame == state.top.get();
    if (!frame->is_tight() || (is_top && state.mode == DistinctMode::kAfter)) continue;
    const bool is_open = !is_top || state.mode != DistinctMode::kValue;
    const std::string_view start = is_open ? walk_.beginning(state, *frame) : std::string_view();
    if (walk_.index().rules_out(frame->items.get(), start)) return found.set();
    found |= walk_.index().going_wrong(frame->items.get(), start);
  }
  if (found.any() && !state.is_in_string()) {
    for (const char space : kJsonSpaces) found.set(static_cast<uint8_t>(space));
  }
  return found;
}

}  // namespace specguide
