// A raw HTTP client and a server in the same process, for tests that break rules.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/http/server.h"

namespace kv8::test {

/// One blocking connection. Reads give up after some seconds, so a server that hangs fails a test
/// instead of stopping it.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { ::close(fd_); }

  bool connected() const { return connected_; }

  void Send(std::string_view bytes) const {
    [[maybe_unused]] const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void FinishSending() const { ::shutdown(fd_, SHUT_WR); }

  /// Reads until `mark` has come (and keeps what follows it), or to the end. What came up to there.
  std::string ReadUntil(std::string_view mark) {
    while (waiting_.find(mark) == std::string::npos && Receive()) {
    }
    const std::size_t at = waiting_.find(mark);
    const std::size_t end = at == std::string::npos ? waiting_.size() : at + mark.size();
    std::string read = waiting_.substr(0, end);
    waiting_.erase(0, end);
    return read;
  }
  std::string ReadBytes(std::size_t count) {
    while (waiting_.size() < count && Receive()) {
    }
    std::string read = waiting_.substr(0, count);
    waiting_.erase(0, read.size());
    return read;
  }
  std::string ReadToEnd() {
    while (Receive()) {
    }
    return std::exchange(waiting_, {});
  }
  /// One answer with a Content-Length, head and body.
  std::string ReadAnswer() {
    std::string head = ReadUntil("\r\n\r\n");
    const std::size_t at = head.find("Content-Length: ");
    if (at == std::string::npos) return head;
    return head + ReadBytes(std::stoul(head.substr(at + 16)));
  }

 private:
  bool Receive() {
    char buffer[4096];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    if (got > 0) waiting_.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  }

  int fd_;
  bool connected_ = false;
  std::string waiting_;
};

/// A server on a free port of this machine, run by a thread.
class RunningServer {
 public:
  explicit RunningServer(HttpServerOptions options = {}) {
    options.port = 0;
    auto made = HttpServer::Create(std::move(options), log_);
    EXPECT_TRUE(made.ok()) << made.error().ToString();
    server_ = std::move(made).value();
  }
  ~RunningServer() {
    server_->Shutdown();
    server_->Shutdown();
    Join();
  }

  Router& router() { return server_->router(); }
  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  std::uint16_t port() const { return server_->port(); }
  void Start() {
    thread_ = std::thread([this] { server_->Run(); });
  }
  /// Waits for Run to return.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  Log log_{LogLevel::kOff, LogFormat::kText};
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace kv8::test
