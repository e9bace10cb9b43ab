#include "text/tokenizer_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/json_rules.h"
#include "text/vocabulary.h"

namespace kv8 {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t kMaxNesting = 64;
constexpr auto kRequired = FieldRule::kRequired;
constexpr auto kOptional = FieldRule::kOptional;

Result<object> ReadRoot(element document, const JsonPlace& place) {
  return ReadFields(document, place,
                    {{"version", kRequired, {R"("1.0")"}},
                     {"truncation", kOptional, {"null"}},
                     {"padding", kOptional, {"null"}},
                     {"added_tokens", kRequired, {}},
                     {"normalizer", kRequired, {R"({"type":"NFC"})"}},
                     {"pre_tokenizer", kRequired, {}},
                     {"post_processor", kOptional, {}},
                     {"decoder", kRequired, {}},
                     {"model", kRequired, {}}});
}

Result<object> ReadModel(element value, const JsonPlace& place) {
  return ReadFields(value, place,
                    {{"type", kRequired, {R"("BPE")"}},
                     {"dropout", kOptional, {"null"}},
                     {"unk_token", kOptional, {"null"}},
                     {"continuing_subword_prefix", kOptional, {"null", R"("")"}},
                     {"end_of_word_suffix", kOptional, {"null", R"("")"}},
                     {"fuse_unk", kOptional, {"false"}},
                     {"byte_fallback", kOptional, {"false"}},
                     {"ignore_merges", kOptional, {"false"}},
                     {"vocab", kRequired, {}},
                     {"merges", kRequired, {}}});
}

/// A ByteLevel decoder or post-processor. There its options change nothing but offsets.
Result<void> CheckByteLevel(element value, const JsonPlace& place) {
  KV8_RETURN_IF_ERROR(ReadFields(value, place,
                                 {{"type", kRequired, {R"("ByteLevel")"}},
                                  {"add_prefix_space", kOptional, {"true", "false"}},
                                  {"trim_offsets", kOptional, {"true", "false"}},
                                  {"use_regex", kOptional, {"true", "false"}}}));
  return {};
}

Result<const SplitRule*> ReadSplit(element value, const JsonPlace& place) {
  KV8_ASSIGN_OR_RETURN(const object split, ReadFields(value, place,
                                                      {{"type", kRequired, {R"("Split")"}},
                                                       {"pattern", kRequired, {}},
                                                       {"behavior", kRequired, {R"("Isolated")"}},
                                                       {"invert", kRequired, {"false"}}}));
  const JsonPlace pattern_place = place.Field("pattern");
  KV8_ASSIGN_OR_RETURN(const object pattern, ReadFields(split["pattern"].value(), pattern_place,
                                                        {{"Regex", kRequired, {}}}));
  const JsonPlace regex_place = pattern_place.Field("Regex");
  KV8_ASSIGN_OR_RETURN(const auto regex,
                       ReadJson<std::string_view>(pattern["Regex"].value(), regex_place));
  const SplitRule* rule = FindSplitRule(regex);
  if (rule != nullptr) return rule;
  return regex_place.Unsupported(
      fmt::format("is \"{}\"; kv8 supports the expressions of Qwen2, Qwen3 and Qwen3.5 only",
                  JsonExcerpt(regex)));
}

/// The pre-tokenizer: a split, then the byte-level alphabet.
Result<const SplitRule*> ReadPreTokenizer(element value, const JsonPlace& place) {
  KV8_ASSIGN_OR_RETURN(const object sequence, ReadFields(value, place,
                                                         {{"type", kRequired, {R"("Sequence")"}},
                                                          {"pretokenizers", kRequired, {}}}));
  const JsonPlace steps_place = place.Field("pretokenizers");
  KV8_ASSIGN_OR_RETURN(const array steps,
                       ReadJson<array>(sequence["pretokenizers"].value(), steps_place));
  if (steps.size() != 2) {
    return steps_place.Unsupported(
        fmt::format("has {} steps; kv8 supports Split, then ByteLevel", steps.size()));
  }
  KV8_ASSIGN_OR_RETURN(const SplitRule* split, ReadSplit(steps.at(0).value(), steps_place.Item(0)));
  KV8_RETURN_IF_ERROR(ReadFields(steps.at(1).value(), steps_place.Item(1),
                                 {{"type", kRequired, {R"("ByteLevel")"}},
                                  {"add_prefix_space", kRequired, {"false"}},
                                  {"trim_offsets", kOptional, {"true", "false"}},
                                  {"use_regex", kRequired, {"false"}}}));
  return split;
}

Result<AddedToken> ReadAddedToken(element value, const JsonPlace& place, Vocabulary& vocabulary) {
  KV8_ASSIGN_OR_RETURN(const object fields,
                       ReadFields(value, place,
                                  {{"id", kRequired, {}},
                                   {"content", kRequired, {}},
                                   {"single_word", kRequired, {"false"}},
                                   {"lstrip", kRequired, {"false"}},
                                   {"rstrip", kRequired, {"false"}},
                                   {"normalized", kRequired, {"false"}},
                                   {"special", kRequired, {"true", "false"}}}));
  KV8_ASSIGN_OR_RETURN(const TokenId id, ReadTokenId(fields["id"].value(), place.Field("id")));
  const JsonPlace content_place = place.Field("content");
  KV8_ASSIGN_OR_RETURN(const auto content,
                       ReadJson<std::string_view>(fields["content"].value(), content_place));
  if (content.size() > kMaxAddedTokenBytes) {
    return content_place.Unsupported(
        fmt::format("has {} bytes; at most {} are supported", content.size(), kMaxAddedTokenBytes));
  }
  KV8_RETURN_IF_ERROR(vocabulary.AddAddedToken(content, id, place));
  return AddedToken{id, std::string(content), fields["special"].get_bool().value()};
}

Result<std::vector<AddedToken>> ReadAddedTokens(element value, const JsonPlace& place,
                                                Vocabulary& vocabulary) {
  KV8_ASSIGN_OR_RETURN(const array items, ReadJson<array>(value, place));
  std::vector<AddedToken> tokens;
  for (const element item : items) {
    KV8_ASSIGN_OR_RETURN(AddedToken token,
                         ReadAddedToken(item, place.Item(tokens.size()), vocabulary));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// The two sides of a merge: ["a", "b"] or "a b".
std::optional<std::pair<std::string_view, std::string_view>> ReadPair(element value) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) {
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) return std::nullopt;
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  array sides;
  std::string_view left;
  std::string_view right;
  if (value.get(sides) != simdjson::SUCCESS || sides.size() != 2) return std::nullopt;
  if (sides.at(0).get(left) != simdjson::SUCCESS) return std::nullopt;
  if (sides.at(1).get(right) != simdjson::SUCCESS) return std::nullopt;
  return std::pair(left, right);
}

Result<std::vector<BpeMerge>> ReadMerges(element value, const JsonPlace& place,
                                         const Vocabulary& vocabulary) {
  KV8_ASSIGN_OR_RETURN(const array items, ReadJson<array>(value, place));
  std::vector<BpeMerge> merges;
  FlatMap<std::size_t> ranks(items.size());
  std::string joined;
  for (const element item : items) {
    const std::size_t rank = merges.size();
    const auto corrupt = [&](const std::string& what) { return place.Item(rank).Corrupt(what); };
    const auto pair = ReadPair(item);
    if (!pair) return corrupt(R"(must be two tokens: ["a", "b"] or "a b")");
    joined.assign(pair->first).append(pair->second);
    const std::string_view names[] = {pair->first, pair->second, joined};
    TokenId ids[3];
    for (int i = 0; i < 3; ++i) {
      const auto id = vocabulary.Find(names[i]);
      if (!id)
        return corrupt(fmt::format("\"{}\" is not in the vocabulary", JsonExcerpt(names[i])));
      ids[i] = *id;
    }
    if (!ranks.Insert(Bpe::PairKey(ids[0], ids[1]), rank)) {
      const std::size_t earlier = *ranks.Find(Bpe::PairKey(ids[0], ids[1]));
      return corrupt(fmt::format("repeats merge {}", earlier));
    }
    merges.push_back({ids[0], ids[1], ids[2]});
  }
  return merges;
}

Result<std::array<TokenId, 256>> FindByteTokens(const Vocabulary& vocabulary,
                                                const JsonPlace& place) {
  std::array<TokenId, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    AppendUtf8(ByteLevelChar(static_cast<std::uint8_t>(byte)), spelling);
    const auto id = vocabulary.Find(spelling);
    if (!id) {
      return place.Unsupported(
          fmt::format("has no token \"{}\" for byte 0x{:02X}; kv8 needs all 256", spelling, byte));
    }
    ids[byte] = *id;
  }
  return ids;
}

