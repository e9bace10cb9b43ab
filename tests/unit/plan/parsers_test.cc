// What people write: sizes, lists of devices, rates, formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/device_list.h"
#include "plan/quantity.h"
#include "plan/rates.h"
#include "plan/weight_formats.h"

namespace kv8 {
namespace {

using testing::HasSubstr;

TEST(Quantity, UnitsArePowersOf1000AndWithAnIOf1024) {
  EXPECT_EQ(ParseBytes("24G").value(), 24'000'000'000);
  EXPECT_EQ(ParseBytes("24GB").value(), 24'000'000'000);
  EXPECT_EQ(ParseBytes("24GiB").value(), 24LL << 30);
  EXPECT_EQ(ParseBytes("1.5KiB").value(), 1536);
  EXPECT_EQ(ParseBytes("6553497600").value(), 6553497600);
  EXPECT_EQ(ParseBytes("512B").value(), 512);
  EXPECT_EQ(ParseBytes("2TiB").value(), 2LL << 40);
}

TEST(Quantity, RefusesEverythingElseWithAnExample) {
  for (const char* text :
       {"", "G", "24g", "24 G", "24Gb", "24Gi", "-1G", "+1", "1e9", "0x10", "nan", "1.G", ".5G",
        "1.2.3G", "0", "0.2", "99999999999T", "24GiBs", "inf"}) {
    const auto bytes = ParseBytes(text);
    ASSERT_FALSE(bytes.ok()) << text << " is " << *bytes;
    EXPECT_THAT(bytes.error().what, HasSubstr("24GiB")) << text;
  }
}

TEST(DeviceList, CountsNamesAndSizes) {
  const auto four = ParseDevices("4x24G").value();
  ASSERT_EQ(four.size(), 4u);
  EXPECT_EQ(four[3].memory, 24'000'000'000);
  const auto mixed = ParseDevices("v100-32g,2xh200,16GiB").value();
  ASSERT_EQ(mixed.size(), 4u);
  EXPECT_EQ(mixed[0].memory, 32LL << 30);
  EXPECT_EQ(mixed[1].name, "h200");
  EXPECT_GT(mixed[2].rates.read, mixed[0].rates.read);
  EXPECT_EQ(mixed[3].memory, 16LL << 30);
}

TEST(DeviceList, RefusesWhatItDoesNotKnowAndListsWhatThereIs) {
  for (const char* text : {"", "v100", "4xv100", "0x24G", "2000x24G", "4x", "x24G", "24G,", ",24G",
                           "600x24G,600x24G", "99999999999x1G", "4X24G"}) {
    const auto devices = ParseDevices(text);
    ASSERT_FALSE(devices.ok()) << text;
    EXPECT_FALSE(devices.error().what.empty());
  }
  EXPECT_THAT(ParseDevices("v100").error().what, HasSubstr("v100-32g"));
}

TEST(Rates, EachOnce) {
  const Rates rates = ParseRates("read=900G,matrix=62.5T,dispatch=0.000002").value();
  EXPECT_EQ(rates.read, 900e9);
  EXPECT_EQ(rates.matrix, 62.5e12);
  EXPECT_EQ(rates.copy, 0);
  EXPECT_EQ(rates.dispatch, 2e-6);
  for (const char* text : {"", "read", "read=", "read=1G,read=2G", "write=1G", "read=1GiB", "=1G",
                           "dispatch=2", "dispatch=-1", "read=1G,"}) {
    EXPECT_FALSE(ParseRates(text).ok()) << text;
  }
}

TEST(WeightFormats, ByModuleAsPublicCheckpointsAre) {
  const WeightFormats formats{ParseWeightFormat("int4-g32").value(),
                              ParseTableFormat("fp8").value()};
  EXPECT_EQ(formats.Of("model.layers.3.mlp.experts.down_proj").format, WeightFormat::kInt4);
  EXPECT_EQ(formats.Of("mtp.layers.0.mlp.experts.gate_up_proj").group, 32);
  EXPECT_EQ(formats.Of("model.layers.1.ple.ple_embedding.ngram_embedding.shard_0.weight").format,
            WeightFormat::kFp8);
  for (const char* other : {"model.layers.3.mlp.shared_expert.up_proj.weight", "lm_head.weight",
                            "model.layers.3.mlp.gate.weight", "model.embed_tokens.weight"}) {
    EXPECT_EQ(formats.Of(other).format, WeightFormat::kBf16) << other;
  }
  for (const char* text : {"", "int4", "int4-g", "int4-g0", "int4-g12", "int4-g2048", "int4-g032",
                           "NVFP4", "int4-g-8", "q4_0"}) {
    EXPECT_FALSE(ParseWeightFormat(text).ok()) << text;
  }
  EXPECT_EQ(ParseTableFormat("nvfp4").value().group, kNvfp4Group);
  EXPECT_FALSE(ParseTableFormat("int4-g32").ok());
}

/// 640 x 2560, by hand.
TEST(WeightFormats, BytesOfAnExpert) {
  const auto bytes = [](const char* name) {
    Weight weight = ParseWeightFormat(name).value();
    weight.rows = 640;
    weight.cols = 2560;
    return weight.bytes();
  };
  EXPECT_EQ(bytes("bf16"), 640 * 2560 * 2);
  EXPECT_EQ(bytes("fp8"), 640 * 2560 + 5 * 20 * 4);
  EXPECT_EQ(bytes("nvfp4"), 640 * (1280 + 160));
  EXPECT_EQ(bytes("int4-g128"), 640 * (1280 + 20 * 2));
}

}  // namespace
}  // namespace kv8
