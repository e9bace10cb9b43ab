#include "usage_error.h"

#include <fmt/format.h>

#include <regex>
#include <string>
#include <vector>

#include "nearest.h"

namespace kv8 {
namespace {

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (!group->get_name().empty()) continue;  // a command, not a group of options
    for (std::string& flag : FlagsOf(*group)) flags.push_back(std::move(flag));
  }
  return flags;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_name().empty()) commands.push_back(command->get_name());
  }
  return commands;
}

bool IsRoot(const CLI::App& app) {
  return app.get_parent() == nullptr;
}

std::string HelpRemedy(const CLI::App& app) {
  return IsRoot(app) ? "`kv8 --help`, which lists the commands"
                     : fmt::format("`kv8 {} --help`, which lists the flags", app.get_name());
}

Error Unknown(const CLI::App& app, const std::string& argument) {
  const bool is_flag = argument.starts_with("-");
  const std::string name = is_flag ? argument.substr(0, argument.find('=')) : argument;
  std::string what = "unknown flag";
  if (!is_flag) what = IsRoot(app) ? "unknown command" : "unexpected argument";
  std::string nearest;
  if (is_flag) nearest = Nearest(name, FlagsOf(app));
  if (!is_flag && IsRoot(app)) nearest = Nearest(name, CommandsOf(app));
  return Error{Code::kInvalidArgument, what, name, nearest.empty() ? HelpRemedy(app) : nearest};
}

/// CLI11's sentences, said as kv8's errors are: the flag is named before.
std::string Plain(const CLI::ParseError& error, std::string what) {
  if (error.get_name() == "ArgumentMismatch") {
    return what.find("missing") == what.npos ? "is given more than once" : "a value must follow";
  }
  what = std::regex_replace(what, std::regex("^A subcommand is"), "a command is");
  what = std::regex_replace(what, std::regex("^= "), "takes no value such as ");
  what = std::regex_replace(what, std::regex("^excludes "), "cannot be used together with ");
  what = std::regex_replace(what, std::regex("^requires "), "cannot be used without ");
  return std::regex_replace(what, std::regex(R"(^Exactly 1 option from \[.*\] is required)"),
                            "exactly one of these is required");
}

}  // namespace

Error UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  if (!unknown.empty()) return Unknown(app, unknown.front());
  const std::string text = error.what();
  // "--flag: problem", "--flag problem", "dir is required", "Could not convert: --flag = value",
  // "Exactly 1 option from [--a,--b] ..."
  static const std::regex kLeading(
      R"(^(?:Could not convert: )?(--[\w-]+|\w+(?= is required)):? ((?:.|\n)*)$)");
  static const std::regex kListed(R"(\[(--[^\]]*)\])");
  std::smatch part;
  std::string where;
  std::string what = text;
  if (std::regex_search(text, part, kListed)) {
    where = std::regex_replace(part.str(1), std::regex(","), ", ");
  } else if (std::regex_match(text, part, kLeading)) {
    where = part.str(1);
    what = part.str(2);
  }
  return Error{Code::kInvalidArgument, Plain(error, what), where, HelpRemedy(app)};
}

}  // namespace kv8
