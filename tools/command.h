// The frame of every subcommand of `kv8`.
//
// A subcommand is one file, tools/<name>.cc, that defines one function declared in commands.h:
//
//   namespace {
//   struct InspectOptions {
//     std::filesystem::path dir;
//     bool json = false;
//   };
//
//   Result<void> Inspect(const InspectOptions& options) {
//     KV8_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options.dir));
//     return options.json ? WriteJson(ToJson(checkpoint)) : WriteText(ToText(checkpoint));
//   }
//   }  // namespace
//
//   CommandRun SetUpInspect(CLI::App& app) {
//     auto options = std::make_shared<InspectOptions>();
//     app.add_option("dir", options->dir, "Checkpoint directory")->required();
//     AddJsonFlag(app, options->json);
//     return [options] { return Inspect(*options); };
//   }
//
// To add one: that file, its declaration in commands.h, its row in main.cc's kCommands, its source
// in CMakeLists.txt, its lines in docs/spec/cli.md, and its test in tests/cli/.
//
// What main.cc does with it:
// - what CLI11 refuses (unknown flag, failed ->check, missing ->required) becomes an Error
//   (usage_error.h) with exit code 2; so say everything about a flag that needs no file in its
//   declaration: ->check (flag_checks.h), ->excludes, groups;
// - an Error from the run is printed as `kv8 <name>: <where>: <what>\n  try: <remedy>`, with exit
//   code 1;
// - a run prints its result with WriteText or WriteJson (output.h) and nothing else on standard
//   output; progress and notes go to standard error with Note;
// - a run that takes long calls CatchInterrupts() (interrupt.h) and asks Interrupted() on its way.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "flag_checks.h"
#include "kv8/error.h"

namespace kv8 {

/// The work of a subcommand, called once after the flags were parsed into what it captured.
using CommandRun = std::function<Result<void>()>;

/// Declares the flags of a subcommand on `app` and returns its work.
using CommandSetUp = CommandRun (*)(CLI::App& app);

/// Declares `--json`, which every subcommand has.
inline void AddJsonFlag(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "Print one JSON object on standard output and nothing else");
}

}  // namespace kv8
