// What is measured of one configuration, item by item, so that another can be compared with it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "kv8/engine.h"
#include "kv8/error.h"
#include "proof/evaluation_corpus.h"
#include "text/tokenizer.h"

namespace kv8 {

/// Every so many positions of a text the likeliest tokens are kept, for the KL divergence.
inline constexpr std::int64_t kTopStride = 16;
/// How many of them.
inline constexpr int kTopTokens = 32;

/// A text under teacher forcing.
struct TextScore {
  double nll = 0;               // natural log, sum over tokens
  std::string nll_bits;         // SHA-256 of the cost of every token, FP32: exact comparison
  std::vector<TokenId> argmax;  // one per position; none of a server
  std::vector<std::vector<TokenLogprob>> top;  // of positions 0, kTopStride, ...
};

/// A greedy continuation.
struct ItemOutput {
  std::vector<TokenId> ids;
  bool right = false;       // begins with the item's answer; for a tool: name and arguments
  bool right_tool = false;  // calls the item's tool
  std::int64_t steps = 0;   // of decode
  std::vector<std::int64_t> drafted_at;
  std::vector<std::int64_t> accepted_at;
};

/// What the cache clipped or took for 0, and of how many values a side.
struct CacheLosses {
  std::vector<KvCacheInfo::Layer> layers;
  std::uint64_t tokens = 0;  // that were stored
};

struct ArmScores {
  std::vector<TextScore> texts;  // one per text of the corpus
  CacheLosses losses;
};

struct ArmOutputs {
  std::vector<ItemOutput> items;  // one per item of the corpus
  CacheLosses losses;
  bool from_text = false;  // a server gave texts: ids are what the tokenizer makes of those

  bool Drafted() const;
};

/// Prompts whose output was not that of the same prompt alone, whole and cold.
struct ScheduleResult {
  std::int64_t prompts = 0;
  std::int64_t batched = 0;  // all at once, in chunks of a page
  std::int64_t hit = 0;      // after a prefix hit
  std::int64_t hits = 0;     // prompts that had one
};

Json ToJson(const ArmScores& scores);
Json ToJson(const ArmOutputs& outputs);
Json ToJson(const ScheduleResult& result);
/// Errors: kCorrupt, naming `where` and the key.
Result<ArmScores> ScoresFromJson(const Json& json, const std::string& where);
Result<ArmOutputs> OutputsFromJson(const Json& json, const std::string& where);
Result<ScheduleResult> ScheduleFromJson(const Json& json, const std::string& where);

/// Told the tokens that an item took. False: stop.
using TokensDone = std::function<bool(std::uint64_t tokens)>;

/// The corpus, and who is told.
struct MeasuredCorpus {
  const std::vector<EvaluationItem>& items;
  const Tokenizer& tokenizer;
  TokensDone done;
};

/// Most tokens that are generated for an item: its answer and a little more.
std::int64_t OutputTokens(const EvaluationItem& item);
/// What is continued: a question whole, of a text the first half, at most 1024 tokens.
std::span<const TokenId> PromptOf(const EvaluationItem& item);
/// Compares what was said with the item's answer.
void Judge(const EvaluationItem& item, const std::string& text, ItemOutput& output);
/// A text of which only the cost of each token is known.
TextScore ScoreOf(std::span<const float> nll);
/// Tokens that each measurement runs.
std::uint64_t ScoreTokensOf(const std::vector<EvaluationItem>& items);
std::uint64_t OutputTokensOf(const std::vector<EvaluationItem>& items);

/// Errors of all three: those of the engine; kCancelled.
Result<ArmScores> MeasureScores(Engine& engine, const MeasuredCorpus& corpus);
Result<ArmOutputs> MeasureOutputs(Engine& engine, const MeasuredCorpus& corpus);
/// Runs the shortest prompt of each category on engines of its own, made from `options`.
Result<ScheduleResult> MeasureSchedule(const EngineOptions& options, const MeasuredCorpus& corpus);

}  // namespace kv8
