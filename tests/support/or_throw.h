// The value of a call that a test cannot go on without.
#pragma once

#include <stdexcept>
#include <type_traits>
#include <utility>

#include "kv8/error.h"

namespace kv8::test {

/// Throws what the error says.
template <class T>
T OrThrow(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().ToString());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

}  // namespace kv8::test
