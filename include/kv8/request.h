// What an engine is asked to generate, and what it answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kv8/constraint.h"
#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

/// Names a request inside its engine; never reused.
enum class RequestId : std::uint64_t {};

/// How the next token is chosen from the logits. Defaults are neutral; ties go to the lower id.
/// Order: logit bias, penalties, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  float temperature = 0;         // 0: greedy; the random choice is skipped altogether
  int top_k = 0;                 // keep the k most likely; 0: all
  float top_p = 1;               // keep the smallest set with at least this probability, in (0, 1]
  float min_p = 0;               // keep what has at least this share of the best, in [0, 1]
  float repetition_penalty = 1;  // over prompt and output; > 0
  float presence_penalty = 0;    // over the output
  float frequency_penalty = 0;   // over the output, times the count
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logits
  /// Draws depend on seed, choice and position alone, never on what else runs.
  std::uint64_t seed = 0;
};

/// What a checkpoint's generation_config.json says of how to generate; absent: nothing.
struct GenerationDefaults {
  std::optional<double> temperature;  // 0 for "do_sample": false
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<std::int64_t> max_new_tokens;
  std::vector<std::string> unsupported;  // fields that would change answers and kv8 does not have
};

/// One prompt and what to do with it.
struct Request {
  std::vector<TokenId> prompt;             // at least one id, each in [0, vocab)
  std::optional<std::int64_t> max_tokens;  // absent: up to the context limit
  SamplingOptions sampling;
  int choices = 1;                // independent continuations of the prompt
  bool ignore_eos = false;        // do not stop on the checkpoint's stop ids
  std::vector<TokenId> stop_ids;  // further stop ids
  std::vector<std::string> stop;  // stop strings; need a tokenizer.json in the model directory
  bool text = false;              // decode; implied by `stop`
  /// What the output must look like, at its start; null: anything. Tokens that it forbids are never
  /// chosen, stop ids come only where it is complete, and a choice ends where nothing may follow.
  /// Log-probabilities stay those of the model without it.
  std::shared_ptr<const TokenConstraint> constraint;
  /// Prompt lengths after which other requests may go on differently, such as the end of a system
  /// prompt: hints for the prefix cache.
  std::vector<std::int64_t> cache_points;
  /// Prefix hits come from requests of the same group alone: what one group asked, how long a
  /// prompt takes tells no other.
  std::uint64_t prefix_group = 0;
  std::optional<int> speculative_tokens;  // fewer drafts than the engine's; absent: as many
  std::optional<int> logprobs;            // with each token its log-probability and the N best
  std::optional<int> prompt_logprobs;     // the same for every prompt token but the first
};

/// A token and the natural log of its probability before temperature and filters.
struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

/// Log-probabilities at one position.
struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // best first
};

enum class FinishReason {
  kNone,       // not finished
  kStop,       // a stop id, a stop string or a callback's reply; the stop id is the last token
  kLength,     // max_tokens or the context limit
  kCancelled,  // by Cancel or by a callback's reply
  kError,      // Completion::error says why; no callback announces it
};

/// One token as it comes. Views are valid during the callback only.
struct TokenEvent {
  RequestId request{};
  int choice = 0;
  TokenId token = 0;
  std::string_view text;  // what became printable with this token; never half a character
  const PositionLogprobs* logprobs = nullptr;  // when asked for
  FinishReason finish = FinishReason::kNone;   // set with the choice's last token
};

/// What a callback answers to a token.
enum class TokenReply {
  kGoOn,
  kStop,    // this choice ends with the token, as by a stop string
  kCancel,  // the request ends, all its choices
};

/// Called for every token.
using TokenCallback = std::function<TokenReply(const TokenEvent&)>;

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;  // all choices
  std::int64_t cached_tokens = 0;      // prompt tokens that a prefix hit supplied
};

/// Wall-clock seconds, and rates over them. Prefill counts the tokens that were computed.
struct Timings {
  double queue_seconds = 0;    // from submission to the first row
  double prefill_seconds = 0;  // to the first token
  double decode_seconds = 0;   // from the first token to the last
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;
};

/// How speculation went. Entry i of the vectors is about the (i+1)-th draft of a step.
struct SpeculationStats {
  std::int64_t steps = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
  std::vector<std::int64_t> drafted_at;
  std::vector<std::int64_t> accepted_at;
};

struct Choice {
  std::vector<TokenId> token_ids;
  std::string text;  // when asked for; without the stop string
  FinishReason finish_reason = FinishReason::kNone;
  std::string stop_string;                 // the one that ended it, if one did
  std::vector<PositionLogprobs> logprobs;  // when asked for, one per token
};

/// Everything about a finished request.
struct Completion {
  RequestId id{};
  std::vector<Choice> choices;
  std::vector<PositionLogprobs> prompt_logprobs;  // when asked for, one per position but the first
  Usage usage;
  Timings timings;
  SpeculationStats speculation;
  std::optional<Error> error;  // with FinishReason::kError
};

/// Called once, when a request is complete or cancelled.
using DoneCallback = std::function<void(Completion)>;

}  // namespace kv8
