// Typed, bounded access to the keys of a configuration object.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// Reads keys of one JSON object and keeps the first error, so that a list of fields reads as a
/// list of fields. A failed read yields the smallest value its bounds allow; look at `status()`
/// before using any value for more than storing it. A key whose value is null counts as absent.
class ConfigReader {
 public:
  /// `where` names the source, e.g. "DIR/config.json: text_config".
  ConfigReader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}
  /// As above, and notes every value it finds in `fields`, which must outlive it, as
  /// fields[prefix + key]. Objects are left to the readers of their members.
  ConfigReader(const Json& object, std::string where, Json* fields, std::string prefix = {})
      : object_(object), where_(std::move(where)), fields_(fields), prefix_(std::move(prefix)) {}

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  /// The value, or nullptr when absent or null.
  const Json* Find(std::string_view key) const;

  /// An integer in [min, max]; absent is an error unless `fallback` is given.
  std::int64_t Int(std::string_view key, std::int64_t min, std::int64_t max,
                   std::optional<std::int64_t> fallback = std::nullopt);
  /// As Int for extents that fit int; at least 1.
  int Extent(std::string_view key, int max);
  /// A finite number in [min, max].
  double Number(std::string_view key, double min, double max);
  /// Refuses every value of `key` but the listed ones (absent is fine when `absent_ok`).
  void RequireOneOf(std::string_view key, std::initializer_list<std::string_view> supported,
                    bool absent_ok);
  /// Refuses a boolean (absent is fine) that is not `supported`.
  void RequireBool(std::string_view key, bool supported);
  /// Refuses the key unless absent.
  void RequireAbsent(std::string_view key, std::string_view why);

  /// Records an error about `key` unless one is recorded already.
  void Fail(Code code, std::string_view key, std::string what, std::string remedy = {});
  Result<void> status() const;
  std::string WhereOf(std::string_view key) const;

 private:
  const Json& object_;
  std::string where_;
  Json* fields_ = nullptr;
  std::string prefix_;
  std::optional<Error> error_;
};

/// The value when it is an integer that fits int64.
std::optional<std::int64_t> IntegerOf(const Json& value);

}  // namespace kv8
