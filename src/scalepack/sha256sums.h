// SHA256SUMS: the list that makes a pack complete, in the format of `sha256sum`.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// File name -> SHA-256, 64 lower-case hex digits.
using Sha256Sums = std::map<std::string, std::string, std::less<>>;

/// Parses lines of "<64 hex digits>  <name>" (or " *<name>"); a leading "./" is dropped.
/// Errors: kCorrupt, naming the line: another form, a name that leaves the directory, a name twice,
/// no line at all.
Result<Sha256Sums> ParseSha256Sums(std::string_view text, std::string_view where);

/// The inverse, sorted by name.
std::string FormatSha256Sums(const Sha256Sums& sums);

/// Checks a pack directory against its SHA256SUMS, which must list every entry but itself, names
/// that start with "." (bookkeeping of download tools) and README.md (which it may list).
/// Links may lead to files of the directory itself or of the model hub's cache layout
/// (<pack>/../../blobs). Errors: kNotFound, kMismatch, kCorrupt, kIo; each names the file.
Result<Sha256Sums> CheckSha256Sums(const std::filesystem::path& dir);

}  // namespace kv8
