// Types that the public API and every folder share.
#pragma once

#include <cstdint>
#include <string_view>

namespace kv8 {

/// A row of the embedding table. 32 bits as in every checkpoint of the family.
using TokenId = std::int32_t;

/// Tokens in one page of the K/V cache; prefill chunks are multiples of it.
inline constexpr std::int64_t kPageTokens = 64;

/// How one element of the K/V cache is stored.
enum class KvDType {
  kFp16,  // IEEE half; the default
  kE4M3,  // 8 bits and one calibrated scale per layer and side: real = code * scale
  kFp32,  // for comparison with reference values
};

/// The name on the command line and in JSON.
constexpr const char* Name(KvDType dtype) {
  switch (dtype) {
    case KvDType::kFp16:
      return "fp16";
    case KvDType::kE4M3:
      return "fp8_e4m3";
    case KvDType::kFp32:
      return "fp32";
  }
  return "";
}

/// How the weights in use were compared with those that the scales were measured on.
enum class WeightsBinding {
  kNone,     // no scales are in use
  kChecked,  // by the hash of every shard, computed now or recorded before
  kTrusted,  // not at all: the user vouched for them
  kUnbound,  // the scales do not state a hash of the weights
};

/// "none", "checked", "trusted", "unbound".
constexpr std::string_view Name(WeightsBinding binding) {
  switch (binding) {
    case WeightsBinding::kNone:
      return "none";
    case WeightsBinding::kChecked:
      return "checked";
    case WeightsBinding::kTrusted:
      return "trusted";
    case WeightsBinding::kUnbound:
      return "unbound";
  }
  return "";
}

/// Where the model runs.
enum class DeviceKind { kCpu, kCuda };

/// The two halves of the cache. The values are the order inside a page.
enum class KvSide : int { kKey = 0, kValue = 1 };

}  // namespace kv8
