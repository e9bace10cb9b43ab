// Standard output and standard error of the subcommands.
#pragma once

#include <functional>
#include <string_view>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// Writes `text` to standard output and flushes it, so that a reader sees it now.
/// Errors: kIo, a full disk and a reader that went away included.
Result<void> WriteText(std::string_view text);

/// Writes `json` to standard output as one line. Numbers that JSON cannot say (NaN, infinities)
/// become null; bytes that are not UTF-8 become U+FFFD. Errors: those of WriteText.
Result<void> WriteJson(const Json& json);

/// Writes one line to standard error: progress, or something the user should know.
void Note(std::string_view line);
/// Where such lines go instead, where standard error belongs to a log.
using NoteSink = std::function<void(std::string_view line)>;

}  // namespace kv8
