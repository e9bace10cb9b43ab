#include "base/staged_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/file.h"
#include "base/temporary.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

}  // namespace

Result<StagedDirectory> StagedDirectory::Create(const fs::path& output, StepHook hook) {
  // "out/" has an empty file name; the directory meant is "out".
  std::error_code error;
  const fs::path absolute = fs::absolute(output, error).lexically_normal();
  if (error) {
    return Error{Code::kIo, fmt::format("cannot resolve: {}", error.message()), output.string(),
                 "name the output by its absolute path"};
  }
  const fs::path clean = absolute.has_filename() ? absolute : absolute.parent_path();
  KV8_RETURN_IF_ERROR(CheckNewOutput(clean));
  fs::create_directories(clean.parent_path(), error);
  if (error) return SystemError(clean.parent_path(), "create", error.value());
  fs::path staging = TemporaryBeside(clean);
  if (::mkdir(staging.c_str(), 0755) != 0) return SystemError(staging, "create", errno);
  return StagedDirectory(clean, std::move(staging), std::move(hook));
}

StagedDirectory::StagedDirectory(fs::path output, fs::path staging, StepHook hook)
    : output_(std::move(output)), staging_(std::move(staging)), hook_(std::move(hook)) {}

StagedDirectory::StagedDirectory(StagedDirectory&& other) noexcept
    : output_(std::move(other.output_)),
      staging_(std::exchange(other.staging_, {})),
      hook_(std::move(other.hook_)) {}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
}

Result<void> StagedDirectory::Step(std::string_view name) const {
  return hook_ ? hook_(name) : Result<void>();
}

Result<void> StagedDirectory::Write(std::string_view name, std::string_view content) {
  KV8_RETURN_IF_ERROR(Step(name));
  return WriteFileAtomic(staging_ / name, content);
}

Result<void> StagedDirectory::Link(const fs::path& name, const fs::path& target) {
  KV8_RETURN_IF_ERROR(Step(name.string()));
  std::error_code error;
  fs::create_symlink(target, staging_ / name, error);
  if (error) return SystemError(staging_ / name, "create the link", error.value());
  return {};
}

Result<void> StagedDirectory::Publish() {
  KV8_RETURN_IF_ERROR(Step("sync"));
  KV8_RETURN_IF_ERROR(SyncDirectory(staging_));
  KV8_RETURN_IF_ERROR(Step("rename"));
  KV8_RETURN_IF_ERROR(RenameNew(staging_, output_));
  staging_.clear();
  KV8_RETURN_IF_ERROR(Step("sync parent"));
  return SyncDirectory(output_.parent_path());
}

}  // namespace kv8
