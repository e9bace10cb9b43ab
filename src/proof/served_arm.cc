#include "proof/served_arm.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/json_fields.h"
#include "proof/cache_losses.h"

namespace kv8 {
namespace {

const std::string kModels = "/v1/models";
const std::string kCompletions = "/v1/completions";

Error NoPromptLogprobs(const std::string& why) {
  return {Code::kUnsupported, "the server gives no log-probabilities of a prompt: " + why, "", ""};
}

/// The values of `count` tokens behind the first; the tokens that follow were generated.
Result<std::vector<float>> NllOf(const Json& choice, std::size_t count) {
  const Json::json_pointer path("/logprobs/token_logprobs");
  if (!choice.contains(path)) return NoPromptLogprobs("\"token_logprobs\" is missing");
  const Json& values = choice[path];
  if (!values.is_array() || values.size() < count) {
    return NoPromptLogprobs(fmt::format("\"token_logprobs\" has fewer than {} entries", count));
  }
  std::vector<float> nll;
  for (std::size_t i = 1; i < count; ++i) {
    if (!values[i].is_number()) return NoPromptLogprobs(fmt::format("entry {} is no number", i));
    nll.push_back(-values[i].get<float>());
  }
  return nll;
}

}  // namespace

std::vector<NotMeasured> NeverMeasuredOf(const std::string& arm) {
  return {{arm, "divergence", "a server names its likeliest tokens by texts that tokens may share"},
          {arm, "acceptance", "an answer does not say which drafts were accepted"},
          {arm, "clipped", "a server does not say what its cache clipped"},
          {arm, "schedule", "it needs an engine of its own for each schedule"},
          {arm, "attention", "the layers of a server cannot be seen"}};
}

Result<ServedArm> ServedArm::Connect(const ServerSpec& spec) {
  KV8_ASSIGN_OR_RETURN(HttpClient client, HttpClient::Create(spec.url, spec.client));
  if (!spec.model.empty()) return ServedArm(std::move(client), spec.model);
  const std::string where = client.url() + kModels;
  KV8_ASSIGN_OR_RETURN(const Json list, client.GetJson(kModels));
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(list, where, ""));
  KV8_ASSIGN_OR_RETURN(const Json* const models, fields.Array("data"));
  if (models->size() != 1) {
    return Error{Code::kInvalidArgument, fmt::format("lists {} models", models->size()), where,
                 "name one with --server-model or --a-server-model"};
  }
  KV8_ASSIGN_OR_RETURN(const JsonFields card, JsonFields::Of(models->front(), where, "data[0]"));
  KV8_ASSIGN_OR_RETURN(std::string model, card.String("id"));
  return ServedArm(std::move(client), std::move(model));
}

Error ServedArm::Bad(std::string what) const {
  return {Code::kCorrupt, std::move(what), "POST " + client_.url() + kCompletions,
          "see that it is an OpenAI-compatible server"};
}

Result<Json> ServedArm::Complete(Json request) {
  request["model"] = model_;
  request["temperature"] = 0;
  request["repetition_penalty"] = 1;  // a generation_config.json may say otherwise
  KV8_ASSIGN_OR_RETURN(const Json answer, client_.PostJson(kCompletions, request));
  const Json::json_pointer path("/choices/0");
  if (!answer.is_object() || !answer.contains(path) || !answer[path].is_object()) {
    return Bad("the answer has no choice");
  }
  return answer[path];
}

Result<TextScore> ServedArm::ScoreText(const EvaluationItem& item) {
  // One token more, since some servers refuse to generate none.
  KV8_ASSIGN_OR_RETURN(
      const Json choice,
      Complete({{"prompt", item.ids}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 1}}));
  KV8_ASSIGN_OR_RETURN(const std::vector<float> nll, NllOf(choice, item.ids.size()));
  return ScoreOf(nll);
}

Result<ArmScores> ServedArm::MeasureScores(const MeasuredCorpus& corpus) {
  ArmScores scores;
  for (const EvaluationItem& item : corpus.items) {
    if (!item.IsText()) continue;
    auto score = ScoreText(item);
    if (!score.ok()) {
      const Error& error = score.error();
      const bool refused = error.code == Code::kInvalidArgument || error.code == Code::kNotFound;
      if (scores.texts.empty() && refused) return NoPromptLogprobs(error.what);
      if (scores.texts.empty() || error.code != Code::kUnsupported) return error;
      return Bad(error.what);  // it did for other texts
    }
    scores.texts.push_back(std::move(*score));
    if (!corpus.done(item.ids.size())) return StoppedError();
  }
  return scores;
}

Result<ItemOutput> ServedArm::Continue(const EvaluationItem& item, const Tokenizer& tokenizer,
                                       bool* from_text) {
  KV8_ASSIGN_OR_RETURN(const Json choice, Complete({{"prompt", PromptOf(item)},
                                                    {"max_tokens", OutputTokens(item)},
                                                    {"ignore_eos", item.IsText()},
                                                    {"return_token_ids", true}}));
  ItemOutput output;
  std::string text;
  if (const auto ids = choice.find("token_ids"); ids != choice.end() && ids->is_array()) {
    for (const Json& value : *ids) {
      const auto id = AsTokenId(value);
      if (!id) return Bad("\"token_ids\" holds what is no token id");
      output.ids.push_back(*id);
    }
    KV8_ASSIGN_OR_RETURN(text, tokenizer.Decode(output.ids));
  } else if (const auto said = choice.find("text"); said != choice.end() && said->is_string()) {
    *from_text = true;
    text = said->get<std::string>();
    KV8_ASSIGN_OR_RETURN(output.ids, tokenizer.Encode(text));
  } else {
    return Bad("the choice has neither \"token_ids\" nor \"text\"");
  }
  Judge(item, text, output);
  return output;
}

Result<ArmOutputs> ServedArm::MeasureOutputs(const MeasuredCorpus& corpus) {
  ArmOutputs outputs;
  for (const EvaluationItem& item : corpus.items) {
    KV8_ASSIGN_OR_RETURN(ItemOutput output, Continue(item, corpus.tokenizer, &outputs.from_text));
    outputs.items.push_back(std::move(output));
    const auto tokens = PromptOf(item).size() + static_cast<std::size_t>(OutputTokens(item));
    if (!corpus.done(tokens)) return StoppedError();
  }
  return outputs;
}

}  // namespace kv8
