// What is refused from a request's head, and what bodies may be.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "unit/server/http_server_fixture.h"

namespace kv8 {
namespace {

using test::HttpServerTest;
using test::kGetHello;
using test::kPostEcho;
using test::RawClient;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

class HttpAdmissionTest : public HttpServerTest {};

TEST_F(HttpAdmissionTest, ReadsBodiesInChunks) {
  Start();
  const std::string head = std::string(kPostEcho) + "Transfer-Encoding: chunked\r\n\r\n";
  RawClient client(server_->port());
  client.Send(head + "2;a=b\r\n{\"\r\n0010\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n" +
              std::string(kGetHello));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\n{\"0123456789abcdef"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hello"));
}

TEST_F(HttpAdmissionTest, RefusesBodiesThatAreNotPlainJson) {
  Start();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n";
  for (const char* type :
       {"", "Content-Type: text/plain\r\n", "Content-Type: application/jsonx\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=application/json\r\n"}) {
    EXPECT_THAT(Ask(head + type + "\r\n{}"),
                AllOf(StartsWith("HTTP/1.1 415"), HasSubstr("Accept: application/json\r\n")))
        << type;
  }
  for (const char* type : {"application/json", "Application/JSON ; charset=utf-8"}) {
    EXPECT_THAT(Ask(head + "Content-Type: " + type + "\r\n\r\n{}"), EndsWith("{}")) << type;
  }
  for (const char* coding : {"gzip", "br", "deflate", "zstd", "identity, gzip"}) {
    EXPECT_THAT(Ask(std::string(kPostEcho) + "Content-Length: 2\r\nContent-Encoding: " + coding +
                    "\r\n\r\n{}"),
                AllOf(StartsWith("HTTP/1.1 415"), HasSubstr(coding),
                      HasSubstr("Accept-Encoding: identity\r\n")));
  }
  EXPECT_THAT(
      Ask(std::string(kPostEcho) + "Content-Length: 2\r\nContent-Encoding: identity\r\n\r\n{}"),
      EndsWith("{}"));
}

TEST_F(HttpAdmissionTest, BodiesHaveACommonLimit) {
  HttpServerOptions options;
  options.limits.body_bytes = 60'000;
  options.limits.all_bodies_bytes = 99'000;
  Start(std::move(options));
  const std::string body(50'000, 'x');
  const std::string head = std::string(kPostEcho) + "Content-Length: 50000\r\n\r\n";
  auto first = std::make_unique<RawClient>(server_->port());
  first->Send(head + body.substr(1));
  RawClient announced(server_->port());  // takes nothing yet
  announced.Send(head);
  std::string answer;
  const auto ask_until =
      [&](std::string_view status) {  // what another connection sent may come late
        for (int i = 0; i < 500 && !answer.starts_with(status); ++i) {
          answer = Ask(head + body);
          std::this_thread::sleep_for(10ms);
        }
      };
  ask_until("HTTP/1.1 503");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("out_of_memory")));
  EXPECT_THAT(Ask(std::string(kPostEcho) + "Content-Length: 2\r\n\r\n{}"), EndsWith("{}"))
      << "small ones still have room";
  first->Send("x");
  EXPECT_THAT(first->ReadAnswer(), EndsWith(body)) << "the one that came first is served";
  for (int i = 0; i < 5; ++i) {  // what was answered, refused or hung up has given its share back
    RawClient gone(server_->port());
    gone.Send(head + body.substr(1));
  }
  ask_until("HTTP/1.1 200");
  EXPECT_THAT(answer, EndsWith(body));
}

TEST_F(HttpAdmissionTest, OneRequestWithoutMemoryFailsAlone) {
  Start();
  RawClient client(server_->port());
  client.Send("GET /exhaust HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(kGetHello));
  EXPECT_THAT(client.ReadAnswer(), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("out_of_memory")));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hello"));
}

std::string GetHello(std::string_view headers) {
  return fmt::format("GET /hello HTTP/1.1\r\n{}\r\n", headers);
}

TEST_F(HttpAdmissionTest, WithoutAKeyOnlyTheMachinesOwnNamesAreTaken) {
  HttpServerOptions options;
  options.allowed_hosts = {"box.example"};
  Start(std::move(options));
  for (const char* host : {"localhost", "LOCALHOST:8000", "a.localhost.:1", "127.0.0.1:8000",
                           "192.168.1.7", "[::1]:80", "Box.Example:8000"}) {
    EXPECT_THAT(Ask(GetHello(fmt::format("Host: {}\r\n", host))), EndsWith("hello")) << host;
  }
  for (const char* host :
       {"evil.example", "evil.example:8000", "localhost.evil.example", "notlocalhost",
        "x.box.example", "127.0.0.1.evil.example", "[::1", "user@localhost:1@evil.example"}) {
    EXPECT_THAT(Ask(GetHello(fmt::format("Host: {}\r\n", host))), StartsWith("HTTP/1.1 403"))
        << host;
  }
  EXPECT_THAT(Ask("GET http://evil.example/hello HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("host_not_allowed")));
}

TEST_F(HttpAdmissionTest, WithoutAKeyPagesOfOtherSitesMayNotCall) {
  HttpServerOptions options;
  options.cors_origin = "https://friend.example";
  Start(std::move(options));
  const auto ask = [&](std::string_view origin) {
    return Ask(GetHello(fmt::format("Host: localhost:8000\r\nOrigin: {}\r\n", origin)));
  };
  for (const char* good :
       {"http://localhost:8000", "https://LOCALHOST:8000", "https://friend.example"}) {
    EXPECT_THAT(ask(good), EndsWith("hello")) << good;
  }
  for (const char* bad : {"http://evil.example", "null", "http://localhost:3000",
                          "https://friend.example.evil.example", "localhost:8000"}) {
    EXPECT_THAT(ask(bad), AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("origin_not_allowed")))
        << bad;
  }
}

TEST_F(HttpAdmissionTest, AKeyIsWorthAnyNameAndOrigin) {
  HttpServerOptions options;
  options.api_keys = {"secret"};
  Start(std::move(options));
  EXPECT_THAT(Ask(GetHello("Host: box.example\r\nOrigin: http://x.example\r\n"
                           "Authorization: Bearer secret\r\n")),
              EndsWith("hello"));
}

}  // namespace
}  // namespace kv8
