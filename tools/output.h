// Standard output and standard error of the subcommands.
#pragma once

#include <functional>
#include <string_view>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// Writes `text`, a model's or a user's, as it is to standard output and flushes it, so that a
/// reader sees it now.
/// Errors: kIo, a full disk and a reader that went away included.
Result<void> WriteText(std::string_view text);

/// Writes lines about something, with the names in them made Printable. Errors: those of WriteText.
Result<void> WriteLines(std::string_view lines);

/// Writes `json` to standard output as one line, made PrintableJson. Numbers that JSON cannot say
/// (NaN, infinities) become null; bytes that are not UTF-8 become U+FFFD. Errors: those of
/// WriteText.
Result<void> WriteJson(const Json& json);

/// Writes a line, or some, to standard error, made Printable: progress, an error, or something that
/// the user should know.
void Note(std::string_view line);
/// Where such lines go instead, where standard error belongs to a log.
using NoteSink = std::function<void(std::string_view line)>;

}  // namespace kv8
