// A TCP or TLS connection to a server, on which every wait has a limit.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "client/server_url.h"
#include "kv8/error.h"

namespace kv8 {

/// When a wait ends, and how to tell of it.
struct TimeLimit {
  std::chrono::milliseconds whole;
  const char* missed;  // what the server did not do, as "began no answer"
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + whole;
};

/// Blocking; one thread at a time. After an error it is closed. Errors are kIo and say what
/// happened; they leave `where` to the caller, who knows the request.
class Connection {
 public:
  explicit Connection(ServerUrl url);
  ~Connection();

  /// Finds the host, connects and, for https, checks the server's certificate against the system's
  /// authorities. The system's search for a host cannot be cut short.
  Result<void> Open(std::chrono::milliseconds limit);
  /// False once the peer closed it, or sent what nobody asked for.
  bool IsOpen();
  Result<void> Write(std::string_view bytes, const TimeLimit& limit);
  /// Appends what has come to `to`, and says how many bytes; 0 when the peer has closed.
  Result<std::size_t> Read(std::string& to, const TimeLimit& limit);
  void Close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv8
