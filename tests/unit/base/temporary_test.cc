#include "base/temporary.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temp_dir.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

/// The id of a process that has ended.
pid_t GoneProcess() {
  const pid_t id = ::fork();
  if (id == 0) ::_exit(0);
  ::waitpid(id, nullptr, 0);
  return id;
}

TEST(TemporaryBeside, IsAHiddenSiblingOfThisProcess) {
  const test::TempDir dir;
  EXPECT_EQ(TemporaryBeside(dir / "out"), dir / (".out.tmp-" + std::to_string(::getpid())));
  EXPECT_EQ(TemporaryBeside("out").parent_path(), ".");
}

TEST(TemporaryBeside, RemovesWhatProcessesThatAreGoneLeft) {
  const test::TempDir dir;
  const std::string gone = std::to_string(GoneProcess());
  const std::string own = std::to_string(::getpid());
  const std::string parent = std::to_string(::getppid());
  test::WriteFile(dir / (".out.tmp-" + gone), "x");
  fs::create_directory(dir / (".out.tmp-" + own));
  test::WriteFile(dir / (".out.tmp-" + own) / "file", "x");
  const std::vector<std::string> kept = {
      ".out.tmp-" + parent, ".other.tmp-" + gone, "out.tmp-" + gone,      ".out.tmp-" + gone + "x",
      ".out.tmp-",          ".out.tmp--1",        ".out.tmp-999999999999"};
  for (const std::string& name : kept) test::WriteFile(dir / name, "x");
  TemporaryBeside(dir / "out");
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(dir / name)) << name;
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()),
            std::ssize(kept));
}

}  // namespace
}  // namespace kv8
