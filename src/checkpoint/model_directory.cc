#include "checkpoint/model_directory.h"

#include <fmt/format.h>

#include <system_error>

#include "base/file.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNameTheDirectory =
    "name the directory that holds config.json and the safetensors files";

/// "organisation/model", as model hubs call one.
bool LooksLikeHubId(const fs::path& path) {
  const std::string text = path.string();
  const auto slash = text.find('/');
  return slash != 0 && slash != text.npos && slash + 1 < text.size() && text.front() != '.' &&
         text.find('/', slash + 1) == text.npos && !PathExists(path.parent_path());
}

Error Gguf(const fs::path& path) {
  return Error{Code::kUnsupported, "is a GGUF file; kv8 runs safetensors checkpoints",
               path.string(), "download the model's unquantised safetensors files"};
}

Error Absent(const fs::path& path) {
  if (!LooksLikeHubId(path))
    return {Code::kNotFound, "no such directory", path.string(), kNameTheDirectory};
  return Error{Code::kNotFound, "no such directory; kv8 does not download models", path.string(),
               fmt::format("`hf download {} --local-dir {}`, and name that directory",
                           path.string(), path.filename().string())};
}

Error NotADirectory(const fs::path& path) {
  if (path.extension() == ".gguf") return Gguf(path);
  std::string remedy = kNameTheDirectory;
  if (path.extension() == ".safetensors" || path.filename() == kConfigFile) {
    const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
    remedy = fmt::format("name its directory, {}", parent.string());
  }
  return {Code::kInvalidArgument, "not a directory", path.string(), std::move(remedy)};
}

}  // namespace

Result<void> CheckModelDirectory(const fs::path& dir) {
  std::error_code error;
  const fs::file_type type = fs::status(dir, error).type();
  if (type == fs::file_type::not_found) return Absent(dir);
  if (type != fs::file_type::directory) return NotADirectory(dir);
  if (PathExists(dir / kConfigFile)) return {};
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".gguf") return Gguf(it->path());
  }
  return {};
}

}  // namespace kv8
