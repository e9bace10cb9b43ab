#include "server/http/asio_stream.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <utility>

namespace kv8 {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string Describe(const tcp::socket& socket) {
  error_code problem;
  const tcp::endpoint end = socket.remote_endpoint(problem);
  if (problem) return "unknown";
  const std::string address = end.address().to_string(problem);
  return fmt::format(fmt::runtime(end.address().is_v6() ? "[{}]:{}" : "{}:{}"), address,
                     end.port());
}

/// Hands what Asio says of a transfer to `done`.
auto OnTransfer(Stream::Done done) {
  return [done = std::move(done)](error_code problem, std::size_t n) { done(!problem, n); };
}

class TcpStream final : public Stream {
 public:
  explicit TcpStream(tcp::socket socket) : socket_(std::move(socket)), peer_(Describe(socket_)) {}

  void Handshake(Done done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done(true, 0); });
  }
  void ReadSome(char* data, std::size_t size, Done done) override {
    socket_.async_read_some(asio::buffer(data, size), OnTransfer(std::move(done)));
  }
  void WriteSome(const char* data, std::size_t size, Done done) override {
    socket_.async_write_some(asio::buffer(data, size), OnTransfer(std::move(done)));
  }
  void FinishSending(Done done) override {
    error_code problem;
    socket_.shutdown(tcp::socket::shutdown_send, problem);
    asio::post(socket_.get_executor(), [done = std::move(done), problem] { done(!problem, 0); });
  }
  void Close() override {
    error_code ignored;
    socket_.close(ignored);
  }
  std::string peer() const override { return peer_; }

 private:
  tcp::socket socket_;
  const std::string peer_;
};

class TlsStream final : public Stream {
 public:
  TlsStream(tcp::socket socket, asio::ssl::context& context)
      : peer_(Describe(socket)), stream_(std::move(socket), context) {}

  void Handshake(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [done = std::move(done)](error_code problem) { done(!problem, 0); });
  }
  void ReadSome(char* data, std::size_t size, Done done) override {
    stream_.async_read_some(asio::buffer(data, size), OnTransfer(std::move(done)));
  }
  void WriteSome(const char* data, std::size_t size, Done done) override {
    stream_.async_write_some(asio::buffer(data, size), OnTransfer(std::move(done)));
  }
  void FinishSending(Done done) override {
    stream_.async_shutdown([done = std::move(done)](error_code problem) { done(!problem, 0); });
  }
  void Close() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }
  std::string peer() const override { return peer_; }

 private:
  const std::string peer_;
  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::unique_ptr<Stream> MakeTcpStream(tcp::socket socket) {
  return std::make_unique<TcpStream>(std::move(socket));
}

std::unique_ptr<Stream> MakeTlsStream(tcp::socket socket, asio::ssl::context& context) {
  return std::make_unique<TlsStream>(std::move(socket), context);
}

}  // namespace kv8
