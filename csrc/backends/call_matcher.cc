// Owns the matcher of messages with tool calls; see call_matcher.h.
#include "backends/call_matcher.h"

#include <stdexcept>
#include <utility>

#include "backends/forced_tokens.h"

namespace specguide {

CallMatcher::CallMatcher(std::shared_ptr<const Calls> calls)
    : calls_(std::move(calls)), states_{calls_->walk.start()} {
  parts_.push_back({-1, 0, calls_->part(-1, 0)});
}

bool CallMatcher::accept(int32_t token) {
  if (!here().accept(token)) return false;
  parts_.back().tokens.push_back(token);
  CallState state = states_.back();
  const Vocabulary& vocabulary = *calls_->vocabulary;
  bool is_found = false;
  if (vocabulary.is_text(token)) {
    is_found = calls_->walk.take(state, vocabulary.token_bytes[static_cast<size_t>(token)]);
  } else if (!vocabulary.is_eos(token)) {
    is_found = calls_->walk.take_special(state, token);
  }
  states_.push_back(state);
  if (!is_found || !calls_->has_part[static_cast<size_t>(state.call)]) return true;
  try {
    enter(state);
  } catch (...) {
    rollback(1);
    throw;
  }
  return true;
}

void CallMatcher::enter(const CallState& state) {
  if (state.mode != CallState::Mode::kLead && state.mode != CallState::Mode::kValue) {
    throw std::runtime_error("a token reaches from a tool's name into its arguments");
  }
  if (left_ && left_->call == state.call && left_->num_left == state.num_left) {
    parts_.push_back(std::move(*left_));
    left_.reset();
  } else {
    parts_.push_back({state.call, state.num_left, calls_->part(state.call, state.num_left)});
  }
  if (parts_.size() > kMostMatchers) parts_[parts_.size() - 1 - kMostMatchers].matcher.reset();
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

// Back to the part before, whose matcher may have been let go.
void CallMatcher::leave() {
  Part last = std::move(parts_.back());
  parts_.pop_back();
  last.matcher->rollback(static_cast<int>(last.tokens.size()));
  last.tokens.clear();
  left_ = std::move(last);
  Part& part = parts_.back();
  if (part.matcher) return;
  part.matcher = calls_->part(part.call, part.num_left);
  for (const int32_t token : part.tokens) {
    if (!part.matcher->accept(token)) throw std::runtime_error("it refuses token " + std::to_string(token) + " again");
  }
}

std::vector<int32_t> CallMatcher::forced_tokens() {
  if (is_terminated()) return {};
  std::vector<int32_t> row(static_cast<size_t>(calls_->vocabulary->num_words()));
  return find_forced_tokens(*this, *calls_->vocabulary, row.data());
}

}  // namespace specguide
