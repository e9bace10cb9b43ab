// Element types of stored tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kv8 {

/// The types of the safetensors format. kv8 computes with few of them, but names them all.
enum class DType {
  kBF16,
  kF16,
  kF32,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kC64,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kF6E2M3,
  kF6E3M2,
  kF4
};

/// Bits of one element: of F6 and F4 less than a byte.
int BitsOf(DType type);

/// Bytes of one element of a type that has whole ones.
int SizeOf(DType type);

/// The name in a safetensors header, e.g. "BF16".
std::string_view Name(DType type);

/// Inverse of Name; nullopt for a name that is not in the format.
std::optional<DType> DTypeFromName(std::string_view name);

/// True for the types that kv8 computes with as they are: BF16, F16, F32.
bool IsPlainFloat(DType type);

}  // namespace kv8
