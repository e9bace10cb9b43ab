// The stand-in that Git leaves where a large file was not fetched.
#pragma once

#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

inline bool IsLfsPointer(std::string_view content) {
  return content.starts_with("version https://git-lfs.github.com/spec/");
}

inline Error LfsPointerError(std::string_view where) {
  return Error{Code::kCorrupt, "is a Git LFS pointer, not the file itself", std::string(where),
               "run `git lfs pull` in the clone it comes from, or download the file"};
}

}  // namespace kv8
