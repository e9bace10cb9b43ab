// Strict JSON: what every JSON file kv8 reads must satisfy before its fields are looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

using Json = nlohmann::json;

/// Largest nesting of arrays and objects that ParseJson accepts.
inline constexpr int kMaxJsonDepth = 64;

/// Parses one JSON document. `where` names its source in errors.
/// Errors: kCorrupt for a syntax error (with its byte offset), invalid UTF-8, a duplicate key
/// (named), trailing bytes, or nesting deeper than kMaxJsonDepth.
Result<Json> ParseJson(std::string_view text, std::string_view where);

/// ReadFile and ParseJson. Errors: those of both.
Result<Json> ReadJsonFile(const std::filesystem::path& path, std::uint64_t max_bytes);

/// The JSON text kv8 writes to files: indented by 2, keys sorted, trailing newline. Bytes of a
/// string that are not UTF-8 become U+FFFD.
std::string DumpJson(const Json& json);

/// A value for a message: compact ASCII, cut to 60 bytes; of arrays and objects only what they are.
std::string JsonText(const Json& value);

}  // namespace kv8
