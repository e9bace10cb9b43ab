// Publishing a directory at once: readers see nothing or all of it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// Called before each step of a publication with the step's name. An error it returns ends the
/// publication as a failure of the system would; tests use it, and kill the process in it.
using StepHook = std::function<Result<void>(std::string_view step)>;

/// A hidden sibling of the output, filled first and renamed into place last. The destructor removes
/// it unless it was published; what a killed process leaves behind is never mistaken for the output
/// and is removed by the next run with that output.
class StagedDirectory {
 public:
  /// Creates the parents of `output` and the staging directory ".<name>.tmp-<pid>" beside it.
  /// Errors: kAlreadyExists when `output` exists (a dangling link too), kIo.
  static Result<StagedDirectory> Create(const std::filesystem::path& output, StepHook hook);

  StagedDirectory(StagedDirectory&& other) noexcept;
  StagedDirectory& operator=(StagedDirectory&&) = delete;
  ~StagedDirectory();

  /// Where it is until it is published.
  const std::filesystem::path& path() const { return staging_; }

  /// Writes a file and makes it durable. Errors: kIo.
  Result<void> Write(std::string_view name, std::string_view content);
  /// Makes a symbolic link. `target` is taken as seen from the published directory, which has the
  /// same parent as the staging directory. Errors: kIo.
  Result<void> Link(const std::filesystem::path& name, const std::filesystem::path& target);
  /// Renames to `output`, never over something that appeared there meanwhile.
  /// Errors: kAlreadyExists, kIo.
  Result<void> Publish();

 private:
  StagedDirectory(std::filesystem::path output, std::filesystem::path staging, StepHook hook);
  Result<void> Step(std::string_view name) const;

  std::filesystem::path output_;
  std::filesystem::path staging_;  // empty once published or moved from
  StepHook hook_;
};

}  // namespace kv8
