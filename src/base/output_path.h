// Where an output will really be, and that it is in no place that is only read.
#pragma once

#include <filesystem>
#include <initializer_list>

#include "kv8/error.h"

namespace kv8 {

/// `path` from the root, without links in the part of it that exists, without a last separator.
/// Errors: kIo.
Result<std::filesystem::path> ResolvePath(const std::filesystem::path& path);

/// Refuses an output that is one of `inputs` or lies inside of one, by whatever names they are
/// called. Errors: kInvalidArgument; those of ResolvePath.
Result<void> CheckOutside(const std::filesystem::path& output,
                          std::initializer_list<std::filesystem::path> inputs);

}  // namespace kv8
