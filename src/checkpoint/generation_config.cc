#include "checkpoint/generation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "checkpoint/config_reader.h"

namespace kv8 {

namespace {

// The ranges of SamplingOptions.
constexpr double kMaxTemperature = 100;
constexpr double kMinPenalty = 0.01;
constexpr double kMaxPenalty = 100;
constexpr std::int64_t kMaxTopK = 1 << 30;

/// Fields of `transformers` that change what is generated, and the values that change nothing.
struct Foreign {
  const char* key;
  const char* neutral;  // JSON array
};
constexpr std::array kForeign = {
    Foreign{"num_beams", "[1]"},
    Foreign{"num_beam_groups", "[1]"},
    Foreign{"penalty_alpha", "[0]"},
    Foreign{"typical_p", "[1]"},
    Foreign{"epsilon_cutoff", "[0]"},
    Foreign{"eta_cutoff", "[0]"},
    Foreign{"top_h", "[]"},
    Foreign{"encoder_repetition_penalty", "[1]"},
    Foreign{"no_repeat_ngram_size", "[0]"},
    Foreign{"encoder_no_repeat_ngram_size", "[0]"},
    Foreign{"guidance_scale", "[1]"},
    Foreign{"bad_words_ids", "[[]]"},
    Foreign{"force_words_ids", "[[]]"},
    Foreign{"constraints", "[[]]"},
    Foreign{"sequence_bias", "[{}, []]"},
    Foreign{"suppress_tokens", "[[]]"},
    Foreign{"begin_suppress_tokens", "[[]]"},
    Foreign{"forced_bos_token_id", "[]"},
    Foreign{"forced_eos_token_id", "[]"},
    Foreign{"exponential_decay_length_penalty", "[]"},
    Foreign{"remove_invalid_values", "[false]"},
    Foreign{"watermarking_config", "[]"},
    Foreign{"stop_strings", "[[]]"},
    Foreign{"min_length", "[0]"},
    Foreign{"min_new_tokens", "[0]"},
    Foreign{"max_length", "[20]"},  // what `transformers` writes when nobody said anything
    Foreign{"max_time", "[]"},
};

bool IsNeutral(const Json& value, const char* neutral) {
  const Json values = Json::parse(neutral);
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::optional<double> NumberIfThere(ConfigReader& reader, const char* key, double min, double max) {
  if (!reader.Has(key)) return std::nullopt;
  return reader.Number(key, min, max);
}

std::optional<std::int64_t> IntIfThere(ConfigReader& reader, const char* key, std::int64_t min,
                                       std::int64_t max) {
  if (!reader.Has(key)) return std::nullopt;
  return reader.Int(key, min, max);
}

}  // namespace

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

Result<GenerationDefaults> ParseGenerationDefaults(const Json& json, std::string_view where) {
  ConfigReader reader(json, std::string(where));
  GenerationDefaults defaults;
  defaults.temperature = NumberIfThere(reader, "temperature", 0, kMaxTemperature);
  defaults.top_k = IntIfThere(reader, "top_k", -1, kMaxTopK);
  defaults.top_p = NumberIfThere(reader, "top_p", std::nextafter(0.0F, 1.0F), 1);
  defaults.min_p = NumberIfThere(reader, "min_p", 0, 1);
  defaults.repetition_penalty =
      NumberIfThere(reader, "repetition_penalty", kMinPenalty, kMaxPenalty);
  defaults.max_new_tokens = IntIfThere(reader, "max_new_tokens", 1, kMaxTopK);
  if (const Json* sample = reader.Find("do_sample")) {
    if (!sample->is_boolean()) {
      reader.Fail(Code::kCorrupt, "do_sample",
                  fmt::format("is {}; must be true or false", JsonText(*sample)));
    } else if (!sample->get<bool>()) {
      defaults.temperature = 0;
    }
  }
  for (const auto& [key, neutral] : kForeign) {
    const Json* value = reader.Find(key);
    if (value != nullptr && !IsNeutral(*value, neutral)) defaults.unsupported.emplace_back(key);
  }
  KV8_RETURN_IF_ERROR(reader.status());
  return defaults;
}

}  // namespace kv8
