// What a refusal must be like.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv8/error.h"

namespace kv8::test {

/// The error has this code, a remedy, and names all of `parts` in its text.
inline ::testing::AssertionResult IsError(const Error& error, Code code,
                                          const std::vector<std::string>& parts) {
  const std::string text = error.ToString();
  if (error.code != code) {
    return ::testing::AssertionFailure() << "code is " << CodeName(error.code) << ": " << text;
  }
  if (error.remedy.empty()) return ::testing::AssertionFailure() << "no remedy: " << text;
  for (const std::string& part : parts) {
    if (text.find(part) != std::string::npos) continue;
    return ::testing::AssertionFailure() << "does not name \"" << part << "\": " << text;
  }
  return ::testing::AssertionSuccess();
}

template <class T>
::testing::AssertionResult Refuses(const Result<T>& result, Code code,
                                   const std::vector<std::string>& parts) {
  if (result.ok()) return ::testing::AssertionFailure() << "was accepted";
  return IsError(result.error(), code, parts);
}

}  // namespace kv8::test
