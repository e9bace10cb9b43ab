// The client before servers that answer rightly, and before all kinds of others.
#include "client/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "unit/client/scripted_server.h"

namespace kv8 {
namespace {

using test::Peer;
using test::ScriptedServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace std::chrono_literals;

constexpr const char* kEventsHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string Sized(const std::string& body, const char* status = "200 OK",
                  const char* type = "application/json") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", status,
                     type, body.size(), body);
}

std::string Chunk(const std::string& bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

ScriptedServer::Script Answers(std::string bytes) {
  return [bytes = std::move(bytes)](Peer& peer) {
    while (!peer.ReadRequest().empty()) peer.Send(bytes);
  };
}
ScriptedServer::Script AnswersOnce(std::string bytes) {
  return [bytes = std::move(bytes)](Peer& peer) {
    peer.ReadRequest();
    peer.Send(bytes);
  };
}

HttpClient ClientOf(const std::string& url, ClientOptions options = {}) {
  auto client = HttpClient::Create(url, std::move(options));
  EXPECT_TRUE(client.ok()) << client.error().ToString();
  return std::move(client).value();
}

ClientOptions Hasty() {
  return {.api_key = "", .limits = {.connect = 200ms, .head = 200ms, .between_bytes = 200ms}};
}

/// What a client says of a server that plays `script`.
Error Failure(const ScriptedServer::Script& script, const ClientOptions& options = {}) {
  const ScriptedServer server(script);
  auto answer = ClientOf(server.url(), options).PostJson("/v1/completions", {{"a", 1}});
  if (answer.ok()) return {Code::kIo, "no failure", "", ""};
  EXPECT_EQ(answer.error().where, "POST " + server.url() + "/v1/completions");
  return answer.error();
}

/// The data of the events that come, and what ends them.
std::pair<std::vector<std::string>, std::string> Stream(const ScriptedServer::Script& script,
                                                        const ClientOptions& options = {}) {
  const ScriptedServer server(script);
  std::vector<std::string> events;
  const auto done = ClientOf(server.url(), options)
                        .PostStream("/v1/completions", Json::object(), [&](const StreamEvent& e) {
                          events.push_back(e.name + e.data.dump());
                          return true;
                        });
  return {events, done.ok() ? "" : done.error().ToString()};
}

TEST(HttpClientTest, KeepsOneConnectionForRequestsOfAllKinds) {
  std::vector<std::string> requests;
  const ScriptedServer server([&](Peer& peer) {
    for (std::string r = peer.ReadRequest(); !r.empty(); r = peer.ReadRequest()) {
      requests.push_back(r);
      peer.Send(r.starts_with("GET /base/metrics") ? Sized("up 1\n", "200 OK", "text/plain")
                                                   : Sized(R"({"b": 2})"));
    }
  });
  HttpClient client = ClientOf(server.url() + "/base/v1", {.api_key = "secret", .limits = {}});
  const auto posted = client.PostJson("/v1/completions", {{"a", 1}});
  ASSERT_TRUE(posted.ok()) << posted.error().ToString();
  EXPECT_EQ(*posted, Json({{"b", 2}}));
  EXPECT_EQ(*client.GetText("/metrics"), "up 1\n");
  EXPECT_EQ(client.GetJson("/v1/models")->at("b"), 2);
  EXPECT_EQ(server.connections(), 1);
  ASSERT_EQ(requests.size(), 3);
  EXPECT_THAT(requests[0],
              AllOf(StartsWith("POST /base/v1/completions HTTP/1.1\r\n"),
                    HasSubstr(fmt::format("Host: 127.0.0.1:{}\r\n", server.port())),
                    HasSubstr("Authorization: Bearer secret\r\n"), HasSubstr("\r\n\r\n{\"a\":1}")));
  EXPECT_THAT(requests[1], Not(HasSubstr("Content-")));
}

TEST(HttpClientTest, ConnectsAnewWhenTheServerClosed) {
  const ScriptedServer server(AnswersOnce(Sized("{}")));
  HttpClient client = ClientOf(server.url());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.GetJson("/v1/models").ok());
    std::this_thread::sleep_for(20ms);  // the end must be seen
  }
  EXPECT_EQ(server.connections(), 3);
}

