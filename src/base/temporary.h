// Names for what is written beside an output and renamed to it, and what killed runs left there.
#pragma once

#include <filesystem>

namespace kv8 {

/// ".<name>.tmp-<process id>" beside `output`. What this name and those of processes that are gone
/// still hold is removed, as far as it can be: nobody will rename it any more.
std::filesystem::path TemporaryBeside(const std::filesystem::path& output);

}  // namespace kv8
