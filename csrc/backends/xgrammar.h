// Owns the native adapter of xgrammar: its matcher methods are functions in the TVM-FFI type table, which are found by
// name and called from any thread, without the interpreter.
#pragma once

#include <memory>
#include <string>

#include "backends/library_matcher.h"
#include "backends/tvm_ffi.h"

namespace specguide {

class XGrammarLibrary {
 public:
  // Throws std::runtime_error with the reason if the interface cannot be resolved.
  explicit XGrammarLibrary(const std::string& tvm_ffi_path);

  // A compiled grammar, from the TVM-FFI handle of a matcher at its start, which all its matchers are forked from.
  // Throws std::runtime_error if the handle has another type.
  static std::shared_ptr<CompiledGrammar> grammar(std::shared_ptr<const XGrammarLibrary> library,
                                                  std::shared_ptr<const Vocabulary> vocabulary, void* handle);

  tvm_ffi::Api api;
  int32_t matcher_type;
  tvm_ffi::Object* accept_token;
  tvm_ffi::Object* fill_next_token_bitmask;
  tvm_ffi::Object* rollback;
  tvm_ffi::Object* is_completed;
  tvm_ffi::Object* fork;
};

}  // namespace specguide
