#include "calib/report_output.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

using test::TempDir;

TEST(ReportOutput, AcceptsANewFile) {
  const TempDir dir;
  EXPECT_TRUE(CheckReportOutput(dir / "report.json").ok());
  EXPECT_TRUE(CheckReportOutput("report-of-a-test-that-is-not-there.json").ok());
}

TEST(ReportOutput, RefusesWhatExists) {
  const TempDir dir;
  test::WriteFile(dir / "file", "mine");
  std::filesystem::create_symlink("nowhere", dir / "link");
  for (const auto& path : {dir / "file", dir / "link", dir.path()}) {
    const auto checked = CheckReportOutput(path);
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().code, Code::kAlreadyExists);
    EXPECT_EQ(checked.error().where, path.string());
  }
  EXPECT_EQ(*ReadFile(dir / "file", 100), "mine");
}

TEST(ReportOutput, RefusesAMissingDirectoryAndNoName) {
  const TempDir dir;
  EXPECT_EQ(CheckReportOutput(dir / "absent" / "r.json").error().code, Code::kNotFound);
  EXPECT_EQ(CheckReportOutput("").error().code, Code::kInvalidArgument);
  EXPECT_EQ(CheckReportOutput("absent/").error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace kv8
