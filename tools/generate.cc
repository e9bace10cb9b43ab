// kv8 generate: continues a prompt, printing the text as it comes.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "engine_flags.h"
#include "grammar/constraints.h"
#include "grammar/json_schema.h"
#include "interrupt.h"
#include "output.h"
#include "plan/memory_json.h"
#include "prompt.h"

namespace kv8 {
namespace {

struct GenerateOptions {
  EngineFlags engine;
  PromptFlags prompt;
  Request request;
  std::optional<std::filesystem::path> json_schema;
  std::optional<std::string> regex;
  bool json = false;
};

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "none";
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"cached_tokens", usage.cached_tokens}};
}

Json TimingsJson(const Timings& timings, double load_seconds) {
  return {{"load_seconds", load_seconds},
          {"queue_seconds", timings.queue_seconds},
          {"prefill_seconds", timings.prefill_seconds},
          {"decode_seconds", timings.decode_seconds},
          {"prefill_tokens_per_second", timings.prefill_tokens_per_second},
          {"decode_tokens_per_second", timings.decode_tokens_per_second}};
}

Json SpeculationJson(const SpeculationStats& stats, int speculative_tokens) {
  return {{"speculative_tokens", speculative_tokens},
          {"steps", stats.steps},
          {"drafted", stats.drafted},
          {"accepted", stats.accepted},
          {"drafted_at", stats.drafted_at},
          {"accepted_at", stats.accepted_at}};
}

std::string Summary(const Completion& completion, const KvCacheInfo& cache) {
  const Timings& timings = completion.timings;
  return fmt::format(
      "{} prompt tokens at {:.0f}/s, {} tokens at {:.0f}/s, {} ({}; {} bytes per token, {})",
      completion.usage.prompt_tokens, timings.prefill_tokens_per_second,
      completion.usage.completion_tokens, timings.decode_tokens_per_second,
      FinishReasonName(completion.choices[0].finish_reason), Name(cache.dtype),
      cache.bytes_per_token, LossText(cache));
}

/// Runs the request; text goes to standard output as it comes unless JSON was asked for.
Result<Completion> Stream(Engine& engine, const GenerateOptions& options, const Request& request) {
  Result<void> written;
  bool line_open = false;
  const auto on_token = [&](const TokenEvent& event) {
    if (!options.json && !event.text.empty()) {
      written = WriteText(event.text);
      line_open = event.text.back() != '\n';
    }
    return written.ok() && !Interrupted() ? TokenReply::kGoOn : TokenReply::kCancel;
  };
  auto completion = engine.Generate(request, on_token);
  if (line_open && written.ok()) written = WriteText("\n");
  KV8_RETURN_IF_ERROR(written);
  return completion;
}

/// What --json-schema or --regex asks for; null without either.
Result<Constraints::Constraint> MakeConstraint(const GenerateOptions& options,
                                               ModelTokenizer& tokenizer) {
  if (!options.json_schema && !options.regex) return Constraints::Constraint();
  KV8_ASSIGN_OR_RETURN(const auto loaded, tokenizer.Get());
  Constraints constraints(*loaded);
  if (options.regex) return constraints.OfRegex(*options.regex);
  KV8_ASSIGN_OR_RETURN(const std::string schema, ReadFile(*options.json_schema, kMaxSchemaBytes));
  return constraints.OfJsonSchema(schema);
}

Result<void> Generate(const GenerateOptions& options) {
  CatchInterrupts();
  Request request = options.request;
  request.text = true;
  ModelTokenizer tokenizer(options.engine.model);
  KV8_ASSIGN_OR_RETURN(request.prompt, ReadPrompt(options.prompt, tokenizer));
  KV8_ASSIGN_OR_RETURN(request.constraint, MakeConstraint(options, tokenizer));

  // With a stated end the cache holds this request and no more.
  std::int64_t length = 0;
  if (request.max_tokens) {
    length = static_cast<std::int64_t>(request.prompt.size()) + *request.max_tokens;
  }
  const auto start = std::chrono::steady_clock::now();
  KV8_ASSIGN_OR_RETURN(const auto loaded, tokenizer.Get());
  KV8_ASSIGN_OR_RETURN(const auto engine, OpenEngine(options.engine, length, loaded));
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - start;

  KV8_ASSIGN_OR_RETURN(const Completion completion, Stream(*engine, options, request));
  const Choice& choice = completion.choices[0];
  if (options.json) {
    KV8_RETURN_IF_ERROR(
        WriteJson({{"prompt_token_ids", request.prompt},
                   {"token_ids", choice.token_ids},
                   {"text", choice.text},
                   {"finish_reason", FinishReasonName(choice.finish_reason)},
                   {"usage", UsageJson(completion.usage)},
                   {"timings", TimingsJson(completion.timings, load.count())},
                   {"speculative",
                    SpeculationJson(completion.speculation, options.engine.speculative_tokens)},
                   {"kv_cache", KvCacheJson(engine->kv_cache())},
                   {"ngram_table", NgramTableJson(engine->statistics().ngram_table)},
                   {"memory", MemoryJson(engine->memory())}}));
  } else {
    Note(Summary(completion, engine->kv_cache()));
  }
  if (choice.finish_reason == FinishReason::kCancelled) return InterruptedError();
  return {};
}

void AddSamplingFlags(CLI::App& app, SamplingOptions& sampling) {
  app.add_option("--temperature", sampling.temperature, "0: always the most likely token")
      ->check(NumberWithin(0, 100))
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Choose among the K most likely tokens; 0: all")
      ->check(WholeNumberWithin(0, INT32_MAX))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p,
                 "Choose among the fewest tokens that have this probability together")
      ->check(Probability())
      ->capture_default_str();
  app.add_option("--seed", sampling.seed, "Seed of the random choices")
      ->check(WholeNumberWithin(0, UINT64_MAX))
      ->capture_default_str();
}

}  // namespace

CommandRun SetUpGenerate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  AddEngineFlags(app, options->engine,
                 "what --max-tokens needs, or without it the checkpoint's limit");
  AddPromptFlags(app, options->prompt);
  app.add_option("--max-tokens", options->request.max_tokens,
                 "Most tokens to generate; default: until the model stops or its context is full")
      ->check(WholeNumberWithin(1, INT32_MAX));
  AddSamplingFlags(app, options->request.sampling);
  app.add_option("--speculative-tokens", options->engine.speculative_tokens,
                 "Tokens that the draft head proposes in each step")
      ->check(WholeNumberWithin(0, 5))
      ->capture_default_str();
  app.add_flag("--ignore-eos", options->request.ignore_eos,
               "Go on after the checkpoint's stop tokens");
  auto* schema = app.add_option("--json-schema", options->json_schema,
                                "File with a JSON schema that the text must satisfy")
                     ->check(NotEmpty());
  app.add_option("--regex", options->regex, "Regular expression that the whole text must match")
      ->excludes(schema);
  AddJsonFlag(app, options->json);
  return [options] { return Generate(*options); };
}

}  // namespace kv8
