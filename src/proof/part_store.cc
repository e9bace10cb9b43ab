#include "proof/part_store.h"

#include "base/file.h"
#include "base/json_fields.h"
#include "base/sha256.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kMaxPartBytes = std::uint64_t{4} << 30;
constexpr const char* kRemedy = "run with --restart to measure anew, or name another --output-dir";

/// A key whose value differs.
std::string FirstDifference(const Json& identity, const Json& found) {
  for (const auto& [key, value] : identity.items()) {
    if (!found.is_object() || !found.contains(key) || found.at(key) != value) return key;
  }
  return "identity";
}

}  // namespace

Result<std::optional<Json>> PartStore::Load(const std::string& name, const Json& identity) const {
  const std::filesystem::path path = PathOf(name);
  if (!PathExists(path)) return std::optional<Json>();
  auto json = ReadJsonFile(path, kMaxPartBytes);
  if (!json.ok()) {
    return Error{json.error().code, json.error().what, json.error().where, kRemedy};
  }
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(*json, path.string(), ""));
  KV8_ASSIGN_OR_RETURN(const JsonFields found, fields.Object("identity"));
  if (found.json() != identity) {
    return Error{Code::kMismatch,
                 "a finished measurement in this directory is of another run: \"" +
                     FirstDifference(identity, found.json()) + "\" differs",
                 path.string(), kRemedy};
  }
  KV8_ASSIGN_OR_RETURN(const JsonFields content, fields.Object("content"));
  KV8_ASSIGN_OR_RETURN(const std::string hash, fields.Sha256("content_sha256"));
  if (Sha256Hex(content.json().dump()) != hash) {
    return Error{Code::kCorrupt, "the content has not the hash that was written with it",
                 path.string(), kRemedy};
  }
  return std::optional(content.json());
}

Result<void> PartStore::Save(const std::string& name, const Json& identity,
                             const Json& content) const {
  // Not indented: these files are large, and for kv8 alone.
  const Json file = {
      {"identity", identity}, {"content_sha256", Sha256Hex(content.dump())}, {"content", content}};
  return WriteFileAtomic(PathOf(name), file.dump() + "\n");
}

}  // namespace kv8
