#include "checkpoint/generation_config.h"

#include <fmt/format.h>

#include "checkpoint/config_reader.h"

namespace kv8 {

Result<std::vector<TokenId>> ParseStopIds(const Json& json, int vocab, std::string_view where) {
  constexpr std::string_view kKey = "eos_token_id";
  if (!json.is_object()) {
    return Error{Code::kCorrupt, "not a JSON object", std::string(where),
                 "restore the file from the checkpoint's source"};
  }
  ConfigReader reader(json, std::string(where));
  const Json* value = reader.Find(kKey);
  std::vector<TokenId> ids;
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    const auto token = IntegerOf(id);
    if (!token || *token < 0 || *token >= vocab) {
      reader.Fail(Code::kCorrupt, kKey,
                  fmt::format("holds {}; ids run from 0 to {}", JsonText(id), vocab - 1));
      break;
    }
    ids.push_back(static_cast<TokenId>(*token));
  }
  KV8_RETURN_IF_ERROR(reader.status());
  return ids;
}

}  // namespace kv8
