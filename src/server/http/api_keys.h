// Which clients may ask.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"

namespace kv8 {

class ApiKeys {
 public:
  /// Errors: kInvalidArgument for a key that is empty or holds what a header cannot.
  static Result<ApiKeys> Create(const std::vector<std::string>& keys);

  bool empty() const { return hashes_.empty(); }
  /// Which key `authorization`, the value of that header, holds as "Bearer <key>": its number, one
  /// and the same for keys that are equal. Nullopt when it holds none; 0 when there are no keys.
  /// Hashes are compared, all of them and to their end, so that the time tells nothing of a key, of
  /// its length or of which one it was.
  std::optional<std::size_t> Find(std::string_view authorization) const;

 private:
  std::vector<std::string> hashes_;
};

}  // namespace kv8
