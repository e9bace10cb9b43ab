// What may stand behind a flag: ->check of CLI11, with errors that say what is allowed.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kv8 {

/// A check for paths. An empty one, such as an unset variable of a script leaves behind, would mean
/// the working directory, or that the flag was not given.
CLI::Validator NotEmpty();

/// Refuses what is not a number in [low, high]; NaN too, which CLI::Range lets by.
CLI::Validator NumberWithin(double low, double high);

/// Refuses what is not a number above 0 and at most 1.
CLI::Validator Probability();

/// Refuses what is not a decimal whole number in [low, high]. CLI11 by itself clamps what its type
/// cannot hold, wraps -1 around and reads 010 as 8.
CLI::Validator WholeNumberWithin(std::uint64_t low, std::uint64_t high);

/// Refuses what is none of `values`, and lists them.
CLI::Validator OneOf(std::vector<std::string> values);

/// Declares an option whose values have names; `value` holds the default.
template <class T>
void AddChoice(CLI::App& app, const std::string& name, T& value,
               const std::map<std::string, T>& choices, const std::string& help) {
  std::vector<std::string> names;
  std::string chosen;
  for (const auto& [choice, meaning] : choices) {
    names.push_back(choice);
    if (meaning == value) chosen = choice;
  }
  const auto set = [&value, choices](const std::string& text) { value = choices.at(text); };
  app.add_option_function<std::string>(name, set, help)->check(OneOf(names))->default_str(chosen);
}

}  // namespace kv8
