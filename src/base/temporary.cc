#include "base/temporary.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace kv8 {
namespace {

namespace fs = std::filesystem;

/// Whether a file's name is `prefix` and the id of a process that will not come back to it. This
/// one's counts: a container gives every run the same id.
bool IsLeftover(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  pid_t id = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (problem != std::errc() || end != name.data() + name.size() || id <= 0) return false;
  return id == ::getpid() || (::kill(id, 0) != 0 && errno == ESRCH);
}

}  // namespace

fs::path TemporaryBeside(const fs::path& output) {
  const fs::path parent = output.has_parent_path() ? output.parent_path() : fs::path(".");
  const std::string prefix = "." + output.filename().string() + ".tmp-";
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (IsLeftover(it->path().filename().string(), prefix)) fs::remove_all(it->path(), ignored);
  }
  return parent / (prefix + std::to_string(::getpid()));
}

}  // namespace kv8