TEST(HttpClientTest, SpeaksToIPv6) {
  const ScriptedServer server(Answers(Sized("{}")), AF_INET6);
  if (!server.listening()) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_TRUE(
      ClientOf(fmt::format("http://[::1]:{}/v1", server.port())).GetJson("/v1/models").ok());
}

TEST(HttpClientTest, HandsEventsOnAsTheyCome) {
  const ScriptedServer server([](Peer& peer) {
    while (!peer.ReadRequest().empty()) {
      peer.Send(kEventsHead + Chunk("data: 1\n\nda"));
      std::this_thread::sleep_for(100ms);
      peer.Send(Chunk("ta: {\"b\": 2}\n\nevent: e\ndata: 3\n\ndata: [DONE]\n\n") + "0\r\n\r\n");
    }
  });
  HttpClient client = ClientOf(server.url());
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> events;
    std::vector<std::chrono::steady_clock::time_point> times;
    const auto done = client.PostStream("/v1/x", Json::object(), [&](const StreamEvent& event) {
      events.push_back(event.name + event.data.dump());
      times.push_back(event.arrived);
      return true;
    });
    ASSERT_TRUE(done.ok()) << done.error().ToString();
    EXPECT_EQ(events, (std::vector<std::string>{"1", "{\"b\":2}", "e3"}));
    EXPECT_GE(times[1] - times[0], 80ms);
    EXPECT_EQ(times[1], times[2]);
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClientTest, StopsAStreamThatIsNotWanted) {
  const ScriptedServer server([](Peer& peer) {
    peer.ReadRequest();
    peer.Send(kEventsHead);
    while (peer.Send(Chunk("data: 1\n\n"))) {  // without an end
    }
  });
  HttpClient client = ClientOf(server.url());
  for (int i = 0; i < 2; ++i) {
    int events = 0;
    EXPECT_TRUE(
        client.PostStream("/v1/x", Json::object(), [&](const StreamEvent&) { return ++events < 3; })
            .ok());
    EXPECT_EQ(events, 3);
  }
}

