#include "engine/request_check.h"

#include <fmt/format.h>

#include <cmath>

namespace kv8 {
namespace {

// More alternatives than any client shows; bounds what an answer can grow to.
constexpr int kMaxLogprobs = 128;

Error Invalid(std::string what, const char* where, std::string remedy) {
  return Error{Code::kInvalidArgument, std::move(what), where, std::move(remedy)};
}

Result<void> CheckRange(double value, double low, double high, const char* field) {
  if (value >= low && value <= high) return {};  // false for NaN
  return Invalid(fmt::format("{} is outside [{}, {}]", value, low, high), field,
                 "use a value in that range");
}

/// Worded as OpenAI's clients expect it. `where` names the field that alone is too long.
Error ExceedsContext(std::int64_t prompt, std::int64_t output, const RequestLimits& limits) {
  const bool prompt_alone = prompt >= limits.max_model_len;
  const bool checkpoint_limit = limits.max_model_len >= limits.checkpoint_len;
  return Error{
      Code::kTooLong,
      fmt::format("This model's maximum context length is {} tokens. However, you requested {} "
                  "tokens ({} in the prompt, {} in the output)",
                  limits.max_model_len,
                  static_cast<std::uint64_t>(prompt) + static_cast<std::uint64_t>(output), prompt,
                  output),
      prompt_alone ? "prompt" : "max_tokens",
      checkpoint_limit ? "shorten the prompt or ask for less: it is the checkpoint's limit"
                       : "shorten the prompt, ask for less or raise --max-model-len"};
}

Result<void> CheckLength(const Request& request, const RequestLimits& limits) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) return Invalid("the prompt has no tokens", "prompt", "send at least one token");
  if (request.max_tokens && *request.max_tokens < 0) {
    return Invalid(fmt::format("{} is negative", *request.max_tokens), "max_tokens",
                   "use 0 or more");
  }
  // Subtracted, not added: max_tokens may be anything.
  const std::int64_t output = request.max_tokens.value_or(1);
  if (output > limits.max_model_len - prompt) {
    return ExceedsContext(prompt, output, limits);
  }
  return {};
}

Result<void> CheckSampling(const SamplingOptions& s, std::int64_t vocab) {
  KV8_RETURN_IF_ERROR(CheckRange(s.temperature, 0, 100, "temperature"));
  KV8_RETURN_IF_ERROR(CheckRange(s.top_k, 0, 1 << 30, "top_k"));
  KV8_RETURN_IF_ERROR(CheckRange(s.top_p, std::nextafter(0.0, 1.0), 1, "top_p"));
  KV8_RETURN_IF_ERROR(CheckRange(s.min_p, 0, 1, "min_p"));
  KV8_RETURN_IF_ERROR(CheckRange(s.repetition_penalty, 0.01, 100, "repetition_penalty"));
  KV8_RETURN_IF_ERROR(CheckRange(s.presence_penalty, -100, 100, "presence_penalty"));
  KV8_RETURN_IF_ERROR(CheckRange(s.frequency_penalty, -100, 100, "frequency_penalty"));
  for (const auto& [token, bias] : s.logit_bias) {
    KV8_RETURN_IF_ERROR(CheckTokenIds({&token, 1}, vocab, "logit_bias"));
    if (!std::isfinite(bias)) {
      return Invalid(fmt::format("the bias of token {} is {}", token, bias), "logit_bias",
                     "use a finite number");
    }
  }
  return {};
}

}  // namespace

Result<void> CheckTokenIds(std::span<const TokenId> ids, std::int64_t vocab, const char* where) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    return Invalid(fmt::format("id {} at index {} is outside [0, {})", ids[i], i, vocab), where,
                   "tokenize with this checkpoint's tokenizer");
  }
  return {};
}

Result<void> CheckRequest(const Request& request, const RequestLimits& limits) {
  KV8_RETURN_IF_ERROR(CheckLength(request, limits));
  KV8_RETURN_IF_ERROR(CheckTokenIds(request.prompt, limits.vocab, "prompt"));
  KV8_RETURN_IF_ERROR(CheckTokenIds(request.stop_ids, limits.vocab, "stop_ids"));
  KV8_RETURN_IF_ERROR(CheckSampling(request.sampling, limits.vocab));
  KV8_RETURN_IF_ERROR(CheckRange(request.choices, 1, limits.max_choices, "choices"));
  KV8_RETURN_IF_ERROR(CheckRange(request.logprobs.value_or(0), 0, kMaxLogprobs, "logprobs"));
  KV8_RETURN_IF_ERROR(
      CheckRange(request.prompt_logprobs.value_or(0), 0, kMaxLogprobs, "prompt_logprobs"));
  KV8_RETURN_IF_ERROR(CheckRange(request.speculative_tokens.value_or(0), 0,
                                 limits.speculative_tokens, "speculative_tokens"));
  for (const std::int64_t point : request.cache_points) {
    KV8_RETURN_IF_ERROR(CheckRange(static_cast<double>(point), 0,
                                   static_cast<double>(request.prompt.size()), "cache_points"));
  }
  if (request.constraint && request.constraint->finished()) {
    return Invalid("it allows no text but the empty one", "constraint", "leave it out");
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) return Invalid("a stop string is empty", "stop", "leave it out");
  }
  return {};
}

}  // namespace kv8
