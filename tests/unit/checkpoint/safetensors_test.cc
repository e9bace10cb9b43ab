#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/safetensors_image.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

using test::AsBytes;
using test::SafetensorsImage;
using testing::HasSubstr;

TEST(ParseSafetensors, ReadsTensorsAndMetadata) {
  const std::string image = SafetensorsImage(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}   )",
      "abcdefgh");
  const auto content = ParseSafetensors(AsBytes(image), "t");
  ASSERT_TRUE(content.ok()) << content.error().ToString();
  ASSERT_EQ(content->tensors.size(), 2u);
  const TensorView& a = content->tensors.find("a")->second;
  EXPECT_EQ(a.dtype, DType::kBF16);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(std::memcmp(a.data, "abcd", 4), 0);
  const TensorView& b = content->tensors.find("b")->second;
  EXPECT_EQ(b.elements(), 1);
  EXPECT_EQ(std::memcmp(b.data, "efgh", 4), 0);
  EXPECT_EQ(content->metadata.at("format"), "pt");
}

TEST(ParseSafetensors, AcceptsNoTensorsAndEmptyTensors) {
  EXPECT_TRUE(ParseSafetensors(AsBytes(SafetensorsImage("{}", "")), "t").ok());
  const auto empty = SafetensorsImage(R"({"a":{"dtype":"U8","shape":[0,7],"data_offsets":[0,0]},)"
                                      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                      "x");
  EXPECT_TRUE(ParseSafetensors(AsBytes(empty), "t").ok());
}

struct BadHeader {
  const char* header;
  const char* where;  // part of Error::where
  const char* what;   // part of Error::what
};

class ParseSafetensorsRefuses : public testing::TestWithParam<BadHeader> {};

TEST_P(ParseSafetensorsRefuses, NamingWhatIsWrong) {
  const auto image = SafetensorsImage(GetParam().header, "12345678");
  const auto content = ParseSafetensors(AsBytes(image), "f.safetensors");
  ASSERT_FALSE(content.ok());
  EXPECT_EQ(content.error().code, Code::kCorrupt);
  EXPECT_THAT(content.error().where, HasSubstr(GetParam().where));
  EXPECT_THAT(content.error().what, HasSubstr(GetParam().what));
}

constexpr const char* kFile = "f.safetensors";
constexpr const char* kA = "f.safetensors: tensor a";

INSTANTIATE_TEST_SUITE_P(
    Structure, ParseSafetensorsRefuses,
    testing::Values(
        BadHeader{"", kFile, "does not start with '{'"},
        BadHeader{" {}", kFile, "does not start with '{'"},
        BadHeader{"[]", kFile, "does not start with '{'"}, BadHeader{"{", kFile, "not valid JSON"},
        BadHeader{"{}x", kFile, "not valid JSON"},
        BadHeader{R"({"a":{},"a":{}})", kFile, "duplicate key \"a\""},
        BadHeader{R"({"a":{"dtype":"U8","dtype":"U8"}})", kFile, "duplicate key \"dtype\""},
        BadHeader{R"({"__metadata__":3})", kFile, "__metadata__ is not an object"},
        BadHeader{R"({"__metadata__":{"k":3}})", kFile, "__metadata__ key \"k\""},
        BadHeader{R"({"a":[]})", kA, "not an object"},
        BadHeader{R"({"a":{"shape":[8],"data_offsets":[0,8]}})", kA, "no field \"dtype\""},
        BadHeader{R"({"a":{"dtype":8,"shape":[8],"data_offsets":[0,8]}})", kA, "dtype is not"},
        BadHeader{R"({"a":{"dtype":"Q8","shape":[8],"data_offsets":[0,8]}})", kA, "\"Q8\""},
        BadHeader{R"({"a":{"dtype":"U8","data_offsets":[0,8]}})", kA, "no field \"shape\""},
        BadHeader{R"({"a":{"dtype":"U8","shape":8,"data_offsets":[0,8]}})", kA, "not an array"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[8]}})", kA, "no field \"data_offsets\""},
        BadHeader{R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[8]}})", kA, "not a pair"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,4,8]}})", kA, "at most 2"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,8],"data_offsets":[0,8]}})", kA,
                  "at most 8"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, ParseSafetensorsRefuses,
    testing::Values(
        BadHeader{R"({"a":{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}})", kA, "holds -8"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[8.0],"data_offsets":[0,8]}})", kA, "holds 8.0"},
        BadHeader{R"({"a":{"dtype":"U8","shape":["8"],"data_offsets":[0,8]}})", kA, "holds \"8\""},
        BadHeader{R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]}})", kA,
                  "holds 9223372036854775808"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[-1,8]}})", kA, "holds -1"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,18446744073709551616]}})", kA,
                  "only integers"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
                  kA, "overflows"},
        BadHeader{R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", kA,
                  "overflows"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", kA,
                  "[0, 9] do not lie in the payload of 8 bytes"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[8,0]}})", kA, "do not lie"},
        BadHeader{R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", kA,
                  "takes 12 bytes, data_offsets span 8"}));

