#include "server/http/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <utility>

#include "base/last_chunk.h"

namespace kv8 {
namespace {

namespace http = boost::beast::http;

/// A client's id goes into logs and back into a header: a short plain word or nothing.
bool IsPlainId(std::string_view id) {
  constexpr std::size_t kMaxId = 128;
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-_.:/+=@").find(c) != std::string_view::npos;
  };
  return !id.empty() && id.size() <= kMaxId && std::all_of(id.begin(), id.end(), plain);
}

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

/// A string that takes memory as the body comes, not as its length is announced.
struct GrowingBody {
  using value_type = std::string;

  class reader {  // NOLINT(readability-identifier-naming): Beast's name
   public:
    template <bool kRequest, class Fields>
    reader(http::header<kRequest, Fields>& /*head*/, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>& /*length*/, boost::beast::error_code& problem) {
      problem = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::beast::error_code& problem) {
      problem = {};
      const std::size_t before = body_.size();
      for (auto at = boost::asio::buffer_sequence_begin(buffers);
           at != boost::asio::buffer_sequence_end(buffers); ++at) {
        const boost::asio::const_buffer piece(*at);
        body_.append(static_cast<const char*>(piece.data()), piece.size());
      }
      return body_.size() - before;
    }
    void finish(boost::beast::error_code& problem) { problem = {}; }

   private:
    value_type& body_;
  };
};

/// What RFC 9112 asks to be skipped before a request.
std::size_t LeadingLineBreaks(std::string_view bytes) {
  std::size_t skipped = 0;
  while (bytes.substr(skipped).starts_with("\r\n")) skipped += 2;
  return skipped;
}

}  // namespace

struct RequestReader::Parser {
  http::request_parser<GrowingBody> parser;
};

RequestReader::RequestReader(const ServerLimits& limits)
    : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  parser_->parser.body_limit(limits.body_bytes);
}

RequestReader::~RequestReader() = default;

bool RequestReader::Fail(int status, std::string message) {
  state_ = State::kFailed;
  keep_alive_ = false;
  error_ = {.status = status, .message = std::move(message)};
  return false;
}

std::size_t RequestReader::Feed(std::string_view bytes) {
  if (state_ == State::kHead) return FeedHead(bytes);
  if (state_ == State::kHeadDone) state_ = has_body_ ? State::kBody : State::kDone;
  return state_ == State::kBody ? FeedBody(bytes) : 0;
}

std::size_t RequestReader::FeedHead(std::string_view bytes) {
  const std::size_t skipped = LeadingLineBreaks(bytes);
  bytes.remove_prefix(skipped);
  if (bytes.empty() || bytes == "\r") return skipped;
  boost::beast::error_code problem;
  const std::size_t used =
      parser_->parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), problem);
  if (problem == http::error::need_more) {
    // Beast counts a head from its first line break on, so a single endless line is counted here.
    if (bytes.size() - used > limits_.header_bytes) problem = http::error::header_limit;
  }
  if (problem == http::error::header_limit) {
    Fail(431, fmt::format("The headers have more than {} bytes.", limits_.header_bytes));
  } else if (problem == http::error::body_limit) {
    Fail(413, fmt::format("The body has more than {} bytes.", limits_.body_bytes));
  } else if (problem == http::error::bad_version) {
    Fail(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.");
  } else if (problem && problem != http::error::need_more) {
    Fail(400, fmt::format("This is not an HTTP request: {}.", problem.message()));
  } else if (parser_->parser.is_header_done() && TakeHead()) {
    state_ = State::kHeadDone;
  }
  return skipped + used;
}

bool RequestReader::TakeHead() {
  const auto& message = parser_->parser.get();
  http_1_0_ = message.version() < 11;
  for (const auto& field : message) {
    if (request_.headers.size() == limits_.header_count) {
      return Fail(431, fmt::format("There are more than {} headers.", limits_.header_count));
    }
    request_.headers.emplace_back(View(field.name_string()), View(field.value()));
  }
  if (!CheckFraming() || !TakeTarget()) return false;
  request_.method = View(message.method_string());
  const std::string_view id = request_.Header("X-Request-Id");
  if (IsPlainId(id)) request_.id = id;
  keep_alive_ = message.keep_alive();
  has_body_ = parser_->parser.chunked() || parser_->parser.content_length().value_or(0) > 0;
  wants_continue_ = has_body_ && !http_1_0_ &&
                    boost::beast::iequals(message[http::field::expect], "100-continue");
  return true;
}

bool RequestReader::CheckFraming() {
  const auto& message = parser_->parser.get();
  const auto hosts = message.count(http::field::host);
  request_.authority = View(message[http::field::host]);
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) {
    return Fail(400, fmt::format("There must be one Host header, not {}.", hosts));
  }
  if (message.count(http::field::transfer_encoding) == 0) return true;
  if (message.count(http::field::content_length) > 0 || http_1_0_) {
    return Fail(400, "Transfer-Encoding contradicts Content-Length or HTTP/1.0.");
  }
  if (boost::beast::iequals(message[http::field::transfer_encoding], "chunked") &&
      message.count(http::field::transfer_encoding) == 1) {
    return true;
  }
  return Fail(501, "The only coding of a transfer that is read here is chunked.");
}

bool RequestReader::TakeTarget() {
  std::string_view target = View(parser_->parser.get().target());
  // A proxy's form, whose authority counts more than Host.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const std::size_t path = target.find_first_of("/?", scheme.size());
    request_.authority = target.substr(scheme.size(), path - scheme.size());
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  if (!target.starts_with('/') && target != "*") {
    return Fail(400, "The request target must be a path.");
  }
  const std::size_t mark = target.find('?');
  request_.path = target.substr(0, mark);
  if (mark != std::string_view::npos) request_.query = target.substr(mark + 1);
  return true;
}

std::size_t RequestReader::body_bytes() const {
  return state_ == State::kDone ? request_.body.size() : parser_->parser.get().body().size();
}

std::size_t RequestReader::FeedBody(std::string_view bytes) {
  std::size_t used = 0;
  boost::beast::error_code problem;
  while (!problem && !parser_->parser.is_done() && used < bytes.size()) {
    if (parser_->parser.chunked() && BeginsLastChunk(bytes.substr(used))) break;
    const std::size_t taken = parser_->parser.put(
        boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), problem);
    used += taken;
    if (taken == 0) break;
  }
  if (problem == http::error::need_more) {
    problem = {};
    // The line before a chunk, or the fields behind the last, which are parsed whole.
    if (bytes.size() - used > limits_.header_bytes) problem = http::error::header_limit;
  }
  if (problem == http::error::header_limit) {
    Fail(431, fmt::format("A chunk's head, or the trailer, has more than {} bytes.",
                          limits_.header_bytes));
  } else if (problem == http::error::body_limit) {
    Fail(413, fmt::format("The body has more than {} bytes.", limits_.body_bytes));
  } else if (problem) {
    Fail(400, fmt::format("The body is not what HTTP allows: {}.", problem.message()));
  }
  if (parser_->parser.is_done() && state_ != State::kFailed) {
    request_.body = std::move(parser_->parser.get().body());
    state_ = State::kDone;
  }
  return used;
}

}  // namespace kv8
