// Owns our view of the TVM-FFI binary interface, version 0.1 (tvm/ffi/c_api.h and DLPack), and its checks: every struct
// is compared with what the library says about itself before anything is called through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace specguide::tvm_ffi {

enum TypeIndex : int32_t { kNone = 0, kInt = 1, kBool = 2, kDLTensorPtr = 7, kFunction = 68 };

struct Object {
  uint64_t ref_count;
  int32_t type_index;
  uint32_t padding;
  void (*deleter)(void* self, int flags);
};

struct Any {
  int32_t type_index = kNone;
  uint32_t padding = 0;
  union {
    int64_t as_int = 0;
    void* as_ptr;
  };
};

struct ByteArray {
  const char* data;
  size_t size;
};

struct ErrorCell {  // follows an error's Object header
  ByteArray kind;
  ByteArray message;
};

struct MethodInfo {
  ByteArray name;
  ByteArray doc;
  ByteArray metadata;
  int64_t flags;
  Any method;
};

struct TypeInfo {
  int32_t type_index;
  int32_t type_depth;
  ByteArray type_key;
  const TypeInfo** ancestors;
  uint64_t type_key_hash;
  int32_t num_fields;
  int32_t num_methods;
  const void* fields;
  const MethodInfo* methods;
  const void* metadata;
};

struct Version {
  uint32_t major, minor, patch;
};

// DLPack's description of a tensor, here always one row of int32 on the CPU.
struct DLTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t dtype_code, dtype_bits;
  uint16_t dtype_lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// The few functions of libtvm_ffi that a method call needs.
class Api {
 public:
  // Throws std::runtime_error with the reason if the library's interface is not the one described above.
  explicit Api(const std::string& path);

  // The type table entry of a registered type. Throws if the type is unknown or its entry has another layout.
  const TypeInfo& type(const std::string& key) const;
  // A method of a type by name. Throws if the type has no such method.
  Object* method(const TypeInfo& info, const std::string& name) const;
  // Calls a method; the caller owns an object in the result. Throws std::runtime_error with the library's message.
  Any call(Object* method, Any* args, int num_args) const;

  void retain(Object* object) const { object_inc_ref_(object); }
  void release(Object* object) const { object_dec_ref_(object); }

 private:
  std::string take_error() const;

  void (*get_version_)(Version*);
  int (*type_key_to_index_)(const ByteArray*, int32_t*);
  const TypeInfo* (*get_type_info_)(int32_t);
  int (*function_call_)(void*, Any*, int32_t, Any*);
  void (*error_move_from_raised_)(void**);
  int (*object_inc_ref_)(void*);
  int (*object_dec_ref_)(void*);
};

}  // namespace specguide::tvm_ffi
