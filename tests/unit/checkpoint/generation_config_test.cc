#include "checkpoint/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseStopIds, ReadsOneOrSeveral) {
  EXPECT_THAT(*ParseStopIds(Json{{"eos_token_id", 7}}, 8, "t"), ElementsAre(7));
  EXPECT_THAT(*ParseStopIds(Json{{"eos_token_id", {5, 0}}}, 8, "t"), ElementsAre(5, 0));
  EXPECT_THAT(*ParseStopIds(Json{{"eos_token_id", nullptr}}, 8, "t"), IsEmpty());
  EXPECT_THAT(*ParseStopIds(Json::object(), 8, "t"), IsEmpty());
}

TEST(ParseStopIds, RefusesWhatIsNoToken) {
  for (const Json& value : {Json(8), Json(-1), Json("x"), Json(1.5), Json{{1, 2}, {3}},
                            Json::object(), Json(std::uint64_t{1} << 63)}) {
    const auto ids = ParseStopIds(Json{{"eos_token_id", value}}, 8, "g.json");
    ASSERT_FALSE(ids.ok()) << value;
    EXPECT_EQ(ids.error().code, Code::kCorrupt);
    EXPECT_THAT(ids.error().where, HasSubstr("g.json: eos_token_id"));
  }
  EXPECT_FALSE(ParseStopIds(Json::array(), 8, "g.json").ok());
}

TEST(ParseGenerationDefaults, ReadsWhatItsPublisherSays) {
  const auto said = ParseGenerationDefaults(
      Json::parse(R"({"do_sample": true, "temperature": 0.7, "top_k": 20, "top_p": 0.95,
          "min_p": 0.1, "repetition_penalty": 1.05, "max_new_tokens": 2048, "typical_p": 1.0,
          "num_beams": 4, "bad_words_ids": [[1]], "suppress_tokens": null, "max_length": 20,
          "transformers_version": "4.57", "pad_token_id": 0})"),
      "t");
  ASSERT_TRUE(said.ok()) << said.error().ToString();
  EXPECT_EQ(said->temperature, 0.7);
  EXPECT_EQ(said->top_k, 20);
  EXPECT_EQ(said->top_p, 0.95);
  EXPECT_EQ(said->min_p, 0.1);
  EXPECT_EQ(said->repetition_penalty, 1.05);
  EXPECT_EQ(said->max_new_tokens, 2048);
  EXPECT_THAT(said->unsupported, ElementsAre("num_beams", "bad_words_ids"));
}

TEST(ParseGenerationDefaults, NothingSaidIsNothing) {
  const auto said = ParseGenerationDefaults(Json{{"temperature", nullptr}}, "t");
  EXPECT_FALSE(said->temperature || said->top_k || said->top_p || said->max_new_tokens);
  EXPECT_THAT(said->unsupported, IsEmpty());
}

TEST(ParseGenerationDefaults, WithoutSamplingIsGreedy) {
  EXPECT_EQ(ParseGenerationDefaults(Json{{"do_sample", false}}, "t")->temperature, 0);
}

TEST(ParseGenerationDefaults, RefusesWhatNoRequestMaySay) {
  const std::vector<std::pair<const char*, Json>> wrong = {
      {"temperature", "x"}, {"temperature", -1},
      {"top_p", 0},         {"top_p", 1.5},
      {"top_k", 1.5},       {"top_k", -2},
      {"min_p", 2},         {"do_sample", "yes"},
      {"min_p", true},      {"repetition_penalty", 0.0},
      {"max_new_tokens", 0}};
  for (const auto& [key, value] : wrong) {
    const auto said = ParseGenerationDefaults(Json{{key, value}}, "g.json");
    ASSERT_FALSE(said.ok()) << key << value;
    EXPECT_EQ(said.error().code, Code::kCorrupt);
    EXPECT_EQ(said.error().where, std::string("g.json: ") + key);
  }
}

}  // namespace
}  // namespace kv8
