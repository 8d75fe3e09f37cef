// Owns the guard of objects whose keys may come in any order; see key_matcher.h.
#include "backends/key_matcher.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "backends/forced_tokens.h"
#include "json_text.h"
#include "row.h"

namespace specguide {

using KeyMode = KeyState::Mode;

namespace {

bool is_opening(std::string_view bytes) {
  const size_t brace = bytes.find('{');
  return brace != std::string_view::npos && bytes.find_first_of("\",}", brace) != std::string_view::npos;
}

bool is_bounding(std::string_view bytes) {
  return is_opening(bytes) || bytes.find_first_of(",}") != std::string_view::npos;
}

// The text behind a string, from its closing quote on, without the whitespace up to another string.
std::string squeezed(std::string_view text) {
  std::string out = "\"";
  size_t at = 1;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (!is_space(text[at])) out += text[at];
  }
  return out.append(text.substr(at));
}

template <typename Visit>
bool any_token(const std::vector<int32_t>& row, Visit visit) {
  for (size_t word = 0; word < row.size(); ++word) {
    for (auto bits = static_cast<uint32_t>(row[word]); bits != 0; bits &= bits - 1) {
      if (visit(static_cast<int32_t>(word) * 32 + __builtin_ctz(bits))) return true;
    }
  }
  return false;
}

}  // namespace

KeyTokens::KeyTokens(std::shared_ptr<const Vocabulary> words) : vocabulary(std::move(words)) {
  bounding.assign(static_cast<size_t>(vocabulary->num_words()), 0);
  leaving = opening = quoting = keying = bounding;
  std::unordered_map<std::string, int32_t> numbers;
  end_of.assign(vocabulary->token_bytes.size(), -1);
  for (int32_t token = 0; token < vocabulary->size(); ++token) {
    const std::string_view bytes = vocabulary->token_bytes[static_cast<size_t>(token)];
    const size_t quote = bytes.find('"');
    const bool is_quoting = quote != std::string_view::npos;
    if (is_bounding(bytes)) set_bit(bounding.data(), token);
    if (is_opening(bytes)) set_bit(opening.data(), token);
    if (is_quoting) set_bit(quoting.data(), token);
    if (is_quoting && is_bounding(bytes.substr(quote + 1))) {
      set_bit(leaving.data(), token);
      const auto next = static_cast<int32_t>(numbers.size());
      const int32_t end = numbers.emplace(squeezed(bytes.substr(quote)), next).first->second;
      if (bytes.substr(0, quote).find('\\') == std::string_view::npos) end_of[static_cast<size_t>(token)] = end;
    }
    if (is_bounding(bytes) || (is_quoting && bytes.rfind('"') != quote)) set_bit(keying.data(), token);
  }
  num_ends = numbers.size();
}

KeyMatcher::KeyMatcher(std::shared_ptr<Matcher> inner, std::shared_ptr<const KeyTokens> tokens, KeyWalk walk)
    : inner_(std::move(inner)), tokens_(std::move(tokens)), walk_(std::move(walk)), state_(walk_.start()) {
  if (!inner_ || !tokens_) throw std::invalid_argument("keys in any order need a matcher and tokens");
}

bool KeyMatcher::accept(int32_t token) {
  const bool is_text = !inner_->is_terminated() && vocabulary().is_text(token);
  if (!inner_->accept(token)) return false;
  KeyState after = state_;
  if (!is_text) walk_.take_special(after, token);
  if (is_text) {
    const KeyVerdict verdict = walk_.take(after, bytes_of(token));
    if (verdict == KeyVerdict::kNo || (verdict == KeyVerdict::kPerhaps && !can_go_on(after))) {
      inner_->rollback(1);
      return false;
    }
  }
  const size_t key_size = std::exchange(state_.key, {}).size();
  before_.push_back({std::exchange(state_, std::move(after)), key_size, text_.size()});
  if (is_text) text_ += bytes_of(token);
  const size_t object = state_.top == nullptr ? 0 : state_.top->object;
  while (!dead_.empty() && dead_.back().object > object) forget_dead_key();
  return true;
}

void KeyMatcher::fill(int32_t* row) {
  inner_->fill(row);
  mask(row);
}

void KeyMatcher::rollback(int n) {
  if (n < 0 || n > static_cast<int>(before_.size())) {
    throw std::invalid_argument("rollback of " + std::to_string(n) + " tokens, " + std::to_string(before_.size()) +
                                " were accepted");
  }
  if (n == 0) return;
  inner_->rollback(n);
  const size_t num_left = before_.size() - static_cast<size_t>(n);
  Before& before = before_[num_left];
  state_ = std::move(before.state);
  text_.resize(before.text_size);
  state_.key = text_.substr(before.text_size - before.key_size);
  before_.resize(num_left);
  while (!dead_.empty() && dead_.back().num_taken > num_left) forget_dead_key();
}

