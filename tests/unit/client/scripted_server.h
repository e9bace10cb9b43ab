// A server that plays what a test says, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace kv8::test {

/// One accepted connection.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}

  /// The next request, head and body; empty once the client has closed.
  std::string ReadRequest() {
    while (waiting_.find("\r\n\r\n") == std::string::npos) {
      if (!Receive()) return {};
    }
    std::size_t size = waiting_.find("\r\n\r\n") + 4;
    if (const auto at = waiting_.find("Content-Length: "); at < size) {
      size += std::stoul(waiting_.substr(at + 16));
    }
    while (waiting_.size() < size && Receive()) {
    }
    std::string request = waiting_.substr(0, size);
    waiting_.erase(0, size);
    return request;
  }
  /// False when the client is gone.
  bool Send(std::string_view bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

 private:
  bool Receive() {
    char buffer[4096];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    if (got > 0) waiting_.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  }

  int fd_;
  std::string waiting_;
};

/// Plays `script` on each connection, one after the other, and closes it.
class ScriptedServer {
 public:
  using Script = std::function<void(Peer&)>;

  explicit ScriptedServer(Script script, int family = AF_INET)
      : fd_(::socket(family, SOCK_STREAM, 0)), script_(std::move(script)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    auto* const address =
        family == AF_INET ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
    socklen_t size = family == AF_INET ? sizeof v4 : sizeof v6;
    listening_ = ::bind(fd_, address, size) == 0 && ::listen(fd_, 8) == 0;
    ::getsockname(fd_, address, &size);
    port_ = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    thread_ = std::thread([this] { Run(); });
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }

  bool listening() const { return listening_; }
  int connections() const { return connections_; }
  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void Run() {
    for (;;) {
      const int fd = ::accept(fd_, nullptr, nullptr);
      if (fd < 0) return;
      ++connections_;
      const timeval patience{.tv_sec = 20, .tv_usec = 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      Peer peer(fd);
      script_(peer);
      ::close(fd);
    }
  }

  int fd_;
  Script script_;
  bool listening_ = false;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace kv8::test
