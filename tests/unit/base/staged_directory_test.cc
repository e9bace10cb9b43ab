#include "base/staged_directory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/crash.h"
#include "support/refuses.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;
using test::Refuses;

Result<void> PublishTwoFiles(const fs::path& output, StepHook hook = {}) {
  KV8_ASSIGN_OR_RETURN(auto staged, StagedDirectory::Create(output, std::move(hook)));
  KV8_RETURN_IF_ERROR(staged.Write("a", "1"));
  KV8_RETURN_IF_ERROR(staged.Link("b", "a"));
  return staged.Publish();
}

TEST(StagedDirectory, PublishesAtOnceAndLeavesNothingElse) {
  const test::TempDir dir;
  ASSERT_TRUE(PublishTwoFiles(dir / "deep/er/out/").ok());
  EXPECT_EQ(test::Slurp(dir / "deep/er/out/b"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "deep/er"), {}), 1);
}

TEST(StagedDirectory, RemovesItselfWhenNotPublished) {
  const test::TempDir dir;
  {
    auto staged = StagedDirectory::Create(dir / "out", {});
    ASSERT_TRUE(staged.ok());
    ASSERT_TRUE(staged->Write("a", "1").ok());
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(StagedDirectory, RefusesAnOutputThatExists) {
  const test::TempDir dir;
  fs::create_directory(dir / "out");
  fs::create_symlink("nowhere", dir / "link");
  EXPECT_TRUE(Refuses(PublishTwoFiles(dir / "out"), Code::kAlreadyExists, {"out"}));
  EXPECT_TRUE(Refuses(PublishTwoFiles(dir / "link"), Code::kAlreadyExists, {"link"}));
}

TEST(StagedDirectory, NeverRenamesOverAnOutputThatAppearsMeanwhile) {
  const test::TempDir dir;
  const auto rival = [&](std::string_view step) -> Result<void> {
    if (step == "rename") fs::create_directory(dir / "out");  // empty: plain rename replaces it
    return {};
  };
  EXPECT_TRUE(Refuses(PublishTwoFiles(dir / "out", rival), Code::kAlreadyExists, {"out"}));
  EXPECT_TRUE(fs::is_empty(dir / "out"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1);
}

TEST(StagedDirectory, LeftoversOfTheSameProcessIdDoNotHinder) {
  const test::TempDir dir;
  const std::string stale = fmt::format(".out.tmp-{}", ::getpid());
  fs::create_directory(dir / stale);
  test::WriteFile(dir / stale / "junk", "x");
  ASSERT_TRUE(PublishTwoFiles(dir / "out").ok());
  EXPECT_FALSE(fs::exists(dir / "out/junk"));
  EXPECT_FALSE(fs::exists(dir / stale));
}

TEST(StagedDirectory, ReportsAnEmptyPath) {
  EXPECT_TRUE(Refuses(StagedDirectory::Create("", {}), Code::kIo, {"cannot resolve"}));
}

TEST(StagedDirectory, ReportsAParentThatIsNoDirectory) {
  const test::TempDir dir;
  test::WriteFile(dir / "file", "x");
  EXPECT_FALSE(PublishTwoFiles(dir / "file/out").ok());
  EXPECT_EQ(test::Slurp(dir / "file"), "x");
}

}  // namespace
}  // namespace kv8
