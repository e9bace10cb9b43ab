#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

TEST(ReadFile, GivesTheWholeContent) {
  const test::TempDir dir;
  test::WriteFile(dir / "f", "hello");
  EXPECT_EQ(ReadFile(dir / "f", 5).value(), "hello");
}

TEST(ReadFile, RefusesWhatIsTooLongAbsentOrNoFile) {
  const test::TempDir dir;
  test::WriteFile(dir / "f", "hello");
  EXPECT_EQ(ReadFile(dir / "f", 4).error().code, Code::kResourceExhausted);
  EXPECT_EQ(ReadFile(dir / "absent", 4).error().code, Code::kNotFound);
  EXPECT_EQ(ReadFile(dir.path(), 4).error().code, Code::kInvalidArgument);
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(dir / "fifo", 4).error().code, Code::kInvalidArgument);
}

TEST(OpenStream, RefusesAFifoWithoutWaitingForItsWriter) {
  const test::TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(OpenStream(dir / "fifo").error().code, Code::kInvalidArgument);
  EXPECT_EQ(OpenStream(dir / "absent").error().code, Code::kNotFound);
}

TEST(PathExists, SeesDanglingAndLoopingLinks) {
  const test::TempDir dir;
  fs::create_symlink("nowhere", dir / "dangling");
  fs::create_symlink("loop", dir / "loop");
  EXPECT_TRUE(PathExists(dir / "dangling"));
  EXPECT_TRUE(PathExists(dir / "loop"));
  EXPECT_FALSE(PathExists(dir / "absent"));
  EXPECT_EQ(CheckNewOutput(dir / "dangling").error().code, Code::kAlreadyExists);
  EXPECT_TRUE(CheckNewOutput(dir / "absent").ok());
}

TEST(IsPlainFileName, RefusesWhatLeavesTheDirectoryOrHides) {
  for (const char* const name : {"a", "..a", "a b", ".hidden"}) EXPECT_TRUE(IsPlainFileName(name));
  for (const std::string_view name :
       {std::string_view(""), std::string_view("."), std::string_view(".."),
        std::string_view("a/b"), std::string_view("a\\b"), std::string_view("a\0b", 3),
        std::string_view("a\n")}) {
    EXPECT_FALSE(IsPlainFileName(name)) << name;
  }
}

TEST(MappedFile, MovesItsMap) {
  const test::TempDir dir;
  test::WriteFile(dir / "f", "hello");
  auto first = MappedFile::Open(dir / "f");
  ASSERT_TRUE(first.ok());
  const MappedFile second = std::move(*first);
  ASSERT_EQ(second.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(second.bytes()[4]), 'o');
}

TEST(MappedFile, EmptyFileIsAnEmptySpan) {
  const test::TempDir dir;
  test::WriteFile(dir / "f", "");
  EXPECT_TRUE(MappedFile::Open(dir / "f")->bytes().empty());
}

TEST(WriteNewFile, NeverReplaces) {
  const test::TempDir dir;
  ASSERT_TRUE(WriteNewFile(dir / "f", "first").ok());
  fs::create_symlink("nowhere", dir / "dangling");
  for (const char* const name : {"f", "dangling"}) {
    const auto second = WriteNewFile(dir / name, "second");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Code::kAlreadyExists);
    EXPECT_EQ(second.error().where, (dir / name).string());
  }
  EXPECT_EQ(ReadFile(dir / "f", 10).value(), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 2);
}

TEST(WriteFileAtomic, ReplacesAndLeavesNothingBehind) {
  const test::TempDir dir;
  test::WriteFile(dir / "f", "old");
  ASSERT_TRUE(WriteFileAtomic(dir / "f", "new").ok());
  EXPECT_EQ(ReadFile(dir / "f", 10).value(), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace kv8