INSTANTIATE_TEST_SUITE_P(
    Coverage, ParseSafetensorsRefuses,
    testing::Values(
        BadHeader{R"({})", kFile, "8 bytes follow the last tensor"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})", kFile,
                  "1 bytes follow"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[1,8]}})", kA, "hole"},
        BadHeader{R"({"b":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                  R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                  kA, "starts at payload byte 4, overlapping the tensor that ends at byte 5"},
        BadHeader{R"({"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                  R"("c":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                  "f.safetensors: tensor", "overlapping"}));

TEST(ParseSafetensors, RefusesLyingLengths) {
  const std::string good = SafetensorsImage("{}", "");
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto cut = ParseSafetensors(AsBytes(good.substr(0, size)), "t");
    ASSERT_FALSE(cut.ok());
    EXPECT_EQ(cut.error().code, Code::kCorrupt);
  }
  std::string huge = good;
  for (int i = 0; i < 8; ++i) huge[static_cast<std::size_t>(i)] = '\xff';
  EXPECT_THAT(ParseSafetensors(AsBytes(huge), "t").error().what, HasSubstr("exceeds the cap"));
  std::string beyond = good;
  beyond[0] = 3;
  EXPECT_THAT(ParseSafetensors(AsBytes(beyond), "t").error().what,
              HasSubstr("header length 3 exceeds the 2 bytes"));
}

TEST(SerializeSafetensors, WritesSortedPaddedAndReadsBack) {
  const std::string_view bytes = "abcdef";
  SafetensorsContent content;
  content.metadata = {{"source", "test"}};
  const auto* data = AsBytes(bytes).data();
  content.tensors["z"] = {data, DType::kU8, {4}};
  content.tensors["a.b"] = {data + 4, DType::kBF16, {}};
  const std::string image = SerializeSafetensors(content);
  const std::string header =
      R"({"__metadata__":{"source":"test"},"a.b":{"data_offsets":[0,2],"dtype":"BF16","shape":[]},)"
      R"("z":{"data_offsets":[2,6],"dtype":"U8","shape":[4]}})";
  EXPECT_EQ(image.size() % 8, 6u);
  EXPECT_EQ(image.substr(8, header.size()), header);
  EXPECT_TRUE(image.ends_with("efabcd"));
  const auto again = ParseSafetensors(AsBytes(image), "t");
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  EXPECT_EQ(SerializeSafetensors(*again), image);
}

TEST(SafetensorsFile, NamesThePathThatCannotBeRead) {
  const test::TempDir dir;
  std::filesystem::create_directory(dir / "d.safetensors");
  std::filesystem::create_symlink("loop.safetensors", dir / "loop.safetensors");
  test::WriteFile(dir / "empty.safetensors", "");
  const std::pair<const char*, Code> cases[] = {{"absent.safetensors", Code::kNotFound},
                                                {"d.safetensors", Code::kInvalidArgument},
                                                {"loop.safetensors", Code::kIo},
                                                {"empty.safetensors", Code::kCorrupt}};
  for (const auto& [name, code] : cases) {
    const auto file = SafetensorsFile::Open(dir / name);
    ASSERT_FALSE(file.ok()) << name;
    EXPECT_EQ(file.error().code, code) << name;
    EXPECT_THAT(file.error().where, HasSubstr(name));
  }
}

}  // namespace
}  // namespace kv8
