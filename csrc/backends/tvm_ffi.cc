// Owns calls through TVM-FFI; see tvm_ffi.h.
#include "backends/tvm_ffi.h"

#include <stdexcept>

#include "backends/shared_library.h"

namespace specguide::tvm_ffi {
namespace {

constexpr int kMaxPlausibleMethods = 4096;
constexpr size_t kMaxPlausibleName = 256;

bool equals(const ByteArray& bytes, const std::string& text) {
  return bytes.size == text.size() && bytes.data != nullptr &&
         text.compare(0, text.size(), bytes.data, bytes.size) == 0;
}

}  // namespace

Api::Api(const std::string& path) {
  SharedLibrary library(path);
  library.resolve(get_version_, "TVMFFIGetVersion");
  library.resolve(type_key_to_index_, "TVMFFITypeKeyToIndex");
  library.resolve(get_type_info_, "TVMFFIGetTypeInfo");
  library.resolve(function_call_, "TVMFFIFunctionCall");
  library.resolve(error_move_from_raised_, "TVMFFIErrorMoveFromRaised");
  library.resolve(object_inc_ref_, "TVMFFIObjectIncRef");
  library.resolve(object_dec_ref_, "TVMFFIObjectDecRef");
  Version version{};
  get_version_(&version);
  if (version.major != 0 || version.minor != 1) {
    throw std::runtime_error("TVM-FFI has version " + std::to_string(version.major) + "." +
                             std::to_string(version.minor) + ", and only version 0.1 is supported");
  }
}

const TypeInfo& Api::type(const std::string& key) const {
  const ByteArray name{key.data(), key.size()};
  int32_t index = -1;
  if (type_key_to_index_(&name, &index) != 0) {
    take_error();
    throw std::runtime_error("TVM-FFI has no type " + key);
  }
  const TypeInfo* info = get_type_info_(index);
  if (info == nullptr || info->type_index != index || !equals(info->type_key, key) || info->num_methods <= 0 ||
      info->num_methods > kMaxPlausibleMethods || info->methods == nullptr) {
    throw std::runtime_error("the type table of TVM-FFI has an unknown layout");
  }
  return *info;
}

Object* Api::method(const TypeInfo& info, const std::string& name) const {
  for (int i = 0; i < info.num_methods; ++i) {
    const MethodInfo& method = info.methods[i];
    if (method.name.data == nullptr || method.name.size > kMaxPlausibleName) {
      throw std::runtime_error("the method table of TVM-FFI has an unknown layout");
    }
    if (!equals(method.name, name)) continue;
    auto* function = static_cast<Object*>(method.method.as_ptr);
    if (method.method.type_index != kFunction || function == nullptr || function->type_index != kFunction) {
      throw std::runtime_error("method " + name + " is not a function");
    }
    return function;
  }
  throw std::runtime_error(std::string(info.type_key.data, info.type_key.size) + " has no method " + name);
}

Any Api::call(Object* method, Any* args, int num_args) const {
  Any result;
  if (function_call_(method, args, num_args, &result) != 0) throw std::runtime_error(take_error());
  return result;
}

std::string Api::take_error() const {
  void* error = nullptr;
  error_move_from_raised_(&error);
  if (error == nullptr) return "TVM-FFI reported an error without a message";
  const auto* cell = reinterpret_cast<const ErrorCell*>(static_cast<const Object*>(error) + 1);
  std::string message(cell->message.data, cell->message.size);
  object_dec_ref_(error);
  return message;
}

}  // namespace specguide::tvm_ffi
