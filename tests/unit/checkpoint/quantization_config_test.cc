#include "checkpoint/quantization_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using ::testing::HasSubstr;

/// What llm-compressor writes beside a checkpoint whose K/V cache alone is quantised.
Json CacheAlone() {
  return Json::parse(R"({
    "config_groups": {}, "format": "dense", "global_compression_ratio": null, "ignore": ["lm_head"],
    "kv_cache_scheme": {"actorder": null, "block_structure": null, "dynamic": false,
      "group_size": null, "num_bits": 8, "observer": "minmax", "observer_kwargs": {},
      "strategy": "tensor", "symmetric": true, "type": "float"},
    "quant_method": "compressed-tensors", "quantization_status": "frozen",
    "sparsity_config": {}, "transform_config": {}, "version": "0.12.2"})");
}

TEST(CheckQuantizationConfig, TakesOneOfTheCacheAlone) {
  EXPECT_TRUE(CheckQuantizationConfig(CacheAlone(), "c").ok());
  const Json scheme = {{"num_bits", 8}, {"type", "float"}};
  EXPECT_TRUE(CheckQuantizationConfig({{"kv_cache_scheme", scheme}}, "c").ok());
  EXPECT_TRUE(CheckQuantizationConfig(Json::object(), "c").ok());
}

struct Refused {
  const char* at;  // JSON pointer
  const char* value;
  const char* named;
};

TEST(CheckQuantizationConfig, RefusesEveryOtherThingByName) {
  for (const auto& [at, value, named] :
       {Refused{"/config_groups/group_0", "{}", "config_groups"},
        Refused{"/sparsity_config/format", "\"dense\"", "sparsity_config"},
        Refused{"/quant_method", "\"fp8\"", "quant_method is \"fp8\""},
        Refused{"/bits", "4", "bits is 4"},
        Refused{"/kv_cache_scheme", "true", "kv_cache_scheme: is true"},
        Refused{"/kv_cache_scheme/type", "\"int\"", "type is \"int\""},
        Refused{"/kv_cache_scheme/num_bits", "4", "num_bits is 4"},
        Refused{"/kv_cache_scheme/strategy", "\"channel\"", "strategy is \"channel\""},
        Refused{"/kv_cache_scheme/dynamic", "true", "dynamic is true"},
        Refused{"/kv_cache_scheme/symmetric", "false", "symmetric is false"}}) {
    Json config = CacheAlone();
    config[Json::json_pointer(at)] = Json::parse(value);
    const auto checked = CheckQuantizationConfig(config, "c");
    ASSERT_FALSE(checked.ok()) << at;
    EXPECT_EQ(checked.error().code, Code::kUnsupported) << at;
    EXPECT_THAT(checked.error().ToString(), HasSubstr(named));
  }
  for (const Json& value : {Json("fp8"), Json(8), Json::array()}) {
    EXPECT_FALSE(CheckQuantizationConfig(value, "c").ok()) << value;
  }
}

}  // namespace
}  // namespace kv8
