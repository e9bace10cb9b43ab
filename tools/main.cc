// `kv8`: parses the command line, runs one subcommand, turns its result into an exit code.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "output.h"

namespace kv8 {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2 };

struct Command {
  const char* name;
  const char* help;
  CommandSetUp set_up;
};

// In the order of a user's first day; `kv8 --help` lists them so.
constexpr std::initializer_list<Command> kCommands = {
    {"inspect", "What a checkpoint holds", SetUpInspect},
    {"tokenize", "Token ids of a text", SetUpTokenize},
    {"calibrate", "Measure the ranges of K and V over a corpus", SetUpCalibrate},
    {"pack", "Publish measured ranges as a scale pack", SetUpPack},
    {"materialize", "Bind a scale pack to its checkpoint", SetUpMaterialize},
    {"generate", "Continue a prompt, printing the text as it comes", SetUpGenerate},
    {"score", "What each token of a text costs under the model", SetUpScore},
};

int Report(const std::string& command, const Error& error) {
  Note("kv8 " + command + ": " + error.ToString());
  return kFailed;
}

int RunCommand(const std::string& name, const CommandRun& run) {
  // src/ never throws; what the standard library throws for lack of memory ends here.
  try {
    const Result<void> result = run();
    return result.ok() ? kDone : Report(name, result.error());
  } catch (const std::bad_alloc&) {
    return Report(name, Error{.code = Code::kResourceExhausted,
                              .what = "the machine has no memory left",
                              .where = "",
                              .remedy = "free memory, or ask for less"});
  } catch (const std::exception& error) {
    return Report(name, Error{.code = Code::kIo, .what = error.what(), .where = "", .remedy = ""});
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Runs Qwen4Exp models with a calibrated 8-bit KV cache.", "kv8");
  app.require_subcommand(1);
  app.set_version_flag("--version", "kv8 " KV8_VERSION);

  std::vector<std::pair<CLI::App*, CommandRun>> commands;
  for (const Command& command : kCommands) {
    CLI::App* parser = app.add_subcommand(command.name, command.help);
    commands.emplace_back(parser, command.set_up(*parser));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a code per kind of error; kv8 has one for all of them.
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  for (const auto& [parser, run] : commands) {
    if (parser->parsed()) return RunCommand(parser->get_name(), run);
  }
  return kUsage;
}

}  // namespace
}  // namespace kv8

int main(int argc, char** argv) {
  // A reader that goes away and a limit on file sizes are write errors, not deaths by signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return kv8::Main(argc, argv);
}
