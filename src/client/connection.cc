#include "client/connection.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <utility>

namespace kv8 {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 16 << 10;

Error Failure(std::string what, std::string remedy = "") {
  return {Code::kIo, std::move(what), "", std::move(remedy)};
}

Error TooSlow(const TimeLimit& limit, const char* remedy = "") {
  return Failure(fmt::format("the server is too slow: it {} within {:g} s", limit.missed,
                             std::chrono::duration<double>(limit.whole).count()),
                 remedy);
}

}  // namespace

class Connection::Impl {
 public:
  explicit Impl(ServerUrl url) : url_(std::move(url)), resolver_(io_) {}

  Result<void> Open(std::chrono::milliseconds whole) {
    const TimeLimit limit{.whole = whole, .missed = "took no connection"};
    KV8_RETURN_IF_ERROR(PrepareTls());
    tcp::resolver::results_type found;
    error_code problem = Wait(limit, [&](auto done) {
      resolver_.async_resolve(url_.host, url_.port, [&found, done](error_code why, auto results) {
        found = std::move(results);
        done(why, 0);
      });
    });
    if (problem) return NotOpened("the host was not found: ", problem, limit);
    problem = Wait(limit, [&](auto done) {
      asio::async_connect(stream_->next_layer(), found,
                          [done](error_code why, const tcp::endpoint&) { done(why, 0); });
    });
    if (problem) return NotOpened("no connection: ", problem, limit);
    stream_->next_layer().set_option(tcp::no_delay(true), problem);
    stream_->next_layer().non_blocking(true, problem);
    if (!url_.tls) return {};
    problem = Wait(limit, [&](auto done) {
      stream_->async_handshake(asio::ssl::stream_base::client,
                               [done](error_code why) { done(why, 0); });
    });
    if (problem) return NotOpened("no TLS connection: ", problem, limit);
    return {};
  }

  bool IsOpen() {
    if (!stream_ || !stream_->next_layer().is_open()) return false;
    char byte = 0;
    error_code problem;
    stream_->next_layer().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, problem);
    return problem == asio::error::would_block;
  }

  Result<void> Write(std::string_view bytes, const TimeLimit& limit) {
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    const error_code problem = Wait(limit, [&](auto done) {
      url_.tls ? asio::async_write(*stream_, buffer, done)
               : asio::async_write(stream_->next_layer(), buffer, done);
    });
    if (!problem) return {};
    Close();
    if (problem == asio::error::timed_out) return TooSlow(limit);
    return Failure("the connection broke while the request was sent: " + problem.message());
  }

  Result<std::size_t> Read(std::string& to, const TimeLimit& limit) {
    const error_code problem = Wait(limit, [&](auto done) {
      url_.tls ? stream_->async_read_some(asio::buffer(buffer_), done)
               : stream_->next_layer().async_read_some(asio::buffer(buffer_), done);
    });
    if (problem == asio::error::eof || problem == asio::ssl::error::stream_truncated) {
      Close();
      return std::size_t{0};
    }
    if (problem) {
      Close();
      if (problem == asio::error::timed_out) return TooSlow(limit);
      return Failure("the connection broke: " + problem.message());
    }
    to.append(buffer_.data(), bytes_);
    return bytes_;
  }

  void Close() {
    error_code ignored;
    if (stream_) stream_->next_layer().close(ignored);
  }

 private:
  Result<void> PrepareTls() {
    error_code problem;
    if (url_.tls) tls_.set_default_verify_paths(problem);
    if (problem) return Failure("the system's certificates: " + problem.message());
    stream_.emplace(io_, tls_);
    if (!url_.tls) return {};
    stream_->set_verify_mode(asio::ssl::verify_peer, problem);
    stream_->set_verify_callback(asio::ssl::host_name_verification(url_.host), problem);
    asio::ip::make_address(url_.host, problem);
    if (problem) SSL_set_tlsext_host_name(stream_->native_handle(), url_.host.c_str());
    return {};
  }

  Error NotOpened(const char* step, const error_code& problem, const TimeLimit& limit) {
    Close();
    const char* const remedy = "see that the server runs, and that host and port are its own";
    if (problem == asio::error::timed_out) return TooSlow(limit, remedy);
    if (problem == asio::error::connection_refused) {
      return Failure("the connection was refused", remedy);
    }
    return Failure(step + problem.message(), remedy);
  }

  /// Runs one operation, which `start` begins with what it calls at its end.
  template <class Start>
  error_code Wait(const TimeLimit& limit, const Start& start) {
    std::optional<error_code> result;
    start([&](error_code problem, std::size_t bytes) {
      result = problem;
      bytes_ = bytes;
    });
    io_.restart();
    io_.run_until(limit.end);
    if (result) return *result;
    resolver_.cancel();
    Close();
    io_.run();  // what was started refers to this frame
    return asio::error::timed_out;
  }

  const ServerUrl url_;
  asio::io_context io_;
  tcp::resolver resolver_;
  asio::ssl::context tls_{asio::ssl::context::tls_client};
  std::optional<asio::ssl::stream<tcp::socket>> stream_;
  std::size_t bytes_ = 0;  // of the last operation
  std::array<char, kReadBytes> buffer_{};
};

Connection::Connection(ServerUrl url) : impl_(std::make_unique<Impl>(std::move(url))) {}
Connection::~Connection() = default;

Result<void> Connection::Open(std::chrono::milliseconds limit) {
  return impl_->Open(limit);
}

bool Connection::IsOpen() {
  return impl_->IsOpen();
}

Result<void> Connection::Write(std::string_view bytes, const TimeLimit& limit) {
  return impl_->Write(bytes, limit);
}

Result<std::size_t> Connection::Read(std::string& to, const TimeLimit& limit) {
  return impl_->Read(to, limit);
}

void Connection::Close() {
  impl_->Close();
}

}  // namespace kv8
