#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "proof/cache_losses.h"
#include "proof/measurements.h"

namespace kv8 {
namespace {

TextScore Kept(Score score) {
  TextScore text = ScoreOf(score.nll);
  text.argmax = std::move(score.argmax);
  for (std::size_t i = 0; i < score.top_logprobs.size(); i += kTopStride) {
    text.top.push_back(std::move(score.top_logprobs[i]));
  }
  return text;
}

}  // namespace

TextScore ScoreOf(std::span<const float> nll) {
  TextScore text;
  for (const float cost : nll) text.nll += cost;
  Sha256 hash;
  hash.Update(std::as_bytes(nll));
  text.nll_bits = hash.FinishHex();
  return text;
}

std::uint64_t ScoreTokensOf(const std::vector<EvaluationItem>& items) {
  std::uint64_t tokens = 0;
  for (const EvaluationItem& item : items) tokens += item.IsText() ? item.ids.size() : 0;
  return tokens;
}

Result<ArmScores> MeasureScores(Engine& engine, const MeasuredCorpus& corpus) {
  ArmScores scores;
  const LossMeter meter(engine);
  const auto top = static_cast<int>(std::min<std::int64_t>(kTopTokens, engine.model().vocab));
  for (const EvaluationItem& item : corpus.items) {
    if (!item.IsText()) continue;
    KV8_ASSIGN_OR_RETURN(Score score, engine.ScoreTokens(item.ids, top));
    scores.texts.push_back(Kept(std::move(score)));
    scores.losses.tokens += item.ids.size();
    if (!corpus.done(item.ids.size())) return StoppedError();
  }
  scores.losses.layers = meter.Since();
  return scores;
}

}  // namespace kv8
