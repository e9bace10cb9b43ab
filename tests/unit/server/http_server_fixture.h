// A server with some routes, for tests that talk to it byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "unit/server/http_client.h"

namespace kv8::test {

inline constexpr std::string_view kPostEcho =
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
inline constexpr std::string_view kGetHello = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

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
    EXPECT_EQ(got.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    return got.get();
  }
  bool ClosedInTime() {
    return closed_.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  }
  std::string Ask(std::string_view bytes) {
    RawClient client(server_->port());
    client.Send(bytes);
    return client.ReadAnswer();
  }

  std::promise<void> closed_;
  std::promise<std::shared_ptr<Responder>> streams_;
  std::unique_ptr<RunningServer> server_;
};

}  // namespace kv8::test
