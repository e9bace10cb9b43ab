// `kv8`: parses the command line, runs one subcommand, turns its result into an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <exception>
#include <initializer_list>
#include <iostream>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "output.h"
#include "printable.h"
#include "usage_error.h"

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
    {"plan", "Whether a model fits on a machine, and how much context", SetUpPlan},
    {"inspect", "What a checkpoint holds", SetUpInspect},
    {"tokenize", "Token ids of a text", SetUpTokenize},
    {"calibrate", "Measure the ranges of K and V over a corpus", SetUpCalibrate},
    {"pack", "Publish measured ranges as a scale pack", SetUpPack},
    {"materialize", "Bind a scale pack to its checkpoint", SetUpMaterialize},
    {"generate", "Continue a prompt, printing the text as it comes", SetUpGenerate},
    {"score", "What each token of a text costs under the model", SetUpScore},
    {"serve", "Answer OpenAI's HTTP requests", SetUpServe},
    {"verify", "What one K/V cache costs beside another, on the same texts", SetUpVerify},
    {"bench", "How fast one configuration is, or two beside each other", SetUpBench},
    {"synth", "Write a checkpoint of any size and format", SetUpSynth},
};

int Report(const std::string& command, Error error, ExitCode code = kFailed) {
  for (std::string* text : {&error.where, &error.what, &error.remedy}) *text = Printable(*text);
  Note((command.empty() ? "kv8: " : "kv8 " + command + ": ") + error.ToString());
  return code;
}

std::string bus_error_message;  // for the signal handler, which may not build it

/// Weights are mapped: when a file is cut short in use, its reader gets a signal, not an error.
void OnBusError(int /*signal*/) {
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, bus_error_message.data(), bus_error_message.size());
  ::_exit(kFailed);
}

int RunCommand(const std::string& name, const CommandRun& run) {
  const Error cut{.code = Code::kIo,
                  .what = "a file became shorter, or its disk failed, while it was being used",
                  .where = "checkpoint",
                  .remedy = "wait until nothing writes to the checkpoint, and run again"};
  bus_error_message = "kv8 " + name + ": " + cut.ToString() + "\n";
  std::signal(SIGBUS, OnBusError);
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
    if (error.get_exit_code() != 0) {
      const auto chosen = app.get_subcommands();
      const CLI::App& parser = chosen.empty() ? app : *chosen.front();
      return Report(chosen.empty() ? "" : parser.get_name(), UsageError(parser, error), kUsage);
    }
    app.exit(error);
    std::cout.flush();  // help and version
    return std::cout ? kDone : Report("--help", SystemError("standard output", "write", errno));
  }
  for (const auto& [parser, run] : commands) {
    if (parser->parsed()) return RunCommand(parser->get_name(), run);
  }
  return kUsage;
}

/// A standard stream that the caller closed stays closed for reading and writing, but its number is
/// taken: otherwise the next file would get it, and messages would go into that file.
void OccupyClosedStreams() {
  for (int fd = ::open("/dev/null", O_PATH); fd >= 0; fd = ::open("/dev/null", O_PATH)) {
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
  }
}

}  // namespace
}  // namespace kv8

int main(int argc, char** argv) {
  // A reader that goes away and a limit on file sizes are write errors, not deaths by signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  kv8::OccupyClosedStreams();
  return kv8::Main(argc, argv);
}
