// The engine on quantised checkpoints: what it costs, and that the schedule does not matter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "base/json.h"
#include "kv8/engine.h"
#include "support/golden.h"
#include "support/make_engine.h"
#include "support/or_throw.h"
#include "support/quantised_checkpoint.h"
#include "support/temp_dir.h"
#include "text/tokenizer.h"

namespace kv8::test {
namespace {

/// At most `tokens` of each of the first `documents` texts of the evaluation corpus.
std::vector<std::vector<TokenId>> Texts(std::size_t documents, std::size_t tokens) {
  const Tokenizer tokenizer = OrThrow(Tokenizer::Load(BundledModel() / "tokenizer.json"));
  std::ifstream corpus(SourceDir() / "examples/corpus/evaluation.jsonl");
  std::vector<std::vector<TokenId>> texts;
  for (std::string line; texts.size() < documents && std::getline(corpus, line);) {
    const Json json = OrThrow(ParseJson(line, "corpus"));
    texts.push_back(OrThrow(tokenizer.Encode(json["text"].get<std::string>())));
    texts.back().resize(std::min(texts.back().size(), tokens));
  }
  return texts;
}

double MeanNll(const std::filesystem::path& model, const std::vector<std::vector<TokenId>>& texts) {
  const auto engine = MakeEngine({.model = model});
  double sum = 0, count = 0;
  for (const std::vector<TokenId>& text : texts) {
    const Score score = OrThrow(engine->ScoreTokens(text, 0));
    sum = std::accumulate(score.nll.begin(), score.nll.end(), sum);
    count += static_cast<double>(score.nll.size());
  }
  return sum / count;
}

std::vector<LayoutOptions> MeasuredLayouts() {
  using enum Layout;
  return {{kModelOptNvfp4},
          {kFp8Blocks, 0, false, DType::kF32},
          {kCompressedInt4, 32, true},
          {kGptq, 32, true, DType::kF16}};
}

/// Packed weights beside the same values in BF16: within 0.3%.
void CompareNll(const std::vector<std::vector<TokenId>>& texts) {
  const TempDir dir;
  int i = 0;
  for (const LayoutOptions& layout : MeasuredLayouts()) {
    QuantisedVariant variant = ExpertsIn(layout);
    variant.fp8_tables = layout.layout != Layout::kCompressedInt4;
    const auto packed = dir / fmt::format("packed{}", i), plain = dir / fmt::format("plain{}", i++);
    WriteQuantisedVariant(packed, variant);
    variant.dequantised = DType::kBF16;
    WriteQuantisedVariant(plain, variant);
    const double got = MeanNll(packed, texts), expected = MeanNll(plain, texts);
    fmt::print("layout {}: NLL {:.5f} packed, {:.5f} dequantised in BF16, {:+.4f}%\n",
               static_cast<int>(layout.layout), got, expected, 100 * (got / expected - 1));
    std::fflush(stdout);
    EXPECT_NEAR(got, expected, 0.003 * expected) << static_cast<int>(layout.layout);
  }
}

TEST(QuantisedModel, CostsWhatItsValuesCost) {
  CompareNll(Texts(3, 300));
}

/// The beginning of every text of the evaluation corpus.
TEST(LongQuantisedModel, CostsWhatItsValuesCostOnEveryText) {
  CompareNll(Texts(SIZE_MAX, 512));
}

TEST(QuantisedModel, TokensDoNotDependOnTheSchedule) {
  const TempDir dir;
  QuantisedVariant variant = ExpertsIn({Layout::kModelOptNvfp4});
  variant.draft = LayoutOptions{Layout::kFp8Blocks};
  variant.quantization_config = Json();
  variant.fp8_tables = true;
  WriteQuantisedVariant(dir / "model", variant);
  const auto texts = Texts(6, 200);
  const auto run = [&](int sequences, std::int64_t chunk, int threads, int drafts) {
    const auto engine = MakeEngine({.model = dir / "model",
                                    .speculative_tokens = drafts,
                                    .max_model_len = 256,
                                    .max_num_seqs = sequences,
                                    .max_num_batched_tokens = chunk,
                                    .threads = threads});
    std::vector<std::vector<TokenId>> tokens(texts.size());
    std::size_t open = texts.size();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Request request;
      request.prompt = texts[i];
      request.max_tokens = 12;
      request.ignore_eos = true;
      OrThrow(engine->Submit(request, nullptr, [&, i](Completion done) {
        tokens[i] = done.choices.front().token_ids;
        --open;
      }));
    }
    while (open > 0) engine->Step();
    return tokens;
  };
  const auto alone = run(1, 512, 1, 0);
  EXPECT_EQ(run(6, 64, 2, 0), alone);
  EXPECT_EQ(run(3, 128, 2, 2), alone);
}

}  // namespace
}  // namespace kv8::test
