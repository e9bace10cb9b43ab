#include "server/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "unit/server/http_server_fixture.h"

namespace kv8 {
namespace {

using test::HttpServerTest;
using test::kGetHello;
using test::kPostEcho;
using test::RawClient;
using test::RunningServer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

TEST_F(HttpServerTest, KeepsConnectionsAndAnswersInOrder) {
  Start();
  RawClient client(server_->port());
  std::string pipelined;
  for (int i = 0; i < 50; ++i) {
    pipelined +=
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nContent-Length: 2\r\n\r\n";
    pipelined += std::to_string(10 + i);
  }
  client.Send(pipelined);
  for (int i = 0; i < 50; ++i) EXPECT_THAT(client.ReadAnswer(), EndsWith(std::to_string(10 + i)));
}

TEST_F(HttpServerTest, AnswersWhatWasAskedBeforeTheClientClosedItsHalf) {
  Start();
  RawClient client(server_->port());
  client.Send(std::string(kGetHello) + std::string(kGetHello));
  client.FinishSending();
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hello"));
  EXPECT_THAT(client.ReadToEnd(), EndsWith("hello"));
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  Start();
  RawClient client(server_->port());
  client.Send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.ReadToEnd(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("hello")));
}

TEST_F(HttpServerTest, AnswersHeadOptionsAndUnknowns) {
  Start();
  EXPECT_THAT(Ask("OPTIONS /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 204"), HasSubstr("Allow: GET, HEAD, OPTIONS\r\n")));
  EXPECT_THAT(Ask("GET /no HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("not_found_error")));
  EXPECT_THAT(Ask("DELETE /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD, OPTIONS\r\n")));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  RawClient client(server_->port());
  client.Send("HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(kGetHello));
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(client.ReadAnswer(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AsksForAKeyBeforeTheBody) {
  HttpServerOptions options;
  options.api_keys = {"secret"};
  Start(std::move(options));
  EXPECT_THAT(Ask(kGetHello), AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("invalid_api_key")));
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                  "application/json\r\nContent-Length: 1000000\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("Connection: close\r\n")));
  EXPECT_THAT(Ask("GET /hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"),
              EndsWith("hello"));
  EXPECT_THAT(Ask("OPTIONS /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              StartsWith("HTTP/1.1 204"));
}

TEST_F(HttpServerTest, SaysContinueOnlyToBodiesItWants) {
  Start();
  RawClient client(server_->port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: "
      "100-continue\r\nContent-Length: "
      "2\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hi"));
  EXPECT_THAT(Ask("POST /no HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                  "application/json\r\nExpect: 100-continue\r\nContent-Length: "
                  "2\r\n\r\n"),
              StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpServerTest, ReturnsTheClientsRequestIdOrMakesOne) {
  Start();
  EXPECT_THAT(Ask("GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine-7\r\n\r\n"),
              HasSubstr("X-Request-Id: mine-7\r\n"));
  EXPECT_THAT(Ask(kGetHello), HasSubstr("X-Request-Id: req-"));
}

TEST_F(HttpServerTest, AllowsTheOriginItWasTold) {
  HttpServerOptions options;
  options.cors_origin = "https://a.example";
  Start(std::move(options));
  EXPECT_THAT(Ask(kGetHello), HasSubstr("Access-Control-Allow-Origin: https://a.example\r\n"));
  EXPECT_THAT(Ask("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              HasSubstr("Access-Control-Allow-Methods: POST, OPTIONS\r\n"));
}

TEST_F(HttpServerTest, AHandlerThatThrowsFailsItsRequestAlone) {
  Start();
  RawClient client(server_->port());
  client.Send("GET /throw HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(kGetHello));
  EXPECT_THAT(client.ReadAnswer(), StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hello"));
}

TEST_F(HttpServerTest, StreamsWhatOtherThreadsWrite) {
  Start();
  RawClient client(server_->port());
  client.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  std::thread writer([&stream] {
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(stream->Write("data: x\n\n"));
    stream->End();
  });
  std::string body = client.ReadUntil("0\r\n\r\n");
  writer.join();
  EXPECT_EQ(body.size(), 1000 * std::string("9\r\ndata: x\n\n\r\n").size() + 5);
  client.Send(kGetHello);
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hello"));
}

TEST_F(HttpServerTest, PiecesThatFollowFastComeWithoutAFurtherPush) {
  Start();
  RawClient client(server_->port());
  client.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  for (int round = 0; round < 5; ++round) {  // the first of a round wakes, the others wait
    for (const std::string_view piece : {"one", "two", "three"}) stream->Write(piece);
    EXPECT_THAT(client.ReadUntil("5\r\nthree\r\n"), EndsWith("3\r\ntwo\r\n5\r\nthree\r\n"));
    std::this_thread::sleep_for(10ms);
  }
  stream->End();
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
}

TEST_F(HttpServerTest, HearsTheClientHangUp) {
  Start();
  auto client = std::make_unique<RawClient>(server_->port());
  client->Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  client.reset();
  EXPECT_TRUE(ClosedInTime());
  EXPECT_FALSE(stream->Write("x"));
  EXPECT_EQ((*server_)->statistics().hung_up, 1u);
}

TEST_F(HttpServerTest, CutsOffSlowReadersAndNobodyElse) {
  HttpServerOptions options;
  options.limits.stream_buffer = 64 << 10;
  Start(std::move(options));
  RawClient slow(server_->port(), 4096);
  slow.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  // The kernel's buffers take some megabytes before the server's own fills.
  const std::string piece(16 << 10, 'x');
  bool taken = true;
  for (int i = 0; i < 100'000 && taken; ++i) {
    taken = stream->Write(piece);
    if (i % 4 == 3) {
      EXPECT_THAT(Ask(kGetHello), EndsWith("hello"));
    }
  }
  EXPECT_FALSE(taken);
  EXPECT_TRUE(ClosedInTime());
  EXPECT_EQ((*server_)->statistics().cut_off, 1u);
}

TEST_F(HttpServerTest, ClosesWhatTakesTooLong) {
  HttpServerOptions options;
  options.limits.header_timeout = 200ms;
  options.limits.body_timeout = 200ms;
  options.limits.idle_timeout = 200ms;
  Start(std::move(options));
  EXPECT_EQ(RawClient(server_->port()).ReadToEnd(), "") << "said nothing";
  RawClient half(server_->port());
  half.Send("GET /hello HT");
  EXPECT_THAT(half.ReadToEnd(), StartsWith("HTTP/1.1 408"));
  RawClient body(server_->port());
  body.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "5\r\n\r\nab");
  EXPECT_THAT(body.ReadToEnd(), StartsWith("HTTP/1.1 408"));
  RawClient idle(server_->port());
  idle.Send(kGetHello);
  EXPECT_THAT(idle.ReadToEnd(), EndsWith("hello"));
}

TEST_F(HttpServerTest, CutsOffReadersThatStopAltogether) {
  HttpServerOptions options;
  options.limits.write_timeout = 200ms;
  options.limits.stream_buffer = 1 << 30;
  Start(std::move(options));
  RawClient slow(server_->port(), 4096);
  slow.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  stream->Write(std::string(32 << 20, 'x'));
  EXPECT_TRUE(ClosedInTime());
}

TEST_F(HttpServerTest, RefusesLargeBodiesWithoutReadingThem) {
  HttpServerOptions options;
  options.limits.body_bytes = 1000;
  Start(std::move(options));
  RawClient client(server_->port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "100000\r\n\r\n");
  client.Send(std::string(100'000, 'x'));
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 413"));
}

TEST_F(HttpServerTest, FullHousesDropIdleConnectionsFirst) {
  HttpServerOptions options;
  options.limits.connections = 2;
  Start(std::move(options));
  RawClient busy(server_->port());
  busy.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  RawClient idle(server_->port());
  idle.Send(kGetHello);
  EXPECT_THAT(idle.ReadAnswer(), EndsWith("hello"));
  EXPECT_THAT(Ask(kGetHello), EndsWith("hello"));
  EXPECT_EQ(idle.ReadToEnd(), "");
  stream->Write("x");
  stream->End();
  EXPECT_THAT(busy.ReadUntil("0\r\n\r\n"), EndsWith("1\r\nx\r\n0\r\n\r\n"));
}

TEST_F(HttpServerTest, ShutdownFinishesStreams) {
  Start();
  RawClient idle(server_->port());
  idle.Send(kGetHello);
  EXPECT_THAT(idle.ReadAnswer(), EndsWith("hello"));
  RawClient client(server_->port());
  client.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  (*server_)->Shutdown();
  EXPECT_EQ(idle.ReadToEnd(), "");
  EXPECT_FALSE(RawClient(server_->port()).connected());
  EXPECT_TRUE(stream->Write("last"));
  stream->End();
  EXPECT_THAT(client.ReadToEnd(), EndsWith("4\r\nlast\r\n0\r\n\r\n"));
  server_->Join();
}

TEST_F(HttpServerTest, ShutdownCutsOffWhatDoesNotFinish) {
  HttpServerOptions options;
  options.limits.shutdown_timeout = 200ms;
  Start(std::move(options));
  RawClient client(server_->port());
  client.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  (*server_)->Shutdown();
  EXPECT_TRUE(ClosedInTime());
  server_->Join();
  EXPECT_FALSE(stream->Write("x"));
}

TEST_F(HttpServerTest, AnswersMayComeAfterTheServerHasGone) {
  Start();
  RawClient client(server_->port());
  client.Send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto stream = Stream();
  server_.reset();
  EXPECT_FALSE(stream->Write("x"));
  stream->End();
}

TEST_F(HttpServerTest, ManyClientsAtOnce) {
  Start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 25; ++i) EXPECT_THAT(Ask(kGetHello), EndsWith("hello"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*server_)->statistics().requests, 200u);
}

Error CreateError(HttpServerOptions options) {
  Log log(LogLevel::kOff, LogFormat::kText);
  auto made = HttpServer::Create(std::move(options), log);
  EXPECT_FALSE(made.ok());
  return made.ok() ? Error{} : made.error();
}

TEST(HttpServer, RefusesToShowItselfWithoutAKey) {
  HttpServerOptions options;
  options.port = 0;
  options.host = "0.0.0.0";
  EXPECT_EQ(CreateError(options).code, Code::kInvalidArgument);
  EXPECT_THAT(CreateError(options).remedy, HasSubstr("--insecure"));
  Log log(LogLevel::kOff, LogFormat::kText);
  options.insecure = true;
  EXPECT_TRUE(HttpServer::Create(options, log).ok());
  options.insecure = false;
  options.api_keys = {"k"};
  EXPECT_TRUE(HttpServer::Create(options, log).ok());
}

TEST(HttpServer, NamesWhatItCannotUse) {
  RunningServer taken;
  HttpServerOptions options;
  options.port = taken.port();
  EXPECT_EQ(CreateError(options).code, Code::kIo);
  options.port = 0;
  options.host = "no.such.host.invalid";
  EXPECT_EQ(CreateError(options).code, Code::kIo);
  options.host = "127.0.0.1";
  options.tls_key = "key.pem";
  EXPECT_EQ(CreateError(options).code, Code::kInvalidArgument);
  options.allowed_hosts = {"http://a"};
  EXPECT_THAT(CreateError(options).where, HasSubstr("--allowed-host"));
  options.allowed_hosts = {};
  options.limits.all_bodies_bytes = options.limits.body_bytes - 1;
  EXPECT_THAT(CreateError(options).where, HasSubstr("--max-all-bodies-bytes"));
  options.limits = {};
  options.tls_certificate = "no/such/cert.pem";
  EXPECT_THAT(CreateError(options).where, HasSubstr("cert.pem"));
}

}  // namespace
}  // namespace kv8
