// Owns the native adapter of xgrammar; see xgrammar.h.
#include "backends/xgrammar.h"

#include <mutex>
#include <stdexcept>

namespace specguide {
namespace {

using tvm_ffi::Any;
using tvm_ffi::Object;

Any of_int(int64_t value) {
  Any any;
  any.type_index = tvm_ffi::kInt;
  any.as_int = value;
  return any;
}

Any of_bool(bool value) {
  Any any;
  any.type_index = tvm_ffi::kBool;
  any.as_int = value;
  return any;
}

Any of_object(Object* object) {
  Any any;
  any.type_index = object->type_index;
  any.as_ptr = object;
  return any;
}

bool to_bool(const Any& any) {
  if (any.type_index != tvm_ffi::kBool) throw std::runtime_error("xgrammar returned something other than a bool");
  return any.as_int != 0;
}

// A counted reference to an xgrammar matcher.
class Handle {
 public:
  Handle(std::shared_ptr<const XGrammarLibrary> library, Object* owned)
      : library_(std::move(library)), object_(owned) {}
  ~Handle() { library_->api.release(object_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Any self() const { return of_object(object_); }

  template <typename... Args>
  Any call(Object* method, Args... args) const {
    Any values[] = {self(), args...};
    return library_->api.call(method, values, 1 + static_cast<int>(sizeof...(args)));
  }

  const std::shared_ptr<const XGrammarLibrary>& library() const { return library_; }

 private:
  std::shared_ptr<const XGrammarLibrary> library_;
  Object* object_;
};

class XGrammarMatcher final : public LibraryMatcher {
 public:
  XGrammarMatcher(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<const XGrammarLibrary> library,
                  Object* owned)
      : LibraryMatcher(std::move(vocabulary)), handle_(std::move(library), owned) {}

 protected:
  bool take(int32_t token) override {
    return to_bool(handle_.call(handle_.library()->accept_token, of_int(token), of_bool(false)));
  }

  void write_row(int32_t* row) override {
    int64_t shape = vocabulary().num_words();
    int64_t stride = 1;
    tvm_ffi::DLTensor tensor{row, /*device_type=*/1, 0, /*ndim=*/1, /*dtype_code=*/0, 32, 1, &shape, &stride, 0};
    Any argument;
    argument.type_index = tvm_ffi::kDLTensorPtr;
    argument.as_ptr = &tensor;
    handle_.call(handle_.library()->fill_next_token_bitmask, argument, of_int(0), of_bool(false));
    clear_padding(row);
  }

  void undo(int n) override { handle_.call(handle_.library()->rollback, of_int(n)); }

  bool may_end() override { return to_bool(handle_.call(handle_.library()->is_completed)); }

 private:
  void clear_padding(int32_t* row) const {
    const int used = vocabulary().size() % 32;
    if (used != 0) row[vocabulary().num_words() - 1] &= static_cast<int32_t>((uint32_t{1} << used) - 1);
  }

  Handle handle_;
};

class XGrammarGrammar final : public CompiledGrammar {
 public:
  XGrammarGrammar(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<const XGrammarLibrary> library,
                  Object* owned)
      : vocabulary_(std::move(vocabulary)), pattern_(std::move(library), owned) {}

  // Matchers are forked here and not made in Python, so no Python object is ever tied to one.
  std::shared_ptr<LibraryMatcher> matcher() override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto& library = pattern_.library();
    const Any fork = pattern_.call(library->fork);
    if (fork.type_index != library->matcher_type) throw std::runtime_error("an xgrammar matcher's fork is no matcher");
    return std::make_shared<XGrammarMatcher>(vocabulary_, library, static_cast<Object*>(fork.as_ptr));
  }

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::mutex mutex_;
  Handle pattern_;
};

}  // namespace

XGrammarLibrary::XGrammarLibrary(const std::string& tvm_ffi_path) : api(tvm_ffi_path) {
  const tvm_ffi::TypeInfo& info = api.type("xgrammar.tvm_ffi_binding.GrammarMatcher");
  matcher_type = info.type_index;
  accept_token = api.method(info, "accept_token");
  fill_next_token_bitmask = api.method(info, "fill_next_token_bitmask");
  rollback = api.method(info, "rollback");
  is_completed = api.method(info, "is_completed");
  fork = api.method(info, "fork");
}

std::shared_ptr<CompiledGrammar> XGrammarLibrary::grammar(std::shared_ptr<const XGrammarLibrary> library,
                                                          std::shared_ptr<const Vocabulary> vocabulary, void* handle) {
  auto* object = static_cast<Object*>(handle);
  if (object == nullptr || object->type_index != library->matcher_type) {
    throw std::runtime_error("the handle is not that of an xgrammar matcher");
  }
  library->api.retain(object);
  return std::make_shared<XGrammarGrammar>(std::move(vocabulary), std::move(library), object);
}

}  // namespace specguide