std::vector<int32_t> KeyMatcher::forced_tokens() {
  if (is_terminated()) return {};
  row_.resize(static_cast<size_t>(vocabulary().num_words()));
  return find_forced_tokens(*this, vocabulary(), row_.data());
}

std::vector<SpeltToken> KeyMatcher::forced_drafts(const int32_t* row, size_t num_words, size_t limit,
                                                  const Spelling& spelling) {
  const int32_t first = forced_token(row, vocabulary());
  if (first < 0) return only_draft(row, num_words);
  row_.resize(num_words);
  return find_forced_drafts(*this, vocabulary(), first, limit, spelling, row_.data());
}

void KeyMatcher::mask(int32_t* row) {
  const Suspects wanted = suspects();
  Known known;
  for (int word = 0; word < vocabulary().num_words(); ++word) {
    const auto at = static_cast<size_t>(word);
    const int32_t among = wanted.words == nullptr ? -1 : (*wanted.words)[at] | (*wanted.always)[at];
    for (auto bits = static_cast<uint32_t>(row[word] & among); bits != 0; bits &= bits - 1) {
      const int32_t token = word * 32 + __builtin_ctz(bits);
      const std::string& bytes = bytes_of(token);
      if (bytes.empty()) continue;
      if (!has_bit(wanted.always->data(), token) && !wanted.first[static_cast<uint8_t>(bytes[0])]) continue;
      if (!may_take(token, known)) {
        row[word] = static_cast<int32_t>(static_cast<uint32_t>(row[word]) & ~(bits & -bits));
      }
    }
  }
}

KeyMatcher::Suspects KeyMatcher::suspects() const {
  if (state_.mode == KeyMode::kOutside) return {&tokens_->opening, &tokens_->opening, {}};
  if (!state_.is_before_key() && !state_.is_in_string()) return {&tokens_->bounding, &tokens_->bounding, {}};
  if (state_.is_in_string() && !state_.is_key) return {&tokens_->leaving, &tokens_->leaving, {}};
  const bool is_full = state_.top->is_full();
  const bool is_open = !is_full && state_.top->demand.takes_any_unnamed;
  if (state_.mode == KeyMode::kFirst) {
    return {is_full ? nullptr : &tokens_->bounding, &tokens_->bounding, Bytes().set()};
  }
  if (state_.mode == KeyMode::kKey) return {is_open ? &tokens_->keying : nullptr, &tokens_->keying, Bytes().set()};
  return {is_open ? &tokens_->quoting : nullptr, &tokens_->leaving, is_full ? Bytes().set() : repeating()};
}

// The bytes by which an open key may continue towards a key that has come.
KeyMatcher::Bytes KeyMatcher::repeating() const {
  Bytes found;
  const std::string& start = state_.key;
  const KeyFrame& frame = *state_.top;
  const auto add = [&](const std::string& key) {
    if (key.size() > start.size()) found.set(static_cast<uint8_t>(key[start.size()]));
  };
  const auto [first, last] = frame.place->beginning_with(start);
  for (size_t i = first; i < last; ++i) {
    if (frame.seen.has(i)) add(frame.place->names()[i]);
  }
  for (const SeenKey* one = frame.others.get(); one != nullptr; one = one->before.get()) {
    if (begins_with(one->text, start)) add(one->text);
  }
  return found;
}

// Whether a token may come, given that the inner matcher allows it. For tokens that leave a string, only their end
// matters.
bool KeyMatcher::may_take(int32_t token, Known& known) {
  const bool leaves = !state_.is_key && state_.mode == KeyMode::kString;
  const int32_t end = leaves ? tokens_->end_of[static_cast<size_t>(token)] : -1;
  if (end < 0) return find_out(token, known);
  known.ends.resize(tokens_->num_ends, -1);
  int8_t& found = known.ends[static_cast<size_t>(end)];
  if (found < 0) found = find_out(token, known) ? 1 : 0;
  return found != 0;
}

bool KeyMatcher::find_out(int32_t token, Known& known) {
  KeyState after = state_;
  const KeyVerdict verdict = walk_.take(after, bytes_of(token));
  if (verdict != KeyVerdict::kPerhaps) return verdict == KeyVerdict::kYes;
  if (after.top != state_.top) return is_live_behind(token, after);
  const auto [found, is_new] = known.keys.try_emplace(after.key, false);
  if (is_new) found->second = is_live_behind(token, after);
  return found->second;
}

