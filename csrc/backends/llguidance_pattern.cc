#include "backends/llguidance_pattern.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace specguide {
namespace {

constexpr size_t kMaxIdle = 16;
// What the library appends to its message in place of details.
constexpr std::string_view kNoDetails = "\n<non-verbose/>";
constexpr std::string_view kTrace = "\n<backtrace>";  // from a panic: clients should not read it

}  // namespace

std::unique_ptr<LLGuidanceHandle> LLGuidanceHandle::at_start(const LLGuidanceTokenizerPtr& tokenizer,
                                                             const std::string& lark, const LLGuidanceLimits& limits) {
  const llg::Api& api = tokenizer->api();
  llg::ConstraintInit init;
  api.constraint_init_set_defaults(&init, tokenizer->get());
  init.log_stderr_level = 0;
  init.limits.verbose_errors = false;
  init.limits.max_items_in_row = limits.max_items_in_row;
  init.limits.step_max_items = limits.step_max_items;
  init.limits.initial_lexer_fuel = limits.initial_lexer_fuel;
  init.limits.step_lexer_fuel = limits.step_lexer_fuel;
  init.limits.max_lexer_states = limits.max_lexer_states;
  auto handle = std::make_unique<LLGuidanceHandle>(tokenizer, api.new_matcher(&init, "lark", lark.c_str()));
  if (api.get_error(handle->get()) != nullptr) throw std::invalid_argument(handle->error());
  return handle;
}

std::unique_ptr<LLGuidanceHandle> LLGuidanceHandle::clone() const {
  return std::make_unique<LLGuidanceHandle>(tokenizer_, api().clone_matcher(matcher_));
}

std::string LLGuidanceHandle::error() const {
  const char* words = api().get_error(matcher_);
  const std::string found = words == nullptr ? "llguidance reported an error without a message" : words;
  return found.substr(0, std::min(found.find(kNoDetails), found.find(kTrace)));
}

std::unique_ptr<LLGuidanceHandle> LLGuidancePattern::take() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.empty()) return handle_->clone();
  auto handle = std::move(idle_.back());
  idle_.pop_back();
  return handle;
}

std::unique_ptr<LLGuidanceHandle> LLGuidancePattern::take_roomy() {
  std::lock_guard<std::mutex> lock(roomy_mutex_);
  if (!roomy_) roomy_ = LLGuidanceHandle::at_start(tokenizer(), lark_, more_);
  return roomy_->clone();
}

void LLGuidancePattern::give_back(std::unique_ptr<LLGuidanceHandle> handle) {
  const auto num_words = static_cast<size_t>(handle->tokenizer()->vocabulary()->num_words());
  std::vector<uint32_t> row(num_words);  // of the start, or the library might return the last state's mask
  if (handle->api().reset(handle->get()) != 0) return;
  if (handle->api().compute_mask_into(handle->get(), row.data(), 4 * num_words) != 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  ++num_given_back_;
  if ((num_given_back_ & (num_given_back_ - 1)) == 0) std::swap(handle_, handle);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(handle));
}

int64_t LLGuidancePattern::num_learned() {
  std::lock_guard<std::mutex> lock(mutex_);
  return num_given_back_ < 2 ? 0 : 1 + static_cast<int64_t>(idle_.size());  // the first only checked the start
}

LLGuidanceTokenizerPtr LLGuidancePattern::tokenizer() {
  std::lock_guard<std::mutex> lock(mutex_);
  return handle_->tokenizer();
}

}  // namespace specguide
