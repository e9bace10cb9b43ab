// Streams on Asio's sockets.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "server/http/stream.h"

namespace boost::asio::ssl {
class context;
}  // namespace boost::asio::ssl

namespace kv8 {

std::unique_ptr<Stream> MakeTcpStream(boost::asio::ip::tcp::socket socket);

/// `context` outlives the stream.
std::unique_ptr<Stream> MakeTlsStream(boost::asio::ip::tcp::socket socket,
                                      boost::asio::ssl::context& context);

}  // namespace kv8
