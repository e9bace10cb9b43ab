#include "scalepack/sha256sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "scalepack/scale_names.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxSumsBytes = 1 << 20;
constexpr std::string_view kRemedy = "download the pack again, or build it again with `kv8 pack`";

Error BadLine(std::size_t number, std::string_view problem, std::string_view where) {
  return Error{Code::kCorrupt, fmt::format("line {} {}", number, problem), std::string(where),
               std::string(kRemedy)};
}

/// Splits "<hash>  <name>"; false for any other form.
bool SplitLine(std::string_view line, std::string_view* hash, std::string_view* name) {
  constexpr std::size_t kHashLength = 64;
  if (line.size() < kHashLength + 3) return false;
  *hash = line.substr(0, kHashLength);
  const std::string_view separator = line.substr(kHashLength, 2);
  *name = line.substr(kHashLength + 2);
  if (name->starts_with("./")) name->remove_prefix(2);
  return IsSha256Hex(*hash) && (separator == "  " || separator == " *");
}

bool MayBeUnlisted(std::string_view name) {
  return name.starts_with('.') || name == kSumsFile || name == kReadmeFile;
}

/// A link must not make a pack out of files that lie elsewhere.
Result<void> CheckStaysInside(const fs::path& dir, const fs::path& file) {
  std::error_code error;
  const fs::path home = fs::canonical(dir, error);
  const fs::path real = fs::canonical(file, error);
  if (error) return SystemError(file, "resolve", error.value());
  const bool in_hub_cache = home.parent_path().filename() == "snapshots" &&
                            real.parent_path() == home.parent_path().parent_path() / "blobs";
  if (real.parent_path() == home || in_hub_cache) return {};
  return Error{Code::kCorrupt, fmt::format("is a link that leaves the pack, to {}", real.string()),
               file.string(), "replace the link by a copy of the file"};
}

Result<void> CheckListed(const fs::path& dir, const Sha256Sums& sums) {
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (sums.contains(name) || MayBeUnlisted(name)) continue;
    return Error{Code::kMismatch, fmt::format("is not listed in {}", kSumsFile),
                 it->path().string(), "remove the file, or download the pack again"};
  }
  if (error) return SystemError(dir, "list", error.value());
  return {};
}

}  // namespace

Result<Sha256Sums> ParseSha256Sums(std::string_view text, std::string_view where) {
  Sha256Sums sums;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::string_view hash;
    std::string_view name;
    if (line.ends_with('\r')) {
      return BadLine(number, "ends in a carriage return; lines end in a newline alone", where);
    }
    if (!SplitLine(line, &hash, &name)) {
      return BadLine(number, "is not of the form \"<SHA-256>  <file>\"", where);
    }
    if (!IsPlainFileName(name)) return BadLine(number, "names a file outside the pack", where);
    if (!sums.emplace(name, hash).second) {
      return BadLine(number, fmt::format("lists {} a second time", name), where);
    }
  }
  if (sums.empty()) return BadLine(1, "is missing: the list is empty", where);
  return sums;
}

std::string FormatSha256Sums(const Sha256Sums& sums) {
  std::string text;
  for (const auto& [name, hash] : sums) text += fmt::format("{}  {}\n", hash, name);
  return text;
}

Result<Sha256Sums> CheckSha256Sums(const fs::path& dir) {
  const fs::path list = dir / kSumsFile;
  KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(list, kMaxSumsBytes));
  KV8_ASSIGN_OR_RETURN(Sha256Sums sums, ParseSha256Sums(text, list.string()));
  for (const auto& [name, expected] : sums) {
    const fs::path file = dir / name;
    KV8_RETURN_IF_ERROR(CheckStaysInside(dir, file));
    KV8_ASSIGN_OR_RETURN(const std::string actual, Sha256File(file));
    if (actual != expected) {
      return Error{Code::kMismatch,
                   fmt::format("has SHA-256 {}; {} lists {}", actual, kSumsFile, expected),
                   file.string(), std::string(kRemedy)};
    }
  }
  KV8_RETURN_IF_ERROR(CheckListed(dir, sums));
  return sums;
}

}  // namespace kv8
