#include "server/openai/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "base/checked.h"

namespace kv8::openai {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int kMaxStops = 64;
constexpr double kMaxBias = 100;  // OpenAI's limit; it forces or forbids a token already

/// Fields that generation_config.json may speak for; notes where it did.
class DefaultedFields {
 public:
  explicit DefaultedFields(const RequestFields& body) : body_(body) {}

  Result<void> Read(const char* key, const std::optional<double>& otherwise, float& value) {
    KV8_ASSIGN_OR_RETURN(const std::optional<double> given, body_.Number(key));
    if (const auto said = Said(key, given, otherwise)) value = static_cast<float>(*said);
    return {};
  }
  Result<void> Read(const char* key, const std::optional<std::int64_t>& otherwise, int& value) {
    KV8_ASSIGN_OR_RETURN(const auto given, body_.Integer(key, -1, kMaxInt));
    // -1 is how vLLM says "all".
    const auto said = Said(key, given, otherwise);
    if (said) value = static_cast<int>(std::max<std::int64_t>(0, *said));
    return {};
  }

  OrderedJson TakeApplied() { return std::move(applied_); }

 private:
  template <class T>
  std::optional<T> Said(const char* key, std::optional<T> given, std::optional<T> otherwise) {
    if (given || !otherwise) return given;
    applied_[key] = *otherwise;
    return otherwise;
  }

  const RequestFields& body_;
  OrderedJson applied_ = OrderedJson::object();
};

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

Result<OrderedJson> ReadSampling(const RequestFields& body, const GenerationDefaults& defaults,
                                 Request& request) {
  SamplingOptions& sampling = request.sampling;
  sampling.temperature = 1;
  DefaultedFields fields(body);
  KV8_RETURN_IF_ERROR(fields.Read("temperature", defaults.temperature, sampling.temperature));
  KV8_RETURN_IF_ERROR(fields.Read("top_p", defaults.top_p, sampling.top_p));
  KV8_RETURN_IF_ERROR(fields.Read("top_k", defaults.top_k, sampling.top_k));
  KV8_RETURN_IF_ERROR(fields.Read("min_p", defaults.min_p, sampling.min_p));
  KV8_RETURN_IF_ERROR(
      fields.Read("repetition_penalty", defaults.repetition_penalty, sampling.repetition_penalty));
  KV8_RETURN_IF_ERROR(
      fields.Read("presence_penalty", std::optional<double>(), sampling.presence_penalty));
  KV8_RETURN_IF_ERROR(
      fields.Read("frequency_penalty", std::optional<double>(), sampling.frequency_penalty));
  KV8_RETURN_IF_ERROR(ReadSeed(body, sampling.seed));
  KV8_RETURN_IF_ERROR(ReadLogitBias(body, sampling.logit_bias));

  KV8_ASSIGN_OR_RETURN(const auto choices, body.Integer("n", 1, kMaxInt));
  request.choices = static_cast<int>(choices.value_or(1));
  KV8_RETURN_IF_ERROR(ReadStops(body, request.stop));
  KV8_RETURN_IF_ERROR(ReadStopIds(body, request.stop_ids));
  KV8_ASSIGN_OR_RETURN(request.ignore_eos, body.Bool("ignore_eos", false));
  request.text = true;
  return fields.TakeApplied();
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

Error WithBodyField(Error error, const LengthFields& lengths) {
  if (error.where == "prompt") error.where = lengths.prompt;
  if (error.where == "max_tokens") error.where = lengths.max_tokens;
  if (error.where == "choices") error.where = "n";
  if (error.where == "stop_ids") error.where = "stop_token_ids";
  if (error.where == "constraint") error.where = "response_format";
  return error;
}

}  // namespace kv8::openai
