// Hostile and unsupported tokenizer.json files: each is refused with its code, file and field.
#include "text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/file.h"
#include "base/json.h"

namespace kv8 {
namespace {

const std::string& BundledText() {
  static const std::string text =
      ReadFile(std::string(KV8_SOURCE_DIR) + "/models/tiny-qwen4exp/tokenizer.json", 1 << 20)
          .value();
  return text;
}

Json BundledJson() {
  return ParseJson(BundledText(), "bundled").value();
}

TEST(TokenizerJson, ReadsTheBundledFile) {
  const auto definition = ParseTokenizerJson(BundledText(), "f");
  ASSERT_TRUE(definition.ok()) << definition.error().ToString();
  EXPECT_EQ(definition->tokens.size(), 6144u);
  EXPECT_EQ(definition->merges.size(), 5875u);
  EXPECT_EQ(definition->added_tokens.size(), 13u);
}

TEST(TokenizerJson, MergesMayBeStrings) {
  Json json = BundledJson();
  for (Json& merge : json["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const auto definition = ParseTokenizerJson(json.dump(), "f");
  ASSERT_TRUE(definition.ok()) << definition.error().ToString();
  EXPECT_EQ(definition->merges.size(), 5875u);
}

TEST(TokenizerJson, AddedTokensMayFollowTheVocabulary) {
  Json json = BundledJson();
  Json token = json["added_tokens"][0];
  token["id"] = 6144;
  token["content"] = "<new>";
  json["added_tokens"].push_back(token);
  const auto definition = ParseTokenizerJson(json.dump(), "f");
  ASSERT_TRUE(definition.ok()) << definition.error().ToString();
  EXPECT_EQ(definition->tokens.back(), "<new>");
}

struct Change {
  const char* name;
  std::function<void(Json&)> apply;
  Code code;
  const char* where;  // after "dir/tokenizer.json: "
  const char* what;   // part of it
};

class TokenizerJsonRefuses : public testing::TestWithParam<Change> {};

TEST_P(TokenizerJsonRefuses, NamingFileAndField) {
  Json json = BundledJson();
  GetParam().apply(json);
  const auto definition = ParseTokenizerJson(json.dump(), "dir/tokenizer.json");
  ASSERT_FALSE(definition.ok());
  const Error& error = definition.error();
  EXPECT_EQ(error.code, GetParam().code) << error.ToString();
  EXPECT_EQ(error.where, std::string("dir/tokenizer.json: ") + GetParam().where);
  EXPECT_NE(error.what.find(GetParam().what), std::string::npos) << error.what;
  EXPECT_NE(error.remedy, "");
}

/// Sets the value at a JSON pointer.
std::function<void(Json&)> Set(const char* pointer, Json value) {
  return [=](Json& json) { json[Json::json_pointer(pointer)] = value; };
}

std::function<void(Json&)> Erase(const char* parent, const char* key) {
  return [=](Json& json) { json[Json::json_pointer(parent)].erase(key); };
}

constexpr Code kCorrupt = Code::kCorrupt;
constexpr Code kUnsupported = Code::kUnsupported;

const Change kStructure[] = {
    {"NotAnObject", [](Json& j) { j["model"] = Json::array(); }, kCorrupt, "model", "an object"},
    {"NoModel", Erase("", "model"), kCorrupt, "model", "missing"},
    {"NoVocab", Erase("/model", "vocab"), kCorrupt, "model.vocab", "missing"},
    {"NoMerges", Erase("/model", "merges"), kCorrupt, "model.merges", "missing"},
    {"NoAddedTokens", Erase("", "added_tokens"), kCorrupt, "added_tokens", "missing"},
    {"NoNormalizer", Erase("", "normalizer"), kCorrupt, "normalizer", "missing"},
    {"NoDecoder", Erase("", "decoder"), kCorrupt, "decoder", "missing"},
    {"NoAddedId", Erase("/added_tokens/2", "id"), kCorrupt, "added_tokens[2].id", "missing"},
    {"Version", Set("/version", "2.0"), kUnsupported, "version", "\"2.0\""},
    {"UnknownField", Set("/extra", 1), kUnsupported, "extra", "not a field"},
    {"UnknownModelField", Set("/model/extra", 1), kUnsupported, "model.extra", "not a field"},
    {"VocabArray", Set("/model/vocab", Json::array()), kCorrupt, "model.vocab", "an object"},
    {"MergesObject", Set("/model/merges", Json::object()), kCorrupt, "model.merges", "an array"},
    {"AddedTokensNull", Set("/added_tokens", nullptr), kCorrupt, "added_tokens", "an array"},
};
INSTANTIATE_TEST_SUITE_P(Structure, TokenizerJsonRefuses, testing::ValuesIn(kStructure),
                         [](const auto& test) { return test.param.name; });

const char kSplit[] = "/pre_tokenizer/pretokenizers/0";
const Change kComponents[] = {
    {"ModelType", Set("/model/type", "WordPiece"), kUnsupported, "model.type", "WordPiece"},
    {"Dropout", Set("/model/dropout", 0.1), kUnsupported, "model.dropout", "0.1"},
    {"UnkToken", Set("/model/unk_token", "<unk>"), kUnsupported, "model.unk_token", "<unk>"},
    {"Prefix", Set("/model/continuing_subword_prefix", "##"), kUnsupported,
     "model.continuing_subword_prefix", "##"},
    {"Suffix", Set("/model/end_of_word_suffix", "</w>"), kUnsupported, "model.end_of_word_suffix",
     "</w>"},
    {"FuseUnk", Set("/model/fuse_unk", true), kUnsupported, "model.fuse_unk", "true"},
    {"ByteFallback", Set("/model/byte_fallback", true), kUnsupported, "model.byte_fallback",
     "true"},
    {"IgnoreMerges", Set("/model/ignore_merges", true), kUnsupported, "model.ignore_merges",
     "true"},
    {"Truncation", Set("/truncation", Json::object()), kUnsupported, "truncation", "null only"},
    {"Padding", Set("/padding", Json::object()), kUnsupported, "padding", "null only"},
    {"NormalizerNull", Set("/normalizer", nullptr), kUnsupported, "normalizer", "null"},
    {"NormalizerNfkc", Set("/normalizer/type", "NFKC"), kUnsupported, "normalizer", "NFKC"},
    {"PreTokenizer", Set("/pre_tokenizer/type", "Metaspace"), kUnsupported, "pre_tokenizer.type",
     "Metaspace"},
    {"OneStep", [](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(1); }, kUnsupported,
     "pre_tokenizer.pretokenizers", "1 steps"},
    {"Behavior", Set("/pre_tokenizer/pretokenizers/0/behavior", "Removed"), kUnsupported,
     "pre_tokenizer.pretokenizers[0].behavior", "Removed"},
    {"Invert", Set("/pre_tokenizer/pretokenizers/0/invert", true), kUnsupported,
     "pre_tokenizer.pretokenizers[0].invert", "true"},
    {"Regex", Set("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+"), kUnsupported,
     "pre_tokenizer.pretokenizers[0].pattern.Regex", "\\w+"},
    {"StringPattern",
     [](Json& j) {
       j[Json::json_pointer(kSplit)]["pattern"] = {{"String", " "}};
     },
     kUnsupported, "pre_tokenizer.pretokenizers[0].pattern.String", "not a field"},
    {"PrefixSpace", Set("/pre_tokenizer/pretokenizers/1/add_prefix_space", true), kUnsupported,
     "pre_tokenizer.pretokenizers[1].add_prefix_space", "true"},
    {"UseRegex", Set("/pre_tokenizer/pretokenizers/1/use_regex", true), kUnsupported,
     "pre_tokenizer.pretokenizers[1].use_regex", "true"},
    {"Decoder", Set("/decoder/type", "Metaspace"), kUnsupported, "decoder.type", "Metaspace"},
    {"PostProcessor", Set("/post_processor", Json{{"type", "BertProcessing"}}), kUnsupported,
     "post_processor.type", "BertProcessing"},
};
INSTANTIATE_TEST_SUITE_P(Components, TokenizerJsonRefuses, testing::ValuesIn(kComponents),
                         [](const auto& test) { return test.param.name; });

const Change kTokens[] = {
    {"HugeId", Set("/model/vocab/the", 1u << 31), kCorrupt, "model.vocab.the", "2147483648"},
    {"IdAbove64Bits", Set("/model/vocab/the", UINT64_MAX), kCorrupt, "model.vocab.the",
     "18446744073709551615"},
    {"NegativeId", Set("/model/vocab/the", -1), kCorrupt, "model.vocab.the", "-1"},
    {"FractionalId", Set("/model/vocab/the", 1.5), kCorrupt, "model.vocab.the", "an integer"},
    {"StringId", Set("/model/vocab/the", "7"), kCorrupt, "model.vocab.the", "an integer"},
    {"IdOutOfRange", Set("/model/vocab/the", 6144), kCorrupt, "model.vocab", "has id 6144"},
    {"DuplicateId", Set("/model/vocab/the", 500), kCorrupt, "model.vocab", "both have id 500"},
    {"EmptyToken", [](Json& j) { j["model"]["vocab"][""] = 6144; }, kCorrupt, "model.vocab.",
     "empty"},
    {"NoByteToken", [](Json& j) { j["model"]["vocab"].erase("a"); }, kUnsupported, "model.vocab",
     "byte 0x61"},
    {"AddedIdDiffers", Set("/added_tokens/1/id", 5), kCorrupt, "added_tokens[1].id", "is 5"},
    {"AddedIdBeyondEnd",
     [](Json& j) {
       j["added_tokens"][1]["id"] = 7000;
       j["added_tokens"][1]["content"] = "<new>";
     },
     kCorrupt, "added_tokens", "has id 7000"},
    {"AddedTwice", [](Json& j) { j["added_tokens"].push_back(j["added_tokens"][3]); }, kCorrupt,
     "added_tokens[13].content", "earlier"},
    {"AddedEmpty", Set("/added_tokens/1/content", ""), kCorrupt, "added_tokens[1].content",
     "empty"},
    {"AddedTooLong", Set("/added_tokens/1/content", std::string(257, 'x')), kUnsupported,
     "added_tokens[1].content", "257 bytes"},
    {"AddedContentNumber", Set("/added_tokens/1/content", 1), kCorrupt, "added_tokens[1].content",
     "a string"},
    {"Lstrip", Set("/added_tokens/1/lstrip", true), kUnsupported, "added_tokens[1].lstrip", "true"},
    {"Rstrip", Set("/added_tokens/1/rstrip", true), kUnsupported, "added_tokens[1].rstrip", "true"},
    {"SingleWord", Set("/added_tokens/1/single_word", true), kUnsupported,
     "added_tokens[1].single_word", "true"},
    {"Normalized", Set("/added_tokens/1/normalized", true), kUnsupported,
     "added_tokens[1].normalized", "true"},
    {"SpecialNumber", Set("/added_tokens/1/special", 1), kUnsupported, "added_tokens[1].special",
     "true or false"},
};
INSTANTIATE_TEST_SUITE_P(Tokens, TokenizerJsonRefuses, testing::ValuesIn(kTokens),
                         [](const auto& test) { return test.param.name; });

const Change kMerges[] = {
    {"UnknownLeft", Set("/model/merges/7", Json{"zzqq", "a"}), kCorrupt, "model.merges[7]",
     "\"zzqq\" is not in the vocabulary"},
    {"UnknownRight", Set("/model/merges/7", Json{"a", "zzqq"}), kCorrupt, "model.merges[7]",
     "\"zzqq\" is not"},
    {"UnknownResult", Set("/model/merges/7", Json{"q", "\u0120"}), kCorrupt, "model.merges[7]",
     "\"q\u0120\" is not"},
    {"OneSide", Set("/model/merges/7", Json{"a"}), kCorrupt, "model.merges[7]", "two tokens"},
    {"ThreeSides", Set("/model/merges/7", Json{"a", "b", "c"}), kCorrupt, "model.merges[7]",
     "two tokens"},
    {"Number", Set("/model/merges/7", 3), kCorrupt, "model.merges[7]", "two tokens"},
    {"Numbers", Set("/model/merges/7", Json{1, 2}), kCorrupt, "model.merges[7]", "two tokens"},
    {"NoSpace", Set("/model/merges/7", "ab"), kCorrupt, "model.merges[7]", "two tokens"},
    {"TwoSpaces", Set("/model/merges/7", "a b c"), kCorrupt, "model.merges[7]", "two tokens"},
    {"Repeated", [](Json& j) { j["model"]["merges"][7] = j["model"]["merges"][3]; }, kCorrupt,
     "model.merges[7]", "repeats merge 3"},
};
INSTANTIATE_TEST_SUITE_P(Merges, TokenizerJsonRefuses, testing::ValuesIn(kMerges),
                         [](const auto& test) { return test.param.name; });

void ExpectNotJson(std::string_view text, std::string_view what) {
  const auto definition = ParseTokenizerJson(text, "dir/tokenizer.json");
  ASSERT_FALSE(definition.ok()) << text.substr(0, 40);
  EXPECT_EQ(definition.error().code, Code::kCorrupt);
  EXPECT_EQ(definition.error().where, "dir/tokenizer.json");
  EXPECT_NE(definition.error().what.find(what), std::string::npos) << definition.error().what;
}

TEST(TokenizerJson, RefusesWhatIsNotJson) {
  for (const std::string_view text : {"", "{", "x", "{} {}", "\xFF", "{\"a\":1e999}"}) {
    ExpectNotJson(text, "not valid JSON");
  }
  ExpectNotJson("[]", "an object");
  ExpectNotJson("1", "an object");
}

TEST(TokenizerJson, RefusesEveryTruncation) {
  for (std::size_t size = 0; size < BundledText().size() - 1; size += 997) {
    ExpectNotJson(std::string_view(BundledText()).substr(0, size), "not valid JSON");
  }
}

TEST(TokenizerJson, NestingIsCapped) {
  ExpectNotJson(std::string(100000, '[') + std::string(100000, ']'),
                "nested deeper than 64 levels");
}

TEST(TokenizerJson, RefusesRepeatedFields) {
  const auto refuse = [](std::string_view from, std::string_view to, std::string_view where) {
    std::string text = BundledText();
    const std::size_t at = text.find(from);
    ASSERT_NE(at, text.npos);
    text.replace(at, from.size(), to);
    const auto definition = ParseTokenizerJson(text, "f");
    ASSERT_FALSE(definition.ok());
    EXPECT_EQ(definition.error().code, Code::kCorrupt);
    EXPECT_EQ(definition.error().where, where);
    EXPECT_EQ(definition.error().what, "is given twice");
  };
  refuse("{", R"({"version": "1.0", )", "f: version");
  refuse(R"("vocab": {)", R"("vocab": {"the": 5, )", "f: model.vocab.the");
}

TEST(TokenizerJson, RefusesALoneSurrogateInAToken) {
  Json json = BundledJson();
  std::string text = json.dump();
  const std::string from = "\"the\":";
  text.replace(text.find(from), from.size(), "\"\\udc00\":");
  const auto definition = ParseTokenizerJson(text, "f");
  ASSERT_FALSE(definition.ok());
  EXPECT_EQ(definition.error().code, Code::kCorrupt);
}

TEST(TokenizerJson, SizeIsCapped) {
  const auto definition = ParseTokenizerJson(std::string(kMaxTokenizerJsonBytes + 1, ' '), "f");
  ASSERT_FALSE(definition.ok());
  EXPECT_EQ(definition.error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace kv8
