// What is wrong with a command line, in the form of every other error.
#pragma once

#include <CLI/CLI.hpp>

#include "kv8/error.h"

namespace kv8 {

/// What `app`, the command that was named or kv8 itself, could not parse. An unknown name comes
/// first, whatever CLI11 complains about: most missing flags are misspelled ones.
Error UsageError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace kv8
