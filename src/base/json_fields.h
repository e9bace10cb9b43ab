// Typed access to the keys of one JSON object of an untrusted file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

/// A view of a JSON object that must outlive it. Every getter fails with kCorrupt, naming the file
/// and the full path of the key ("scale_file.filename"), when the key is absent or has another
/// type. Booleans are never numbers.
class JsonFields {
 public:
  /// `where` names the file; `path` is the object's own place in it, empty for the root.
  static Result<JsonFields> Of(const Json& value, std::string_view where, std::string_view path);

  bool Has(std::string_view key) const { return object_->contains(key); }
  Result<std::string> String(std::string_view key) const;
  /// 64 lower-case hex digits.
  Result<std::string> Sha256(std::string_view key) const;
  Result<bool> Bool(std::string_view key) const;
  /// An integer in [0, max].
  Result<std::uint64_t> Count(std::string_view key, std::uint64_t max = UINT64_MAX) const;
  /// A finite number.
  Result<double> Number(std::string_view key) const;
  Result<JsonFields> Object(std::string_view key) const;
  Result<const Json*> Array(std::string_view key) const;

  const Json& json() const { return *object_; }
  const std::string& where() const { return where_; }
  /// The full path of `key`.
  std::string PathOf(std::string_view key) const;
  /// kCorrupt: `"<path of key>" <problem>`.
  Error Bad(std::string_view key, std::string_view problem) const;

 private:
  JsonFields(const Json& object, std::string_view where, std::string_view path)
      : object_(&object), where_(where), path_(path) {}
  Result<const Json*> Find(std::string_view key) const;

  const Json* object_;
  std::string where_;
  std::string path_;
};

/// The value as a non-negative integer; nullopt for anything else, booleans and floats included.
std::optional<std::uint64_t> AsCount(const Json& value);

/// The value as an integer from 0 to 2^31 - 1; nullopt for anything else. A vocabulary may be
/// smaller.
std::optional<TokenId> AsTokenId(const Json& value);

/// True for 64 lower-case hex digits.
bool IsSha256Hex(std::string_view text);

}  // namespace kv8
