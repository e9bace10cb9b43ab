#include "base/output_path.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

bool IsInside(const fs::path& inner, const fs::path& outer) {
  const auto [end, unused] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

}  // namespace

Result<fs::path> ResolvePath(const fs::path& path) {
  std::error_code error;
  // weakly_canonical leaves a path relative whose first name does not exist.
  const fs::path absolute = fs::absolute(path, error);
  if (error) return SystemError(path, "resolve", error.value());
  const fs::path real = fs::weakly_canonical(absolute, error);
  if (error) return SystemError(path, "resolve", error.value());
  // It also keeps the empty name of "dir/" where the directory does not exist.
  return real.has_filename() ? real : real.parent_path();
}

Result<void> CheckOutside(const fs::path& output, std::initializer_list<fs::path> inputs) {
  KV8_ASSIGN_OR_RETURN(const fs::path place, ResolvePath(output));
  for (const fs::path& input : inputs) {
    KV8_ASSIGN_OR_RETURN(const fs::path read_only, ResolvePath(input));
    if (!IsInside(place, read_only)) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("the output lies inside {}, which is only read", read_only.string()),
                 place.string(), "name an output outside of it"};
  }
  return {};
}

}  // namespace kv8
