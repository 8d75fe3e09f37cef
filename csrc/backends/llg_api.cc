// Owns the symbols of llguidance and the checks on them; see llg_api.h.
#include "backends/llg_api.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "backends/shared_library.h"

namespace specguide::llg {
namespace {

constexpr std::string_view kKnownVersion = "llguidance@1.9.";

// Lets the library fill a region larger than our struct and looks for its defaults where we expect them, so that a
// changed layout is noticed before any grammar is compiled.
void check_layout(const Api& api) {
  constexpr unsigned char kUntouched = 0xA5;
  alignas(ConstraintInit) unsigned char region[4 * sizeof(ConstraintInit)];
  std::memset(region, kUntouched, sizeof(region));
  ConstraintInit init;
  const auto* tokenizer = reinterpret_cast<const Tokenizer*>(region);
  api.constraint_init_set_defaults(reinterpret_cast<ConstraintInit*>(region), tokenizer);
  std::memcpy(&init, region, sizeof(init));
  const Limits& limits = init.limits;
  const bool known = init.tokenizer == tokenizer && init.log_buffer_level == 0 && init.log_stderr_level == 1 &&
                     !init.ff_tokens_ok && !init.backtrack_ok && limits.max_items_in_row == 2000 &&
                     limits.initial_lexer_fuel == 1000000 && limits.step_lexer_fuel == 200000 &&
                     limits.step_max_items == 50000 && limits.max_lexer_states == 250000 &&
                     limits.max_grammar_size == 500000 && limits.precompute_large_lexemes && limits.verbose_errors;
  const bool within = std::all_of(region + sizeof(ConstraintInit), region + sizeof(region),
                                  [](unsigned char byte) { return byte == kUntouched; });
  if (!known || !within) throw std::runtime_error("the C interface of llguidance has an unknown layout");
}

}  // namespace

Api::Api(const std::string& path) {
  SharedLibrary library(path);
  library.resolve(get_version, "llg_get_version");
  const std::string version = get_version();
  if (version.compare(0, kKnownVersion.size(), kKnownVersion) != 0) {
    throw std::runtime_error("llguidance has version " + version + ", and only version 1.9 is supported");
  }
  library.resolve(constraint_init_set_defaults, "llg_constraint_init_set_defaults");
  library.resolve(new_tokenizer_v2, "llg_new_tokenizer_v2");
  library.resolve(free_tokenizer, "llg_free_tokenizer");
  library.resolve(new_matcher, "llg_new_matcher");
  library.resolve(clone_matcher, "llg_clone_matcher");
  library.resolve(free_matcher, "llg_free_matcher");
  library.resolve(mask_byte_size, "llg_matcher_get_mask_byte_size");
  library.resolve(compute_mask_into, "llg_matcher_compute_mask_into");
  library.resolve(consume_tokens, "llg_matcher_consume_tokens");
  library.resolve(validate_tokens, "llg_matcher_validate_tokens");
  library.resolve(rollback, "llg_matcher_rollback");
  library.resolve(reset, "llg_matcher_reset");
  library.resolve(is_accepting, "llg_matcher_is_accepting");
  library.resolve(get_error, "llg_matcher_get_error");
  check_layout(*this);
}

}  // namespace specguide::llg