Result<TokenizerDefinition> ReadDefinition(element document, const JsonPlace& place) {
  KV8_ASSIGN_OR_RETURN(const object root, ReadRoot(document, place));
  KV8_RETURN_IF_ERROR(CheckByteLevel(root["decoder"].value(), place.Field("decoder")));
  element post_processor;
  if (root["post_processor"].get(post_processor) == simdjson::SUCCESS &&
      !post_processor.is_null()) {
    KV8_RETURN_IF_ERROR(CheckByteLevel(post_processor, place.Field("post_processor")));
  }
  TokenizerDefinition out;
  KV8_ASSIGN_OR_RETURN(
      out.split, ReadPreTokenizer(root["pre_tokenizer"].value(), place.Field("pre_tokenizer")));

  const JsonPlace model_place = place.Field("model");
  KV8_ASSIGN_OR_RETURN(const object model, ReadModel(root["model"].value(), model_place));
  const JsonPlace vocab_place = model_place.Field("vocab");
  Vocabulary vocabulary(place.file);
  KV8_RETURN_IF_ERROR(vocabulary.AddVocab(model["vocab"].value(), vocab_place));
  KV8_ASSIGN_OR_RETURN(out.byte_tokens, FindByteTokens(vocabulary, vocab_place));
  KV8_ASSIGN_OR_RETURN(
      out.merges, ReadMerges(model["merges"].value(), model_place.Field("merges"), vocabulary));
  KV8_ASSIGN_OR_RETURN(out.added_tokens, ReadAddedTokens(root["added_tokens"].value(),
                                                         place.Field("added_tokens"), vocabulary));
  KV8_ASSIGN_OR_RETURN(out.tokens, vocabulary.TokensById());
  return out;
}

}  // namespace

Result<TokenizerDefinition> ParseTokenizerJson(std::string_view text, std::string_view file) {
  const JsonPlace place{file, ""};
  if (text.size() > kMaxTokenizerJsonBytes) {
    return Error{Code::kResourceExhausted,
                 fmt::format("{} bytes; at most {} are read", text.size(), kMaxTokenizerJsonBytes),
                 std::string(file), "use the tokenizer.json of the checkpoint"};
  }
  simdjson::dom::parser parser;
  element document;
  auto error = parser.allocate(text.size(), kMaxNesting);
  if (error == simdjson::SUCCESS) error = parser.parse(text.data(), text.size()).get(document);
  if (error == simdjson::DEPTH_ERROR) {
    return place.Corrupt(fmt::format("nested deeper than {} levels", kMaxNesting));
  }
  if (error != simdjson::SUCCESS) {
    return place.Corrupt(fmt::format("not valid JSON: {}", simdjson::error_message(error)));
  }
  return ReadDefinition(document, place);
}

}  // namespace kv8
