#include "server/http/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "unit/server/http_client.h"

namespace kv8 {
namespace {

using test::RawClient;
using test::RunningServer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

constexpr std::string_view kPostEcho =
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
constexpr std::string_view kGetHello = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A server with these routes: /hello answers at once; /echo answers the body; /stream begins a
/// stream and hands it to the test.
class HttpServerTest : public testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    server_ = std::make_unique<RunningServer>(std::move(options));
    Router& router = server_->router();
    router.Add("GET", "/hello", [](const HttpRequest&, const std::shared_ptr<Responder>& answer) {
      answer->Send(200, "text/plain", "hello");
    });
    router.Add("POST", "/echo",
               [](const HttpRequest& request, const std::shared_ptr<Responder>& answer) {
                 answer->Send(200, "text/plain", request.body);
               });
    router.Add("GET", "/throw", [](const HttpRequest&, const std::shared_ptr<Responder>&) {
      throw std::runtime_error("no");
    });
    router.Add("GET", "/exhaust", [](const HttpRequest&, const std::shared_ptr<Responder>&) {
      throw std::bad_alloc();
    });
    router.Add("GET", "/stream", [this](const HttpRequest&, std::shared_ptr<Responder> answer) {
      answer->OnClose([this] { closed_.set_value(); });
      answer->BeginStream(200, "text/event-stream");
      streams_.set_value(std::move(answer));
    });
    server_->Start();
  }
  /// The stream of the one request for /stream.
  std::shared_ptr<Responder> Stream() {
    auto got = streams_.get_future();
    EXPECT_EQ(got.wait_for(20s), std::future_status::ready);
    return got.get();
  }
  bool ClosedInTime() { return closed_.get_future().wait_for(20s) == std::future_status::ready; }
  std::string Ask(std::string_view bytes) {
    RawClient client(server_->port());
    client.Send(bytes);
    return client.ReadAnswer();
  }

  std::promise<void> closed_;
  std::promise<std::shared_ptr<Responder>> streams_;
  std::unique_ptr<RunningServer> server_;
};

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

TEST_F(HttpServerTest, ReadsBodiesInChunks) {
  Start();
  const std::string head = std::string(kPostEcho) + "Transfer-Encoding: chunked\r\n\r\n";
  RawClient client(server_->port());
  client.Send(head + "2;a=b\r\n{\"\r\n0010\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n" +
              std::string(kGetHello));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("\r\n\r\n{\"0123456789abcdef"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hello"));
}

TEST_F(HttpServerTest, RefusesBodiesThatAreNotPlainJson) {
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

TEST_F(HttpServerTest, BodiesHaveACommonLimit) {
  HttpServerOptions options;
  options.limits.body_bytes = 60'000;
  options.limits.all_bodies_bytes = 100'000;
  Start(std::move(options));
  const std::string body(50'000, 'x');
  const std::string head = std::string(kPostEcho) + "Content-Length: 50000\r\n\r\n";
  auto first = std::make_unique<RawClient>(server_->port());
  first->Send(head + body.substr(1));
  RawClient announced(server_->port());  // takes nothing yet
  announced.Send(head);
  EXPECT_THAT(Ask(head + body), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("out_of_memory")));
  EXPECT_THAT(Ask(std::string(kPostEcho) + "Content-Length: 2\r\n\r\n{}"), EndsWith("{}"))
      << "small ones still have room";
  first->Send("x");
  EXPECT_THAT(first->ReadAnswer(), EndsWith(body)) << "the one that came first is served";
  for (int i = 0; i < 5; ++i) {  // what was answered, refused or hung up has given its share back
    RawClient gone(server_->port());
    gone.Send(head + body.substr(1));
  }
  std::string answer;
  for (int i = 0; i < 200 && answer.find("HTTP/1.1 200") != 0; ++i) {
    answer = Ask(head + body);
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_THAT(answer, EndsWith(body));
}

TEST_F(HttpServerTest, OneRequestWithoutMemoryFailsAlone) {
  Start();
  RawClient client(server_->port());
  client.Send("GET /exhaust HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(kGetHello));
  EXPECT_THAT(client.ReadAnswer(), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("out_of_memory")));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("hello"));
}

std::string GetHello(std::string_view headers) {
  return fmt::format("GET /hello HTTP/1.1\r\n{}\r\n", headers);
}

TEST_F(HttpServerTest, WithoutAKeyOnlyTheMachinesOwnNamesAreTaken) {
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

TEST_F(HttpServerTest, WithoutAKeyPagesOfOtherSitesMayNotCall) {
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

TEST_F(HttpServerTest, AKeyIsWorthAnyNameAndOrigin) {
  HttpServerOptions options;
  options.api_keys = {"secret"};
  Start(std::move(options));
  EXPECT_THAT(Ask(GetHello("Host: box.example\r\nOrigin: http://x.example\r\n"
                           "Authorization: Bearer secret\r\n")),
              EndsWith("hello"));
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
