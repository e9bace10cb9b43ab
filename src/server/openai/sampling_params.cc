#include "server/openai/sampling_params.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <random>
#include <utility>

#include "base/checked.h"

namespace kv8::openai {
namespace {

constexpr int kMaxStops = 64;
constexpr double kMaxBias = 100;  // OpenAI's limit; it forces or forbids a token already

/// Features of other servers, by the value that asks for nothing. A request that asks for more must
/// not get an answer as if it had.
struct Unsupported {
  std::string_view field;
  const char* harmless;  // JSON
};
constexpr std::array kUnsupported = {
    Unsupported{"suffix", R"("")"},
    Unsupported{"min_tokens", "0"},
    Unsupported{"use_beam_search", "false"},
    Unsupported{"include_stop_str_in_output", "false"},
    Unsupported{"skip_special_tokens", "true"},
    Unsupported{"prompt_logprobs", "0"},
    Unsupported{"allowed_token_ids", "[]"},
    Unsupported{"bad_words", "[]"},
};

Result<void> RefuseUnsupported(const RequestFields& body) {
  for (const auto& [field, harmless] : kUnsupported) {
    const OrderedJson* value = body.Find(field);
    if (value == nullptr || *value == OrderedJson::parse(harmless)) continue;
    Error error = body.Bad(field, "is not supported", "leave it out");
    error.code = Code::kUnsupported;
    return error;
  }
  return {};
}

Result<void> ReadFloat(const RequestFields& body, std::string_view key, float& value) {
  KV8_ASSIGN_OR_RETURN(const std::optional<double> given, body.Number(key));
  if (given) value = static_cast<float>(*given);
  return {};
}

Result<void> ReadSeed(const RequestFields& body, std::uint64_t& seed) {
  const OrderedJson* value = body.Find("seed");
  if (value == nullptr) {
    thread_local std::mt19937_64 seeds{std::random_device{}()};
    seed = seeds();
  } else if (value->is_number_integer()) {  // signed or not: 64 bits are 64 bits
    seed = value->is_number_unsigned() ? value->get<std::uint64_t>()
                                       : static_cast<std::uint64_t>(value->get<std::int64_t>());
  } else {
    return body.Bad("seed", "must be an integer");
  }
  return {};
}

Result<void> ReadStops(const RequestFields& body, std::vector<std::string>& stops) {
  const OrderedJson* value = body.Find("stop");
  if (value == nullptr) return {};
  if (value->is_string()) {
    stops.push_back(value->get<std::string>());
    return {};
  }
  if (!value->is_array()) return body.Bad("stop", "must be a string or an array of strings");
  if (value->size() > kMaxStops) {
    return body.Bad(
        "stop", fmt::format("has {} strings; at most {} are possible", value->size(), kMaxStops));
  }
  for (const OrderedJson& stop : *value) {
    if (!stop.is_string()) return body.Bad("stop", "must be a string or an array of strings");
    stops.push_back(stop.get<std::string>());
  }
  return {};
}

Result<void> ReadStopIds(const RequestFields& body, std::vector<TokenId>& ids) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson* value, body.Array("stop_token_ids"));
  if (value == nullptr) return {};
  for (const OrderedJson& element : *value) {
    const auto id = TokenIdOf(element);
    if (!id) return body.Bad("stop_token_ids", "must be an array of token ids");
    ids.push_back(*id);
  }
  return {};
}

Result<void> ReadLogitBias(const RequestFields& body,
                           std::vector<std::pair<TokenId, float>>& biases) {
  KV8_ASSIGN_OR_RETURN(const auto fields, body.Object("logit_bias"));
  if (!fields) return {};
  for (const auto& [key, value] : fields->json().items()) {
    TokenId id = 0;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (problem != std::errc() || end != key.data() + key.size()) {
      return fields->Bad(key, "is no token id");
    }
    if (!value.is_number()) return fields->Bad(key, "must be a number");
    const auto bias = value.get<double>();
    if (bias < -kMaxBias || bias > kMaxBias) {
      return fields->Bad(key, fmt::format("is {}; it must be from -100 to 100", bias));
    }
    biases.emplace_back(id, static_cast<float>(bias));
  }
  return {};
}

}  // namespace

Result<void> ReadSampling(const RequestFields& body, Request& request) {
  KV8_RETURN_IF_ERROR(RefuseUnsupported(body));
  SamplingOptions& sampling = request.sampling;
  sampling.temperature = 1;
  KV8_RETURN_IF_ERROR(ReadFloat(body, "temperature", sampling.temperature));
  KV8_RETURN_IF_ERROR(ReadFloat(body, "top_p", sampling.top_p));
  KV8_RETURN_IF_ERROR(ReadFloat(body, "min_p", sampling.min_p));
  KV8_RETURN_IF_ERROR(ReadFloat(body, "repetition_penalty", sampling.repetition_penalty));
  KV8_RETURN_IF_ERROR(ReadFloat(body, "presence_penalty", sampling.presence_penalty));
  KV8_RETURN_IF_ERROR(ReadFloat(body, "frequency_penalty", sampling.frequency_penalty));
  // -1 is how vLLM says "all".
  constexpr int kMax = std::numeric_limits<int>::max();
  KV8_ASSIGN_OR_RETURN(const auto top_k, body.Integer("top_k", -1, kMax));
  sampling.top_k = static_cast<int>(std::max<std::int64_t>(0, top_k.value_or(0)));
  KV8_RETURN_IF_ERROR(ReadSeed(body, sampling.seed));
  KV8_RETURN_IF_ERROR(ReadLogitBias(body, sampling.logit_bias));

  KV8_ASSIGN_OR_RETURN(const auto choices, body.Integer("n", 1, kMax));
  request.choices = static_cast<int>(choices.value_or(1));
  KV8_RETURN_IF_ERROR(ReadStops(body, request.stop));
  KV8_RETURN_IF_ERROR(ReadStopIds(body, request.stop_ids));
  KV8_ASSIGN_OR_RETURN(request.ignore_eos, body.Bool("ignore_eos", false));
  request.text = true;
  return {};
}

Result<StreamParams> ReadStream(const RequestFields& body) {
  StreamParams params;
  KV8_ASSIGN_OR_RETURN(params.stream, body.Bool("stream", false));
  KV8_ASSIGN_OR_RETURN(const auto options, body.Object("stream_options"));
  if (!options) return params;
  if (!params.stream) {
    return body.Bad("stream_options", "is about streams, and \"stream\" is not true");
  }
  KV8_ASSIGN_OR_RETURN(params.include_usage, options->Bool("include_usage", false));
  return params;
}

Error WithBodyField(Error error) {
  if (error.where == "choices") error.where = "n";
  if (error.where == "stop_ids") error.where = "stop_token_ids";
  if (error.where == "constraint") error.where = "response_format";
  return error;
}

}  // namespace kv8::openai