TEST(HttpClientTest, NamesWhatIsWrongWithAStream) {
  const auto part = Chunk("data: 1\n\n");
  EXPECT_THAT(Stream(AnswersOnce(kEventsHead + part)).second, HasSubstr("in the middle"));
  EXPECT_THAT(Stream(AnswersOnce(kEventsHead + part + "0\r\n\r\n")).second,
              HasSubstr("without [DONE]"));
  EXPECT_THAT(Stream(AnswersOnce(kEventsHead + Chunk("data: {x\n\n"))).second,
              HasSubstr("not JSON"));
  EXPECT_THAT(Stream(AnswersOnce(Sized("{}"))).second,
              AllOf(HasSubstr("application/json"), HasSubstr("text/event-stream")));
  const auto broken = Stream(AnswersOnce(
      kEventsHead + part + Chunk("data: {\"error\": {\"message\": \"no memory\"}}\n\n")));
  EXPECT_THAT(broken.first, testing::ElementsAre("1"));
  EXPECT_THAT(broken.second, AllOf(HasSubstr("/v1/completions"), HasSubstr("no memory")));
  const auto slow = [&](Peer& peer) {
    peer.ReadRequest();
    peer.Send(kEventsHead + part);
    peer.ReadRequest();  // until the client gives up
  };
  EXPECT_THAT(Stream(slow, Hasty()).second,
              HasSubstr("sent nothing more of its answer within 0.2 s"));
  const auto endless = [](Peer& peer) {
    peer.ReadRequest();
    peer.Send(kEventsHead);
    while (peer.Send(Chunk("data: " + std::string(1000, 'x')))) {
    }
  };
  EXPECT_THAT(Stream(endless, {.api_key = "", .limits = {.body_bytes = 100'000}}).second,
              HasSubstr("more than 100000 bytes"));
}

TEST(HttpClientTest, NamesWhatIsWrongWithAnAnswer) {
  EXPECT_THAT(Failure(AnswersOnce("")).what, HasSubstr("without an answer"));
  EXPECT_THAT(Failure(AnswersOnce("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                  "Content-Length: 9\r\n\r\n{"))
                  .what,
              HasSubstr("in the middle"));
  EXPECT_THAT(Failure(AnswersOnce("220 mail.example\r\n\r\n")).what, HasSubstr("not HTTP"));
  EXPECT_THAT(Failure(AnswersOnce(Sized("{"))).what, HasSubstr("not JSON"));
  EXPECT_THAT(Failure(AnswersOnce(Sized("<p>", "200 OK", "text/html; charset=utf-8"))).what,
              AllOf(HasSubstr("text/html"), HasSubstr("application/json")));
  EXPECT_THAT(Failure(AnswersOnce("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")).what,
              HasSubstr("no type"));
  EXPECT_THAT(Failure(AnswersOnce(Sized("{}", "200 OK", "Application/JSON; charset=utf-8"))).what,
              "no failure");
}

TEST(HttpClientTest, NamesStatusAndMessage) {
  const auto refused = Failure(AnswersOnce(
      Sized(R"({"error": {"message": "no such\nmodel \u001b[31m", "code": 1}})", "404 Not Found")));
  EXPECT_EQ(refused.code, Code::kNotFound);
  EXPECT_EQ(refused.what, "the server answered 404: no such model  [31m");
  EXPECT_EQ(Failure(AnswersOnce(Sized(R"({"detail": "x"})", "400 No"))).code,
            Code::kInvalidArgument);
  EXPECT_THAT(Failure(AnswersOnce(Sized("<h1>Bad", "502 Bad", "text/html"))).what,
              HasSubstr("502: <h1>Bad"));
  EXPECT_EQ(Failure(AnswersOnce(Sized("", "429 Slow"))).code, Code::kIo);
  EXPECT_THAT(Failure(AnswersOnce(Sized("", "301 Moved"))).remedy, HasSubstr("redirected"));
  EXPECT_LT(Failure(AnswersOnce(Sized(std::string(5000, 'x'), "500 No"))).what.size(), 400);
}

TEST(HttpClientTest, DoesNotWaitForever) {
  const auto silent = [](Peer& peer) {
    while (!peer.ReadRequest().empty()) {
    }
  };
  EXPECT_THAT(Failure(silent, Hasty()).what, HasSubstr("began no answer within 0.2 s"));
  const auto dripping = [](Peer& peer) {  // each byte in time, the head not
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\nX: ");
    while (peer.Send("x")) std::this_thread::sleep_for(20ms);
  };
  EXPECT_THAT(Failure(dripping, Hasty()).what, HasSubstr("began no answer within 0.2 s"));
}

TEST(HttpClientTest, NamesServersThatAreNotThere) {
  int port = 0;
  {
    const ScriptedServer gone([](Peer&) {});
    port = gone.port();
  }
  const auto refused = ClientOf(fmt::format("http://127.0.0.1:{}", port)).GetJson("/v1/models");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().what, "the connection was refused");
  EXPECT_EQ(refused.error().where, fmt::format("GET http://127.0.0.1:{}/v1/models", port));
  const auto unknown = ClientOf("http://kv8.invalid", Hasty()).GetJson("/v1/models");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().where, "GET http://kv8.invalid/v1/models");
}

TEST(HttpClientTest, TellsAServerThatSpeaksNoTls) {
  const ScriptedServer server(AnswersOnce(Sized("{}", "400 Bad")));
  const auto answer =
      ClientOf(fmt::format("https://127.0.0.1:{}", server.port()), Hasty()).GetJson("/v1/models");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kIo);
}

TEST(HttpClientTest, RefusesKeysThatAreNoHeader) {
  const auto client = HttpClient::Create("http://a", {.api_key = "a\r\nX: y", .limits = {}});
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().ToString(), Not(HasSubstr("X: y")));
}

}  // namespace
}  // namespace kv8
