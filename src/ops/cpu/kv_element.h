// One stored element of a cache page, for scalar code. Vectors go through simd_kv_elements-inl.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kv8/types.h"
#include "numeric/e4m3.h"
#include "numeric/half.h"

namespace kv8 {

/// How many stored values clipped, and how many became 0 that were not.
struct StoreLoss {
  std::uint64_t clipped = 0;
  std::uint64_t flushed = 0;

  StoreLoss& operator+=(const StoreLoss& more) {
    clipped += more.clipped;
    flushed += more.flushed;
    return *this;
  }
};

/// Element `i` of the vector at `data` (any alignment), decoded exactly; scales are not applied.
inline float LoadKvElement(KvDType dtype, const std::byte* data, std::int64_t i) {
  switch (dtype) {
    case KvDType::kE4M3:
      return DecodeE4M3(static_cast<std::uint8_t>(data[i]));
    case KvDType::kFp16: {
      std::uint16_t code;
      std::memcpy(&code, data + i * 2, sizeof(code));
      return DecodeFp16(code);
    }
    case KvDType::kFp32: {
      float value;
      std::memcpy(&value, data + i * 4, sizeof(value));
      return value;
    }
  }
  return 0.0f;
}

/// Stores `x` as element `i`: the store rule of ops/qsa.h. `scale` matters to E4M3 alone.
inline void StoreKvElement(KvDType dtype, float x, float scale, std::byte* data, std::int64_t i) {
  switch (dtype) {
    case KvDType::kE4M3:
      data[i] = static_cast<std::byte>(QuantizeE4M3(x, scale));
      return;
    case KvDType::kFp16: {
      const std::uint16_t code = EncodeFp16(x);
      std::memcpy(data + i * 2, &code, sizeof(code));
      return;
    }
    case KvDType::kFp32:
      std::memcpy(data + i * 4, &x, sizeof(x));
      return;
  }
}

}  // namespace kv8
