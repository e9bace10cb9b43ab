// A model with more ids than the tokenizer has tokens never writes one that has none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "support/golden.h"
#include "support/make_engine.h"
#include "support/temp_dir.h"
#include "support/test_device.h"

namespace kv8::test {
namespace {

/// The bundled model, its tokenizer cut to the first `tokens`.
void WritePadded(const std::filesystem::path& dir, TokenId tokens) {
  for (const auto& entry : std::filesystem::directory_iterator(BundledModel())) {
    const auto name = entry.path().filename();
    if (name == "tokenizer.json") continue;
    std::filesystem::create_symlink(std::filesystem::absolute(entry.path()), dir / name);
  }
  Json json = ReadJsonFile(BundledModel() / "tokenizer.json", 64 << 20).value();
  Json& model = json["model"];
  Json vocab = Json::object();
  for (const auto& [text, id] : model["vocab"].items()) {
    if (id < tokens) vocab[text] = id;
  }
  Json merges = Json::array();
  for (const Json& merge : model["merges"]) {
    std::string text = merge.is_string()
                           ? merge.get<std::string>()
                           : merge[0].get<std::string>() + merge[1].get<std::string>();
    std::erase(text, ' ');
    if (vocab.contains(text)) merges.push_back(merge);
  }
  model["vocab"] = std::move(vocab);
  model["merges"] = std::move(merges);
  std::ofstream(dir / "tokenizer.json") << json.dump();
}

std::unique_ptr<Engine> Open(const std::filesystem::path& dir, int drafts) {
  EngineOptions options;
  options.model = dir;
  options.device = TestDevice();
  options.max_model_len = 256;
  options.threads = 1;
  options.speculative_tokens = drafts;
  options.draft_sampling = DraftSampling::kGreedy;
  return MakeEngine(options);
}

Request Prompt(float temperature) {
  Request request;
  const auto ids = Golden("edge_65").Ints("input_ids");
  request.prompt.assign(ids.begin(), ids.end());
  request.max_tokens = 32;
  request.ignore_eos = true;
  request.sampling.temperature = temperature;
  request.sampling.seed = 7;
  return request;
}

class PaddedVocabulary : public testing::TestWithParam<std::tuple<float, int>> {};

TEST_P(PaddedVocabulary, Api9_IdsWithoutATokenAreNeverChosen) {
  const auto [temperature, drafts] = GetParam();
  Request request = Prompt(temperature);
  const auto whole = Open(BundledModel(), drafts);
  const std::vector<TokenId> free = whole->Generate(request).value().choices[0].token_ids;
  const TokenId tokens = *std::max_element(free.begin(), free.end());  // the first without one

  const TempDir dir;
  WritePadded(dir.path(), tokens);
  const auto padded = Open(dir.path(), drafts);
  ASSERT_EQ(padded->model().vocab, whole->model().vocab);
  const std::vector<TokenId> chosen = padded->Generate(request).value().choices[0].token_ids;
  EXPECT_LT(*std::max_element(chosen.begin(), chosen.end()), tokens);
  // The others keep their places: it is as if those ids were out of reach.
  for (TokenId id = tokens; id < whole->model().vocab; ++id) {
    request.sampling.logit_bias.emplace_back(id, -1000.0F);
  }
  EXPECT_EQ(chosen, whole->Generate(request).value().choices[0].token_ids);

  // No bias brings them back.
  request.sampling.logit_bias = {{tokens, 1000.0F}};
  const auto forced = padded->Generate(request).value().choices[0].token_ids;
  EXPECT_LT(*std::max_element(forced.begin(), forced.end()), tokens);
}

INSTANTIATE_TEST_SUITE_P(Ways, PaddedVocabulary,
                         testing::Combine(testing::Values(0.0F, 1.0F), testing::Values(0, 2)));

}  // namespace
}  // namespace kv8::test
