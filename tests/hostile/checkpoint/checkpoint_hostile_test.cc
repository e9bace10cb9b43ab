// Every directory that scripts/make_hostile.py writes is refused with the right words, quickly.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "base/file.h"
#include "family/checkpoint.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

const std::filesystem::path kSource = KV8_SOURCE_DIR;

/// The hostile directories of one kind ("open" or "bind"), sorted.
std::vector<std::filesystem::path> Cases(const test::TempDir& dir, std::string_view kind) {
  const auto command =
      fmt::format("'{}' '{}' '{}' '{}'", KV8_PYTHON, (kSource / "scripts/make_hostile.py").string(),
                  (kSource / "models/tiny-qwen4exp").string(), dir.path().string());
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(dir / kind)) {
    if (entry.is_directory()) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

TEST(HostileCheckpoint, IsRefusedInUnderASecond) {
  const test::TempDir dir;
  const auto cases = Cases(dir, "open");
  EXPECT_GE(cases.size(), 70u);
  for (const auto& path : cases) {
    SCOPED_TRACE(path.filename().string());
    const auto begin = std::chrono::steady_clock::now();
    const auto checkpoint = Checkpoint::Open(path);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    ASSERT_FALSE(checkpoint.ok());
    const auto expected = ReadFile(path.string() + ".expect", 1000);
    ASSERT_TRUE(expected.ok());
    EXPECT_THAT(checkpoint.error().ToString(), testing::HasSubstr(*expected));
    EXPECT_NE(checkpoint.error().remedy, "");
    EXPECT_LT(seconds.count(), 1.0);
  }
}

/// What only the weights' shapes or values contradict is for the model to refuse.
TEST(HostileCheckpoint, OpensWhenOnlyTheModelCanTell) {
  const test::TempDir dir;
  for (const auto& path : Cases(dir, "bind")) {
    const auto checkpoint = Checkpoint::Open(path);
    EXPECT_TRUE(checkpoint.ok()) << path << checkpoint.error().ToString();
  }
}

}  // namespace
}  // namespace kv8
