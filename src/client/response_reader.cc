#include "client/response_reader.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "base/last_chunk.h"

namespace kv8 {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr int kInterim = 1;

Error Describe(const error_code& problem, std::size_t body_limit) {
  if (problem == http::error::body_limit) {
    return {Code::kResourceExhausted,
            fmt::format("the answer has more than {} bytes, the most that are read", body_limit),
            "", ""};
  }
  if (problem == http::error::header_limit) {
    return {Code::kResourceExhausted,
            fmt::format("the answer's head, a chunk's or the trailer has more than {} bytes",
                        kResponseHeadBytes),
            "", ""};
  }
  return {Code::kCorrupt, "the answer is not HTTP: " + problem.message(), "",
          "see that the URL is that of an HTTP server"};
}

}  // namespace

struct ResponseReader::Parser {
  http::response_parser<http::string_body> parser;
};

ResponseReader::ResponseReader(std::size_t body_limit) : body_limit_(body_limit) {
  Restart();
}

ResponseReader::~ResponseReader() = default;

void ResponseReader::Restart() {
  parser_ = std::make_unique<Parser>();
  parser_->parser.header_limit(kResponseHeadBytes);
  parser_->parser.body_limit(body_limit_);
}

Result<void> ResponseReader::Feed(std::string& waiting) {
  error_code problem;
  std::size_t used = 0;
  while (!done() && used < waiting.size()) {
    const std::string_view rest = std::string_view(waiting).substr(used);
    if (head_done() && parser_->parser.chunked() && BeginsLastChunk(rest)) break;
    const std::size_t taken =
        parser_->parser.put(boost::asio::const_buffer(rest.data(), rest.size()), problem);
    used += taken;
    body_ += std::exchange(parser_->parser.get().body(), {});
    if (head_done() && status() / 100 == kInterim) Restart();
    if (problem == http::error::need_more) {
      problem = {};
      // Beast counts a head from its first line break on.
      if (waiting.size() - used > kResponseHeadBytes) problem = http::error::header_limit;
      break;
    }
    if (problem || taken == 0) break;
  }
  waiting.erase(0, used);
  if (problem) return Describe(problem, body_limit_);
  return {};
}

Result<void> ResponseReader::FeedEnd() {
  error_code problem;
  const bool begun = head_done();  // Beast takes no bytes for a whole answer
  if (begun && !done()) parser_->parser.put_eof(problem);
  if (begun && !problem && done()) return {};
  return Error{Code::kIo,
               begun ? "the server closed the connection in the middle of its answer"
                     : "the server closed the connection without an answer",
               "", "look into the server's log"};
}

bool ResponseReader::head_done() const {
  return parser_->parser.is_header_done();
}

bool ResponseReader::done() const {
  return parser_->parser.is_done();
}

int ResponseReader::status() const {
  return static_cast<int>(parser_->parser.get().result_int());
}

std::string ResponseReader::content_type() const {
  return std::string(parser_->parser.get()[http::field::content_type]);
}

bool ResponseReader::keep_alive() const {
  return parser_->parser.keep_alive();
}

std::string ResponseReader::TakeBody() {
  return std::exchange(body_, {});
}

}  // namespace kv8
