// The flags of a command that compares two configurations, A and B.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "proof/verify.h"

namespace kv8 {

struct ArmFlags {
  std::string a = "fp16";
  std::string b;  // empty: there is no B
  std::filesystem::path scale_pack;
  std::filesystem::path a_scale_pack;

  ArmSpec A() const;
  ArmSpec B() const;
};

/// Declares --a, --b, --scale-pack and --a-scale-pack.
void AddArmFlags(CLI::App& app, ArmFlags& flags);

}  // namespace kv8
