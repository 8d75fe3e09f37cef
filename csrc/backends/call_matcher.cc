// Owns the matcher of messages with tool calls; see call_matcher.h.
#include "backends/call_matcher.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "backends/forced_tokens.h"
#include "row.h"

namespace specguide {

Calls::Calls(CallWalk call_walk, std::string rest_of_lead, std::vector<bool> have_parts,
             std::shared_ptr<const Vocabulary> words, const std::vector<int32_t>& reaching, Part make_part)
    : walk(std::move(call_walk)),
      lead(std::move(rest_of_lead)),
      has_part(std::move(have_parts)),
      vocabulary(std::move(words)),
      part(std::move(make_part)) {
  if (reaching.empty()) return;
  reaching_.resize(static_cast<size_t>(vocabulary->num_words()));
  reaching_later_.resize(reaching_.size());
  for (const int32_t token : reaching) {
    if (token < 0 || token >= vocabulary->size()) throw std::invalid_argument("a token is out of range");
    const std::string& bytes = vocabulary->token_bytes[static_cast<size_t>(token)];
    set_bit(reaching_.data(), token);
    if (bytes.empty() || walk.has_later(bytes)) set_bit(reaching_later_.data(), token);
    most_reaching_ = std::max(most_reaching_, bytes.size());
  }
  if (is_empty(reaching_later_.data(), reaching_later_.size())) reaching_later_.clear();
}

std::vector<FoundCall> Calls::take(CallState& state, int32_t token) const {
  if (vocabulary->is_text(token)) return walk.take(state, vocabulary->token_bytes[static_cast<size_t>(token)]);
  return vocabulary->is_eos(token) ? std::vector<FoundCall>{} : walk.take_special(state, token);
}

const std::vector<int32_t>* Calls::reaching(const CallState& state) const {
  if (reaching_.empty()) return nullptr;
  if (walk.may_find(state, most_reaching_)) return &reaching_;
  return reaching_later_.empty() ? nullptr : &reaching_later_;
}

std::string Calls::before(const FoundCall& call, int32_t token) const {
  if (!reaches(call, token)) return lead.substr(lead.size() - call.num_left);
  const std::string& bytes = vocabulary->token_bytes[static_cast<size_t>(token)];
  return bytes.substr(0, call.head_len);
}

bool Calls::reaches(const FoundCall& call, int32_t token) const {
  if (!vocabulary->is_text(token)) return call.head_len == 0;
  return call.head_len < vocabulary->token_bytes[static_cast<size_t>(token)].size();
}

CallMatcher::CallMatcher(std::shared_ptr<const Calls> calls)
    : calls_(std::move(calls)), states_{calls_->walk.start()} {
  parts_.emplace_back();
  start(parts_.back());
}

bool CallMatcher::accept(int32_t token) {
  if (!here().accept(token)) return false;
  parts_.back().tokens.push_back(token);
  CallState state = states_.back();
  const std::vector<FoundCall> found = calls_->take(state, token);
  states_.push_back(state);
  try {
    for (const FoundCall& one : found) {
      if (!calls_->has_part[static_cast<size_t>(one.call)] || enter(one, token)) continue;
      rollback(1);
      return false;
    }
  } catch (...) {
    rollback(1);
    throw;
  }
  return true;
}

// Makes a part's matcher and gives it the part's first token; false if the matcher refuses that.
bool CallMatcher::start(Part& part) const {
  part.matcher = calls_->part(part.call, part.before);
  return part.first < 0 || part.matcher->accept(part.first);
}

// Enters the part of a call; false if the token reaches into the arguments and the part refuses it.
bool CallMatcher::enter(const FoundCall& found, int32_t token) {
  Part part{found.call, calls_->before(found, token), calls_->reaches(found, token) ? token : -1};
  if (left_ && left_->is_like(part)) {
    part = std::move(*left_);
    left_.reset();
  } else if (!start(part)) {
    return false;
  }
  parts_.push_back(std::move(part));
  if (parts_.size() > kMostMatchers) parts_[parts_.size() - 1 - kMostMatchers].matcher.reset();
  return true;
}

void CallMatcher::fill(int32_t* row) {
  here().fill(row);
  const std::vector<int32_t>* reaching = calls_->reaching(states_.back());
  if (reaching == nullptr) return;
  for (size_t word = 0; word < reaching->size(); ++word) {
    auto bits = static_cast<uint32_t>((*reaching)[word]) & static_cast<uint32_t>(row[word]);
    for (; bits != 0; bits &= bits - 1) judge(row, static_cast<int32_t>(word) * 32 + __builtin_ctz(bits));
  }
}

// Clears the bit of a token if it reaches into arguments that refuse it.
void CallMatcher::judge(int32_t* row, int32_t token) {
  CallState state = states_.back();
  for (const FoundCall& one : calls_->take(state, token)) {
    if (!calls_->has_part[static_cast<size_t>(one.call)] || !calls_->reaches(one, token)) continue;
    if (!has_bit(verdict(one, token).row.data(), token)) put_bit(row, token, false);
  }
}

const CallMatcher::Verdict& CallMatcher::verdict(const FoundCall& found, int32_t token) {
  std::string before = calls_->before(found, token);
  const auto is_it = [&](const Verdict& one) { return one.call == found.call && one.before == before; };
  const auto known = std::find_if(verdicts_.begin(), verdicts_.end(), is_it);
  if (known != verdicts_.end()) return *known;
  if (verdicts_.size() == kMostVerdicts) verdicts_.erase(verdicts_.begin());
  std::vector<int32_t> row(static_cast<size_t>(calls_->vocabulary->num_words()));
  calls_->part(found.call, before)->fill(row.data());
  verdicts_.push_back({found.call, std::move(before), std::move(row)});
  return verdicts_.back();
}

void CallMatcher::rollback(int n) {
  if (n < 0 || static_cast<size_t>(n) >= states_.size()) {
    throw std::invalid_argument("rollback of " + std::to_string(n) + " tokens, " + std::to_string(states_.size() - 1) +
                                " were accepted");
  }
  states_.resize(states_.size() - static_cast<size_t>(n));
  auto num = static_cast<size_t>(n);
  for (; num > parts_.back().tokens.size(); leave()) num -= parts_.back().tokens.size();
  here().rollback(static_cast<int>(num));
  parts_.back().tokens.resize(parts_.back().tokens.size() - num);
}

// Returns to the part before, whose matcher may have been released.
void CallMatcher::leave() {
  Part last = std::move(parts_.back());
  parts_.pop_back();
  last.matcher->rollback(static_cast<int>(last.tokens.size()));
  last.tokens.clear();
  left_ = std::move(last);
  Part& part = parts_.back();
  if (part.matcher) return;
  start(part);
  for (const int32_t token : part.tokens) {
    if (!part.matcher->accept(token)) {
      throw std::runtime_error("it refuses token " + std::to_string(token) + ", which it accepted before");
    }
  }
}

std::vector<int32_t> CallMatcher::forced_tokens() {
  if (is_terminated()) return {};
  std::vector<int32_t> row(static_cast<size_t>(calls_->vocabulary->num_words()));
  return find_forced_tokens(*this, *calls_->vocabulary, row.data());
}

}  // namespace specguide
