#include "speed/server_target.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "speed/comparability.h"

namespace kv8 {
namespace {

using Clock = std::chrono::steady_clock;

/// What one stream said.
struct Stream {
  std::string text;
  std::vector<double> event_seconds;  // of events with text
  std::int64_t tokens = 0;
  std::int64_t cached_tokens = 0;
  std::optional<Error> error;
};

/// A count of an answer that is JSON of anyone; 0 where it is none.
std::int64_t CountAt(const Json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::int64_t>() : 0;
}

const Json& At(const Json& object, const char* key) {
  static const Json kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

void TakeEvent(const StreamEvent& event, Clock::time_point begin, Stream& stream) {
  if (const Json& usage = At(event.data, "usage"); usage.is_object()) {
    stream.tokens = CountAt(usage, "completion_tokens");
    stream.cached_tokens = CountAt(At(usage, "prompt_tokens_details"), "cached_tokens");
  }
  const Json& choices = At(event.data, "choices");
  if (!choices.is_array() || choices.empty()) return;
  const Json& text = At(choices.front(), "text");
  if (!text.is_string() || text.get_ref<const std::string&>().empty()) return;
  stream.text += text.get_ref<const std::string&>();
  stream.event_seconds.push_back(std::chrono::duration<double>(event.arrived - begin).count());
}

/// Token k of n came with event k * events / n.
std::vector<double> TokenSeconds(const Stream& stream) {
  std::vector<double> seconds;
  const auto events = static_cast<std::int64_t>(stream.event_seconds.size());
  for (std::int64_t k = 0; k < stream.tokens; ++k) {
    seconds.push_back(stream.event_seconds[static_cast<std::size_t>(k * events / stream.tokens)]);
  }
  return seconds;
}

}  // namespace

Result<std::unique_ptr<ServerTarget>> ServerTarget::Create(
    const std::string& url, std::string model, ClientOptions client, std::string prompts,
    std::shared_ptr<const Tokenizer> tokenizer) {
  auto target = std::unique_ptr<ServerTarget>(
      new ServerTarget(url, std::move(client), std::move(prompts), std::move(tokenizer)));
  KV8_RETURN_IF_ERROR(target->Connect(1));
  target->model_ = std::move(model);
  if (!target->model_.empty()) return target;
  KV8_ASSIGN_OR_RETURN(const Json models, target->connections_.front().GetJson("/v1/models"));
  const Json& data = At(models, "data");
  if (data.is_array() && !data.empty() && At(data.front(), "id").is_string()) {
    target->model_ = At(data.front(), "id").get<std::string>();
    return target;
  }
  return Error{Code::kNotFound, "lists no model", url + "/v1/models",
               "name the model with --served-model-name"};
}

Result<void> ServerTarget::Connect(std::size_t count) {
  while (connections_.size() < count) {
    KV8_ASSIGN_OR_RETURN(HttpClient connection, HttpClient::Create(url_, client_));
    connections_.push_back(std::move(connection));
  }
  return {};
}

Json ServerTarget::BodyOf(const TimedRequest& request) const {
  Json body = {{"model", model_},
               {"prompt", request.prompt},
               {"max_tokens", request.max_tokens},
               {"temperature", 0},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (request.json_schema.empty()) {
    body["ignore_eos"] = true;
    return body;
  }
  body["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "record"}, {"schema", Json::parse(request.json_schema)}}}};
  return body;
}

Result<std::vector<TimedOutput>> ServerTarget::Run(std::span<const TimedRequest> requests,
                                                   const EnoughFn& /*enough*/) {
  KV8_RETURN_IF_ERROR(Connect(requests.size()));
  std::vector<Stream> streams(requests.size());
  std::vector<std::thread> threads;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto take = [&](const StreamEvent& event) {
        TakeEvent(event, begin, streams[i]);
        return true;
      };
      auto done = connections_[i].PostStream("/v1/completions", BodyOf(requests[i]), take);
      if (!done.ok()) streams[i].error = std::move(done).error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<TimedOutput> outputs;
  for (Stream& stream : streams) {
    if (stream.error) return std::move(*stream.error);
    if (stream.tokens == 0 || stream.event_seconds.empty()) {
      return Error{Code::kCorrupt, "streamed no text, or no usage at the end of it",
                   url_ + "/v1/completions", "measure a server that sends both"};
    }
    KV8_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer_->Encode(stream.text));
    outputs.push_back({.ids = std::move(ids),
                       .text = std::move(stream.text),
                       .token_seconds = TokenSeconds(stream),
                       .cached_tokens = stream.cached_tokens});
  }
  return outputs;
}

Json ServerTarget::facts() const {
  return {{kAcceptanceFact, {{"prompts", prompts_}}}, {"server", url_}, {"served_model", model_}};
}

}  // namespace kv8
