#include "scalepack/sha256sums.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "support/scale_pack_fixture.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::Refuses;

const std::string kHash(64, 'a');

TEST(ParseSha256Sums, ReadsBothModesOfTheTool) {
  const auto sums = ParseSha256Sums(kHash + "  a\n" + kHash + " *./b c", "S").value();
  EXPECT_EQ(sums.at("a"), kHash);
  EXPECT_EQ(sums.at("b c"), kHash);
  EXPECT_EQ(ParseSha256Sums(FormatSha256Sums(sums), "S").value(), sums);
}

TEST(ParseSha256Sums, RefusesOtherLines) {
  for (const std::string& bad :
       {std::string(), std::string("\n"), std::string("x"), kHash, kHash + "  ", kHash + " a",
        kHash + "  a\n\n", std::string(64, 'A') + "  a", kHash + "a  b", kHash + "  a\r\n"}) {
    EXPECT_TRUE(Refuses(ParseSha256Sums(bad, "S"), Code::kCorrupt, {"S", "line"})) << bad;
  }
  EXPECT_TRUE(Refuses(ParseSha256Sums(kHash + "  a\r\n", "S"), Code::kCorrupt,
                      {"line 1", "carriage return"}));
  EXPECT_TRUE(Refuses(ParseSha256Sums(kHash + "  a\n" + kHash + "  ./a\n", "S"), Code::kCorrupt,
                      {"line 2", "a second time"}));
}

TEST(ParseSha256Sums, RefusesNamesThatLeaveTheDirectory) {
  for (const char* name : {"..", ".", "/etc/passwd", "a/b", "../a", "a\\b", "./../a"}) {
    EXPECT_TRUE(Refuses(ParseSha256Sums(kHash + "  " + name, "S"), Code::kCorrupt, {"line 1"}))
        << name;
  }
}

class CheckSums : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteFile(dir_ / "data", "data");
    test::RewriteSums(dir_.path());
  }
  test::TempDir dir_;
};

TEST_F(CheckSums, AcceptsACompleteMatchingList) {
  EXPECT_TRUE(CheckSha256Sums(dir_.path()).ok());
  test::WriteFile(dir_ / "README.md", "written later");
  fs::create_directory(dir_ / ".cache");
  EXPECT_TRUE(CheckSha256Sums(dir_.path()).ok());
}

TEST_F(CheckSums, RefusesAMissingList) {
  fs::remove(dir_ / "SHA256SUMS");
  EXPECT_TRUE(Refuses(CheckSha256Sums(dir_.path()), Code::kNotFound, {"SHA256SUMS"}));
}

TEST_F(CheckSums, RefusesChangedAbsentAndUnlistedFiles) {
  test::WriteFile(dir_ / "extra", "x");
  EXPECT_TRUE(Refuses(CheckSha256Sums(dir_.path()), Code::kMismatch, {"extra", "not listed"}));
  fs::remove(dir_ / "extra");
  test::WriteFile(dir_ / "data", "Data");
  EXPECT_TRUE(Refuses(CheckSha256Sums(dir_.path()), Code::kMismatch,
                      {"data", Sha256Hex("data"), Sha256Hex("Data")}));
  fs::remove(dir_ / "data");
  EXPECT_TRUE(Refuses(CheckSha256Sums(dir_.path()), Code::kNotFound, {"data"}));
}

TEST_F(CheckSums, RefusesAnUnlistedDirectory) {
  fs::create_directory(dir_ / "sub");
  EXPECT_TRUE(Refuses(CheckSha256Sums(dir_.path()), Code::kMismatch, {"sub"}));
}

TEST_F(CheckSums, RefusesALinkThatLeavesThePack) {
  const test::TempDir elsewhere;
  test::WriteFile(elsewhere / "data", "data");
  fs::remove(dir_ / "data");
  fs::create_symlink(elsewhere / "data", dir_ / "data");
  EXPECT_TRUE(
      Refuses(CheckSha256Sums(dir_.path()), Code::kCorrupt, {"data", elsewhere.path().string()}));
}

TEST_F(CheckSums, AcceptsTheHubCacheLayout) {
  const test::TempDir hub;
  fs::create_directories(hub / "blobs");
  fs::create_directories(hub / "snapshots/rev");
  test::WriteFile(hub / "blobs/1", "data");
  fs::create_symlink("../../blobs/1", hub / "snapshots/rev/data");
  fs::copy_file(dir_ / "SHA256SUMS", hub / "snapshots/rev/SHA256SUMS");
  const auto sums = CheckSha256Sums(hub / "snapshots/rev");
  EXPECT_TRUE(sums.ok()) << sums.error().ToString();
}

}  // namespace
}  // namespace kv8
