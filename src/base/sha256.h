// SHA-256, the identity of every file kv8 binds to another.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kv8/error.h"

namespace kv8 {

/// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  /// 64 lower-case hex digits. Call once, last.
  std::string FinishHex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// 64 lower-case hex digits.
std::string Sha256Hex(std::string_view text);

/// Hash of a whole file, through a map. Errors: those of MappedFile::Open.
Result<std::string> Sha256File(const std::filesystem::path& path);

}  // namespace kv8
