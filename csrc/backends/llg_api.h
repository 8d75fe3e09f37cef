// Owns our view of llguidance's C interface, version 1.9 (llguidance.h), and its checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specguide::llg {

struct Tokenizer;
struct Matcher;

struct Limits {
  size_t max_items_in_row;
  uint64_t initial_lexer_fuel;
  uint64_t step_lexer_fuel;
  size_t step_max_items;
  size_t max_lexer_states;
  size_t max_grammar_size;
  bool precompute_large_lexemes;
  bool verbose_errors;
};

struct ConstraintInit {
  const Tokenizer* tokenizer;
  uint32_t log_buffer_level;
  uint32_t log_stderr_level;
  bool ff_tokens_ok;
  bool backtrack_ok;
  Limits limits;
};

using TokenizeFn = size_t (*)(const void* user_data, const uint8_t* bytes, size_t num_bytes, uint32_t* tokens,
                              size_t max_tokens);

struct TokenizerInitV2 {
  size_t struct_size;
  uint32_t vocab_size;
  uint32_t tok_eos;
  const uint32_t* token_lens;
  const uint8_t* token_bytes;
  const char* tokenizer_json;
  bool tokenize_assumes_string;
  TokenizeFn tokenize_fn;
  bool use_approximate_greedy_tokenize_fn;
  const void* tokenize_user_data;
  const char* const* slices;
  const uint32_t* tok_eos_extra;
  uint32_t tok_eos_extra_count;
};

// The functions of the library that the adapter uses; those on a matcher return -1 for an error.
struct Api {
  // Throws std::runtime_error with the reason if the library is another version or fills ConstraintInit differently.
  explicit Api(const std::string& path);

  const char* (*get_version)();
  void (*constraint_init_set_defaults)(ConstraintInit*, const Tokenizer*);
  Tokenizer* (*new_tokenizer_v2)(const TokenizerInitV2*, char* error, size_t error_size);
  void (*free_tokenizer)(Tokenizer*);
  Matcher* (*new_matcher)(const ConstraintInit*, const char* type, const char* data);
  Matcher* (*clone_matcher)(const Matcher*);
  void (*free_matcher)(Matcher*);
  size_t (*mask_byte_size)(const Matcher*);
  int32_t (*compute_mask_into)(Matcher*, uint32_t* row, size_t num_bytes);
  int32_t (*consume_tokens)(Matcher*, const uint32_t* tokens, size_t count);
  int32_t (*validate_tokens)(Matcher*, const uint32_t* tokens, size_t count);
  int32_t (*rollback)(Matcher*, size_t count);
  int32_t (*reset)(Matcher*);
  bool (*is_accepting)(Matcher*);
  const char* (*get_error)(Matcher*);
};

}  // namespace specguide::llg
