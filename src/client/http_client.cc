#include "client/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/connection.h"
#include "client/event_reader.h"
#include "client/response_reader.h"
#include "client/server_message.h"

namespace kv8 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kJsonType = "application/json";
constexpr const char* kEventsType = "text/event-stream";

struct Request {
  const char* method;
  const std::string& path;
  const char* accept;  // type of the answer; nullptr: any
  std::string body;
};

/// Given a part of a good answer's body as it comes. False: no more is wanted.
using BodyFn = std::function<Result<bool>(std::string_view piece, Clock::time_point arrived)>;

/// Whether a Content-Type, whose parameters do not matter, is `wanted`.
bool IsType(std::string_view content_type, std::string_view wanted) {
  const std::string_view type = content_type.substr(0, content_type.find_first_of("; \t"));
  return std::ranges::equal(
      type, wanted, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

}  // namespace

class HttpClient::Impl {
 public:
  Impl(ServerUrl url, ClientOptions options)
      : url_(std::move(url)), options_(std::move(options)), connection_(url_) {}

  /// Sends a request and hands the body of an answer 2xx of the right type on.
  Result<void> Ask(const Request& request, const BodyFn& on_body) {
    auto result = Exchange(request, on_body);
    if (result.ok()) return {};
    connection_.Close();  // what is left of the answer would be taken for the next one's
    return Placed(result.error(), request);
  }

  Result<std::string> AskText(const Request& request) {
    std::string body;
    KV8_RETURN_IF_ERROR(Ask(request, [&](std::string_view piece, Clock::time_point) {
      body += piece;
      return Result<bool>(true);
    }));
    return body;
  }

  Result<Json> AskJson(const Request& request) {
    KV8_ASSIGN_OR_RETURN(const std::string body, AskText(request));
    auto json = ParseJson(body, "");
    if (!json.ok()) return Placed(NotJson(json.error()), request);
    return json;
  }

  Result<void> AskEvents(const Request& request, const StreamEventFn& on_event) {
    EventReader reader;
    bool ended = false;
    KV8_RETURN_IF_ERROR(
        Ask(request, [&](std::string_view piece, Clock::time_point arrived) -> Result<bool> {
          for (const ServerSentEvent& event : reader.Feed(piece)) {
            if (ended) break;
            ended = event.data == "[DONE]";
            if (ended) break;
            KV8_ASSIGN_OR_RETURN(const bool more, HandOn(event, arrived, on_event));
            if (!more) {
              ended = true;
              return false;
            }
          }
          return true;
        }));
    if (ended) return {};
    return Placed(Error{Code::kIo, "the stream ended without [DONE]", "", "look into its log"},
                  request);
  }

  const ServerUrl& url() const { return url_; }

 private:
  static Error NotJson(const Error& error) {
    return {Code::kCorrupt, "the answer is not JSON: " + error.what, "", error.remedy};
  }

  static Result<bool> HandOn(const ServerSentEvent& event, Clock::time_point arrived,
                             const StreamEventFn& on_event) {
    const auto json = ParseJson(event.data, "");
    if (!json.ok()) return NotJson(json.error());
    if (json->is_object() && json->contains("error") && !json->at("error").is_null()) {
      return Error{Code::kIo, "the stream broke off: " + ServerMessage(event.data), "", ""};
    }
    return on_event({.name = event.name, .data = *json, .arrived = arrived});
  }

  Error Placed(Error error, const Request& request) const {
    error.where = fmt::format("{} {}{}", request.method, url_.text, request.path);
    return error;
  }

  std::string Head(const Request& request) const {
    std::string head =
        fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: kv8\r\nAccept: {}\r\n",
                    request.method, url_.base_path, request.path, url_.authority,
                    request.accept == nullptr ? "*/*" : request.accept);
    if (!options_.api_key.empty()) {
      head += fmt::format("Authorization: Bearer {}\r\n", options_.api_key);
    }
    if (!request.body.empty()) {
      head +=
          fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", kJsonType, request.body.size());
    }
    return head + "\r\n";
  }

  Result<void> Exchange(const Request& request, const BodyFn& on_body) {
    const ClientLimits& limits = options_.limits;
    if (!connection_.IsOpen()) KV8_RETURN_IF_ERROR(connection_.Open(limits.connect));
    KV8_RETURN_IF_ERROR(
        connection_.Write(Head(request) + request.body,
                          {.whole = limits.between_bytes, .missed = "did not take the request"}));
    ResponseReader reader(limits.body_bytes);
    std::string waiting;
    KV8_RETURN_IF_ERROR(ReadHead(reader, waiting));
    const bool good = reader.status() / 100 == 2;
    if (good && request.accept != nullptr && !IsType(reader.content_type(), request.accept)) {
      return Error{Code::kCorrupt,
                   fmt::format("the answer is {}, not {}",
                               reader.content_type().empty() ? "of no type" : reader.content_type(),
                               request.accept),
                   "", "see that the URL is that of an OpenAI-compatible server"};
    }
    std::string refusal;
    const BodyFn keep = [&](std::string_view piece, Clock::time_point) {
      refusal += piece;
      return Result<bool>(true);
    };
    KV8_ASSIGN_OR_RETURN(const bool whole, ReadBody(reader, waiting, good ? on_body : keep));
    if (!whole || !reader.keep_alive() || !waiting.empty()) connection_.Close();
    if (good) return {};
    return StatusError(reader.status(), refusal);
  }

  Result<void> ReadHead(ResponseReader& reader, std::string& waiting) {
    const TimeLimit limit{.whole = options_.limits.head, .missed = "began no answer"};
    while (!reader.head_done()) {
      KV8_ASSIGN_OR_RETURN(const std::size_t bytes, connection_.Read(waiting, limit));
      if (bytes == 0) return reader.FeedEnd();
      KV8_RETURN_IF_ERROR(reader.Feed(waiting));
    }
    return {};
  }

  /// False when `on_body` wants no more.
  Result<bool> ReadBody(ResponseReader& reader, std::string& waiting, const BodyFn& on_body) {
    for (Clock::time_point arrived = Clock::now();;) {
      KV8_RETURN_IF_ERROR(reader.Feed(waiting));
      if (const std::string piece = reader.TakeBody(); !piece.empty()) {
        KV8_ASSIGN_OR_RETURN(const bool more, on_body(piece, arrived));
        if (!more) return false;
      }
      if (reader.done()) return true;
      const TimeLimit limit{.whole = options_.limits.between_bytes,
                            .missed = "sent nothing more of its answer"};
      KV8_ASSIGN_OR_RETURN(const std::size_t bytes, connection_.Read(waiting, limit));
      arrived = Clock::now();
      if (bytes > 0) continue;
      KV8_RETURN_IF_ERROR(reader.FeedEnd());
      return true;
    }
  }

  const ServerUrl url_;
  const ClientOptions options_;
  Connection connection_;
};

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpClient> HttpClient::Create(std::string_view url, ClientOptions options) {
  KV8_ASSIGN_OR_RETURN(ServerUrl server, ParseServerUrl(url));
  const auto visible = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::ranges::all_of(options.api_key, visible)) {
    return Error{Code::kInvalidArgument, "has a space or a character that is not ASCII",
                 "API key of " + server.text, "give the key alone"};
  }
  return HttpClient(std::make_unique<Impl>(std::move(server), std::move(options)));
}

Result<Json> HttpClient::GetJson(const std::string& path) {
  return impl_->AskJson({.method = "GET", .path = path, .accept = kJsonType, .body = ""});
}

Result<std::string> HttpClient::GetText(const std::string& path) {
  return impl_->AskText({.method = "GET", .path = path, .accept = nullptr, .body = ""});
}

Result<Json> HttpClient::PostJson(const std::string& path, const Json& body) {
  return impl_->AskJson({.method = "POST", .path = path, .accept = kJsonType, .body = body.dump()});
}

Result<void> HttpClient::PostStream(const std::string& path, const Json& body,
                                    const StreamEventFn& on_event) {
  return impl_->AskEvents(
      {.method = "POST", .path = path, .accept = kEventsType, .body = body.dump()}, on_event);
}

const std::string& HttpClient::url() const {
  return impl_->url().text;
}

}  // namespace kv8
