#include "calib/partial_state.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/sha256.h"

namespace kv8 {
namespace {

constexpr std::string_view kFormat = "kv8 calibration in progress, version 2";
constexpr std::uint64_t kMaxPartialBytes = 256ull << 20;
constexpr std::string_view kRestartRemedy =
    "repeat the command that began it to go on, or pass --restart to begin again";

Error NotUsable(Code code, const std::filesystem::path& path, std::string what) {
  return Error{code, std::move(what), path.string(), std::string(kRestartRemedy)};
}

/// Of what a run goes on from. Most damage would contradict itself, but a changed count need not.
std::string StateSha256(const Json& position, const Json& report) {
  return Sha256Hex(position.dump() + report.dump());
}

Json PositionToJson(const PartialState& state) {
  const SourcePosition& position = state.position;
  return {{"pass", static_cast<int>(state.pass)}, {"file", position.corpus.file},
          {"offset", position.corpus.offset},     {"line", position.corpus.line},
          {"documents", position.documents},      {"tokens", position.tokens}};
}

Result<void> ReadPosition(const JsonFields& fields, PartialState* state) {
  KV8_ASSIGN_OR_RETURN(const std::uint64_t pass, fields.Count("pass", 2));
  state->pass = static_cast<CalibrationPass>(pass);
  SourcePosition& position = state->position;
  KV8_ASSIGN_OR_RETURN(position.corpus.file, fields.Count("file"));
  KV8_ASSIGN_OR_RETURN(position.corpus.offset, fields.Count("offset"));
  KV8_ASSIGN_OR_RETURN(position.corpus.line, fields.Count("line"));
  KV8_ASSIGN_OR_RETURN(position.documents, fields.Count("documents"));
  KV8_ASSIGN_OR_RETURN(position.tokens, fields.Count("tokens"));
  return {};
}

Result<void> CheckIdentity(const std::filesystem::path& path, const JsonFields& saved,
                           const Json& wanted) {
  for (const auto& [key, value] : wanted.items()) {
    if (saved.Has(key) && saved.json().at(key) == value) continue;
    return NotUsable(
        Code::kMismatch, path,
        fmt::format("the unfinished run has another \"{}\": {}; now it is {}", key,
                    saved.Has(key) ? saved.json().at(key).dump() : "none", value.dump()));
  }
  return {};
}

Result<PartialState> FromJson(const std::filesystem::path& path, const Json& json,
                              const Json& identity) {
  KV8_ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(json, path.string(), ""));
  KV8_ASSIGN_OR_RETURN(const std::string format, root.String("format"));
  if (format != kFormat) return root.Bad("format", fmt::format("is not \"{}\"", kFormat));
  KV8_ASSIGN_OR_RETURN(const JsonFields saved, root.Object("identity"));
  KV8_RETURN_IF_ERROR(CheckIdentity(path, saved, identity));
  PartialState state;
  KV8_ASSIGN_OR_RETURN(const JsonFields position, root.Object("position"));
  KV8_RETURN_IF_ERROR(ReadPosition(position, &state));
  KV8_ASSIGN_OR_RETURN(const JsonFields report, root.Object("report"));
  KV8_ASSIGN_OR_RETURN(state.report, ReportFromJson(report.json(), path.string()));
  KV8_ASSIGN_OR_RETURN(const std::string sha256, root.Sha256("state_sha256"));
  if (sha256 != StateSha256(position.json(), report.json())) {
    return root.Bad("state_sha256", "is not that of the position and report in the file");
  }
  return state;
}

}  // namespace

std::filesystem::path PartialPath(const std::filesystem::path& output) {
  std::filesystem::path path = output;
  path += ".partial";
  return path;
}

Result<void> SavePartial(const std::filesystem::path& path, const Json& identity,
                         const PartialState& state) {
  Json json = {{"format", kFormat},
               {"identity", identity},
               {"position", PositionToJson(state)},
               {"report", ReportToJson(state.report)}};
  json["state_sha256"] = StateSha256(json["position"], json["report"]);
  return WriteFileAtomic(path, json.dump());
}

Result<std::optional<PartialState>> LoadPartial(const std::filesystem::path& path,
                                                const Json& identity) {
  auto json = ReadJsonFile(path, kMaxPartialBytes);
  if (!json.ok() && json.error().code == Code::kNotFound) return std::optional<PartialState>();
  if (!json.ok()) return NotUsable(json.error().code, path, json.error().what);
  auto state = FromJson(path, *json, identity);
  if (!state.ok()) return NotUsable(state.error().code, path, state.error().what);
  return std::optional(std::move(*state));
}

}  // namespace kv8
