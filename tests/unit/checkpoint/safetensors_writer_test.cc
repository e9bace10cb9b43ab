#include "checkpoint/safetensors_writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "support/temp_dir.h"

namespace kv8 {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(SafetensorsWriter, PiecesInAnyOrderMakeTheFileThatSerializingMakes) {
  const test::TempDir dir;
  const std::array<std::uint8_t, 8> values{1, 2, 3, 4, 5, 6, 7, 8};
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  SafetensorsContent content;
  content.metadata = {{"format", "pt"}};
  content.tensors["a"] = {data, DType::kU8, {2, 3}};
  content.tensors["b"] = {data + 6, DType::kBF16, {}};
  auto writer = SafetensorsWriter::Create(
      dir / "x", {{"a", DType::kU8, {2, 3}}, {"b", DType::kBF16, {}}}, content.metadata);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Write(1, 0, {data + 6, 2}).ok());
  ASSERT_TRUE(writer->Write(0, 4, {data + 4, 2}).ok());
  ASSERT_TRUE(writer->Write(0, 0, {data, 4}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(test::Slurp(dir / "x"), SerializeSafetensors(content));
}

TEST(SafetensorsWriter, WhatNobodyWritesIsAHole) {
  const test::TempDir dir;
  constexpr std::int64_t kRows = 1 << 24;
  auto writer = SafetensorsWriter::Create(dir / "x", {{"t", DType::kU8, {kRows, 8}}}, {});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Write(0, 8, Bytes("12345678")).ok());
  ASSERT_TRUE(writer->Finish().ok());
  struct stat info {};
  ASSERT_EQ(::stat((dir / "x").c_str(), &info), 0);
  EXPECT_GT(info.st_size, kRows * 8);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
  const auto file = SafetensorsFile::Open(dir / "x");
  ASSERT_TRUE(file.ok());
  const std::byte* t = file->content().tensors.at("t").data;
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(t), 17),
            std::string(8, '\0') + "12345678" + std::string(1, '\0'));
  EXPECT_EQ(t[kRows * 8 - 1], std::byte{0});
}

TEST(SafetensorsWriter, RefusesWhatExists) {
  const test::TempDir dir;
  test::WriteFile(dir / "x", "mine");
  EXPECT_FALSE(SafetensorsWriter::Create(dir / "x", {}, {}).ok());
  EXPECT_EQ(test::Slurp(dir / "x"), "mine");
}

}  // namespace
}  // namespace kv8
