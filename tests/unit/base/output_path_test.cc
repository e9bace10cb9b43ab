#include "base/output_path.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

TEST(ResolvePath, IsAbsoluteForNamesThatDoNotExist) {
  const fs::path here = fs::canonical(fs::current_path());
  for (const char* const name : {"no-such", "./no-such", "no-such/", "x/../no-such"}) {
    EXPECT_EQ(ResolvePath(name).value(), here / "no-such") << name;
  }
}

TEST(CheckOutside, KnowsAPlaceByEveryName) {
  const test::TempDir dir;
  fs::create_directories(dir / "base/sub");
  fs::create_directory_symlink(dir / "base", dir / "alias");
  for (const char* const inside :
       {"base", "base/new", "base/sub/new/deep", "alias/new", "new/../base/new", "base/"}) {
    const auto checked = CheckOutside(dir / inside, {dir / "other", dir / "base"});
    ASSERT_FALSE(checked.ok()) << inside;
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
  }
  for (const char* const outside : {"new", "base2", "base/../new", "alias/../new"}) {
    EXPECT_TRUE(CheckOutside(dir / outside, {dir / "base"}).ok()) << outside;
  }
}

}  // namespace
}  // namespace kv8
