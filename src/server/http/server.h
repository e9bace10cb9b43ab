// The HTTP/1.1 server: one I/O thread, which calls the router's handlers.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "server/http/limits.h"
#include "server/http/log.h"
#include "server/http/router.h"

namespace kv8 {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // address or name
  std::uint16_t port = 8000;       // 0: a free one
  std::vector<std::string> api_keys;
  bool insecure = false;                   // without a key on an address that others reach
  std::vector<std::string> allowed_hosts;  // names that requests may use beside this machine's
  std::filesystem::path tls_certificate;   // PEM, the chain; empty: plain HTTP
  std::filesystem::path tls_key;           // PEM
  std::string cors_origin;  // whose web pages may call, as Access-Control-Allow-Origin; empty: none
  ServerLimits limits;
};

/// Counters of the transport; read from any thread.
struct HttpStatistics {
  std::atomic<std::uint64_t> connections{0};       // accepted so far
  std::atomic<std::uint64_t> connections_open{0};  // now
  std::atomic<std::uint64_t> requests{0};          // parsed or refused
  std::atomic<std::uint64_t> refused{0};           // answered 4xx before a handler saw them
  std::atomic<std::uint64_t> hung_up{0};           // clients that went before their answer was out
  std::atomic<std::uint64_t> cut_off{0};           // clients too slow, in sending or in reading
};

class HttpServer {
 public:
  /// Binds and listens; nothing is answered before Run. `log` outlives the server.
  /// Errors: kInvalidArgument for an address that others reach without a key, keys that no header
  /// can hold, what is no host name, a body limit above that of all bodies, half a TLS pair; kIo
  /// for an address that cannot be bound; kCorrupt for PEM files.
  static Result<std::unique_ptr<HttpServer>> Create(HttpServerOptions options, Log& log);
  ~HttpServer();

  /// Routes are added before Run.
  Router& router();
  std::uint16_t port() const;
  /// "http://127.0.0.1:8000"
  std::string url() const;
  const HttpStatistics& statistics() const;
  const Log& log() const;

  /// Serves on the calling thread until a shutdown is complete.
  void Run();

  /// Accepts no more, closes idle connections, lets the answers under way finish for
  /// ServerLimits::shutdown_timeout, then cuts them off. A second call cuts them off at once.
  /// From any thread.
  void Shutdown();
  bool shutting_down() const;
  /// From now on SIGINT and SIGTERM call Shutdown.
  void ShutDownOnSignals();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace kv8