bool KeyMatcher::is_live_behind(int32_t token, const KeyState& after) {
  if (!inner_->accept(token)) throw std::runtime_error("a matcher refuses what its row allows");
  const bool found = can_go_on(after);
  inner_->rollback(1);
  return found;
}

bool KeyMatcher::can_go_on(const KeyState& state) {
  const size_t object = state.top->object;
  std::string text = std::to_string(object) + state.key;
  if (dead_texts_.count(text) > 0) return false;
  const KeyVerdict verdict = takes_a_key(state);
  const bool found = verdict == KeyVerdict::kPerhaps ? is_live(state) : verdict == KeyVerdict::kYes;
  const bool is_of_key = state.top == state_.top && state_.is_in_key();  // only what extends a key is tried
  if (!found && is_of_key && dead_texts_.insert(text).second) {
    dead_.push_back({before_.size(), object, std::move(text)});
  }
  return found;
}

void KeyMatcher::forget_dead_key() {
  dead_texts_.erase(dead_.back().text);
  dead_.pop_back();
}

// Whether the inner matcher accepts one of the names from a state on, or some other key that is tried.
KeyVerdict KeyMatcher::takes_a_key(const KeyState& state) {
  const KeyFrame& frame = *state.top;
  const bool takes_others = !frame.is_full() && frame.demand.takes_unnamed;
  bool is_sure = !takes_others;
  const auto takes = [&](const std::string& key) {
    if (key.size() <= state.key.size()) return false;
    const KeyVerdict verdict = takes_text(std::string_view(key).substr(state.key.size()));
    is_sure = is_sure && verdict != KeyVerdict::kPerhaps;
    return verdict == KeyVerdict::kYes;
  };
  const auto& names = frame.place->names();
  const auto [first, last] = frame.place->beginning_with(state.key);
  for (size_t i = first; i < last; ++i) {
    const bool may_come = frame.is_full() ? frame.demand.missing.has(i) : frame.place->with_key(frame.options, i) != 0;
    if (may_come && !frame.seen.has(i) && takes(names[i])) return KeyVerdict::kYes;
  }
  const std::string start = state.key.empty() ? "\"" : state.key;
  for (const std::string end : {"\"", "x\"", "0\""}) {
    const bool is_name = frame.place->number(start + end) < names.size();
    if (takes_others && !is_name && !frame.has_come(start + end) && takes(start + end)) return KeyVerdict::kYes;
  }
  return is_sure ? KeyVerdict::kNo : KeyVerdict::kPerhaps;
}

// Whether the inner matcher accepts a text, tokenized by longest match; kPerhaps if some byte has no token. Its state
// is restored.
KeyVerdict KeyMatcher::takes_text(std::string_view text) {
  KeyVerdict found = KeyVerdict::kYes;
  int num_taken = 0;
  while (!text.empty() && found == KeyVerdict::kYes) {
    int32_t token = -1;
    size_t length = text.size() + 1;
    while (token < 0 && --length > 0) token = vocabulary().find(text.substr(0, length));
    if (token < 0) found = KeyVerdict::kPerhaps;
    if (token >= 0 && !inner_->accept(token)) found = KeyVerdict::kNo;
    if (found != KeyVerdict::kYes) break;
    ++num_taken;
    text.remove_prefix(length);
  }
  if (num_taken > 0) inner_->rollback(num_taken);
  return found;
}

// Whether some new key can be completed from a state of the inner matcher. Whitespace does not count as progress.
bool KeyMatcher::is_live(const KeyState& state) {
  Row row(static_cast<size_t>(vocabulary().num_words()), 0);
  inner_->fill(row.data());
  std::vector<std::pair<int32_t, KeyState>> unsure;
  const bool is_sure = any_token(row, [&](int32_t token) {
    if (bytes_of(token).empty()) return false;
    KeyState after = state;
    const KeyVerdict verdict = walk_.take(after, bytes_of(token));
    const bool goes_on = after.top != state.top || after.key.size() > state.key.size();
    if (verdict == KeyVerdict::kPerhaps && goes_on) unsure.emplace_back(token, std::move(after));
    return verdict == KeyVerdict::kYes;
  });
  if (is_sure) return true;
  for (const auto& [token, after] : unsure) {
    if (is_live_behind(token, after)) return true;
  }
  return false;
}

}  // namespace specguide
