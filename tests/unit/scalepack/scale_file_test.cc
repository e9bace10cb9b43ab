#include "scalepack/scale_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/safetensors.h"
#include "support/scale_pack_fixture.h"

namespace kv8 {
namespace {

using test::Refuses;

Result<ScaleFile> Parse(std::string_view bytes) {
  return ParseScaleFile(std::as_bytes(std::span(bytes)), "s.safetensors");
}

/// A file image with this header text and payload.
std::string Image(std::string header, std::string_view payload) {
  std::string image(8, '\0');
  image[0] = static_cast<char>(header.size() & 0xFF);
  image[1] = static_cast<char>(header.size() >> 8);
  return image + header + std::string(payload);
}

std::string OneTensor(const TensorView& tensor) {
  return SerializeSafetensors({.tensors = {{"t", tensor}}, .metadata = {}});
}

TEST(ScaleFile, OfTheReleasedModelHasThePublishedSize) {
  ScaleFile file{.scales = {}, .metadata = TargetMetadata()};
  for (int layer = 3; layer < 48; layer += 4) {
    for (const char side : {'k', 'v'}) {
      file.scales[fmt::format("model.language_model.layers.{}.self_attn.{}_scale", layer, side)] =
          0.02f;
    }
  }
  ASSERT_EQ(file.scales.size(), 24u);
  EXPECT_EQ(SerializeScaleFile(file).size(), 2640u);
}

TEST(ScaleFile, RoundTrips) {
  const ScaleFile file{.scales = {{"a", 0.25f}, {"b", 3.0f}}, .metadata = TargetMetadata()};
  const auto read = Parse(SerializeScaleFile(file));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->scales, file.scales);
  EXPECT_EQ(read->metadata, file.metadata);
}

TEST(ScaleFile, AcceptsShapeOne) {
  const float value = 0.5f;
  const auto read =
      Parse(OneTensor({reinterpret_cast<const std::byte*>(&value), DType::kF32, {1}}));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->scales.at("t"), 0.5f);
}

TEST(ScaleFile, ReadsBf16) {
  const std::uint16_t value = 0x3E80;
  const auto read =
      Parse(OneTensor({reinterpret_cast<const std::byte*>(&value), DType::kBF16, {1}}));
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(read->scales.at("t"), 0.25f);
}

TEST(ScaleFile, RefusesOtherTypesAndShapes) {
  const float values[4] = {0.5f, 0.5f, 0.5f, 0.5f};
  const auto* data = reinterpret_cast<const std::byte*>(values);
  EXPECT_TRUE(Refuses(Parse(OneTensor({data, DType::kF32, {2}})), Code::kCorrupt,
                      {"s.safetensors", "scale t", "[2]"}));
  EXPECT_TRUE(Refuses(Parse(OneTensor({data, DType::kF32, {1, 1}})), Code::kCorrupt, {"[1, 1]"}));
  EXPECT_TRUE(Refuses(Parse(OneTensor({data, DType::kF32, {0}})), Code::kCorrupt, {"[0]"}));
  EXPECT_TRUE(Refuses(Parse(OneTensor({data, DType::kF16, {}})), Code::kCorrupt, {"F16"}));
  EXPECT_TRUE(Refuses(Parse(OneTensor({data, DType::kF64, {}})), Code::kCorrupt, {"F64"}));
}

TEST(ScaleFile, RefusesValuesThatAreNoScale) {
  for (const float bad : {0.0f, -0.0f, -1.0f, 1.0f, NAN, INFINITY, -INFINITY}) {
    EXPECT_TRUE(Refuses(Parse(SerializeScaleFile({.scales = {{"t", bad}}, .metadata = {}})),
                        Code::kCorrupt, {"s.safetensors", "scale t", "kv8 calibrate"}))
        << bad;
  }
}

TEST(ScaleFile, RefusesHostileImages) {
  const std::string payload("\0\0\0\x3f", 4);
  const std::string good = R"({"t":{"data_offsets":[0,4],"dtype":"F32","shape":[]}})";
  ASSERT_TRUE(Parse(Image(good, payload)).ok());
  const auto refused = [](const std::string& image) {
    return Refuses(Parse(image), Code::kCorrupt, {"s.safetensors"});
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused(Image(good, payload).substr(0, 20)));
  EXPECT_TRUE(refused(Image(good, payload + "x")));      // trailing byte
  EXPECT_TRUE(refused(Image(good, payload.substr(1))));  // short payload
  EXPECT_TRUE(refused(Image(R"({"t":{"data_offsets":[-4,0],"dtype":"F32","shape":[]}})", payload)));
  EXPECT_TRUE(
      refused(Image(R"({"t":{"data_offsets":[false,4],"dtype":"F32","shape":[]}})", payload)));
  EXPECT_TRUE(refused(Image(R"({"t":{"data_offsets":[0,4],"dtype":"F32","shape":[]},)"
                            R"("u":{"data_offsets":[0,4],"dtype":"F32","shape":[]}})",
                            payload)));  // overlap
  EXPECT_TRUE(refused(Image(R"({"t":{"data_offsets":[0,4],"dtype":"F32","shape":[]},)"
                            R"("t":{"data_offsets":[0,4],"dtype":"F32","shape":[]}})",
                            payload)));  // duplicate key
  EXPECT_TRUE(refused(Image(R"({"__metadata__":null,)" + good.substr(1), payload)));
}

TEST(ScaleFile, MarkersMustSayCalibrated) {
  ScaleFile file{.scales = {}, .metadata = TargetMetadata()};
  EXPECT_TRUE(CheckTargetMetadata(file, "f").ok());
  file.metadata["negative_control"] = "true";
  EXPECT_TRUE(Refuses(CheckTargetMetadata(file, "f"), Code::kCorrupt,
                      {"f", "negative_control", "\"true\""}));
  file.metadata.erase("negative_control");
  EXPECT_TRUE(Refuses(CheckTargetMetadata(file, "f"), Code::kCorrupt, {"missing"}));
  file.metadata = DraftMetadata();
  EXPECT_TRUE(CheckDraftMetadata(file, "f").ok());
  file.metadata["source"] = "prototype:unit";
  EXPECT_TRUE(Refuses(CheckDraftMetadata(file, "f"), Code::kCorrupt, {"prototype:unit"}));
  file.metadata.clear();
  EXPECT_TRUE(Refuses(CheckDraftMetadata(file, "f"), Code::kCorrupt, {"source"}));
}

}  // namespace
}  // namespace kv8
