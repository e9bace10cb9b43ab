#include "server/http/request_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kv8 {
namespace {

using State = RequestReader::State;

/// Feeds `bytes` in pieces of `step` and returns how far the reader came; what it did not take is
/// offered again, as a connection would.
State FeedAll(RequestReader& reader, std::string_view bytes, std::size_t step) {
  std::string waiting;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    waiting += bytes.substr(at, step);
    State before{};
    do {
      before = reader.state();
      waiting.erase(0, reader.Feed(waiting));
    } while (reader.state() != before && reader.state() != State::kDone &&
             reader.state() != State::kFailed);
    if (reader.state() == State::kDone || reader.state() == State::kFailed) break;
  }
  return reader.state();
}

/// The status of a refusal; 0 for a request that was read; -1 for one that is not complete.
int StatusOf(std::string_view bytes, std::size_t step, const ServerLimits& limits = {}) {
  RequestReader reader(limits);
  const State state = FeedAll(reader, bytes, step);
  if (state == State::kDone) return 0;
  return state == State::kFailed ? reader.error().status : -1;
}

struct Case {
  std::string_view bytes;
  int status;
};

constexpr Case kCases[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0},
    {"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 0},
    {"GET / HTTP/1.0\r\n\r\n", 0},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 0},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 0},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 0},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", 0},
    {"GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", 0},
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0},
    // Not complete.
    {"GET / HTTP/1.1\r\nHost: a\r\n", -1},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab", -1},
    // Not HTTP.
    {"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03\r\n\r\n", 400},
    {"hello\r\n\r\n", 400},
    {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nX: a\x01z\r\n\r\n", 400},
    {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
    {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505},
    {"GET example HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    // What two readers could understand differently.
    {"GET / HTTP/1.1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
     "chunked\r\n\r\n0\r\n\r\n",
     400},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: "
     "3\r\n\r\n0\r\n\r\n",
     400},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
     "chunked\r\n\r\n0\r\n\r\n",
     400},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdefgh\r\n", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
     "11111111111111111\r\n",
     400},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc", -1},
};

TEST(RequestReader, ReadsAndRefuses) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.bytes);
    EXPECT_EQ(StatusOf(c.bytes, c.bytes.size()), c.status) << "at once";
    EXPECT_EQ(StatusOf(c.bytes, 1), c.status) << "byte by byte";
    EXPECT_EQ(StatusOf(c.bytes, 7), c.status) << "in pieces of 7";
  }
}

TEST(RequestReader, TellsTheParts) {
  RequestReader reader(ServerLimits{});
  ASSERT_EQ(FeedAll(reader,
                    "POST http://x.example/v1/models?a=b%20c HTTP/1.1\r\nHost: a\r\n"
                    "x-REQUEST-id: abc-1\r\nContent-Length: 2\r\n\r\nhi",
                    5),
            State::kDone);
  const HttpRequest& request = reader.request();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/models");
  EXPECT_EQ(request.query, "a=b%20c");
  EXPECT_EQ(request.body, "hi");
  EXPECT_EQ(request.id, "abc-1");
  EXPECT_EQ(request.Header("CONTENT-length"), "2");
  EXPECT_EQ(request.Header("content"), "");
  EXPECT_TRUE(reader.keep_alive());
}

TEST(RequestReader, DropsIdsThatAreNotPlainWords) {
  for (const std::string& id : {std::string("a b"), std::string("a\"b"), std::string(129, 'a')}) {
    RequestReader reader(ServerLimits{});
    const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: " + id + "\r\n\r\n";
    ASSERT_EQ(FeedAll(reader, bytes, bytes.size()), State::kDone);
    EXPECT_EQ(reader.request().id, "");
  }
}

TEST(RequestReader, KeepAliveFollowsTheVersion) {
  const auto keeps = [](std::string_view bytes) {
    RequestReader reader(ServerLimits{});
    EXPECT_EQ(FeedAll(reader, bytes, bytes.size()), State::kDone);
    return reader.keep_alive();
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestReader, StopsAfterTheHeadAndTakesOneRequest) {
  RequestReader reader(ServerLimits{});
  const std::string head =
      "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(reader.Feed(head + "hiGET"), head.size());
  EXPECT_EQ(reader.state(), State::kHeadDone);
  EXPECT_TRUE(reader.wants_continue());
  EXPECT_EQ(reader.Feed("hiGET"), 2u);
  EXPECT_EQ(reader.state(), State::kDone);
  EXPECT_EQ(reader.Feed("GET"), 0u);
}

TEST(RequestReader, KeepsToItsLimits) {
  ServerLimits limits;
  limits.header_bytes = 200;
  limits.header_count = 5;
  limits.body_bytes = 10;
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  const Case cases[] = {
      {"GET / HTTP/1.1\r\nHost: a\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\n\r\n", 0},
      {"GET / HTTP/1.1\r\nHost: a\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\n\r\n", 431},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.bytes);
    EXPECT_EQ(StatusOf(c.bytes, 4, limits), c.status);
  }
  const std::string chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(StatusOf(chunks + "5\r\nabcde\r\n5\r\nabcde\r\n0\r\n\r\n", 4, limits), 0);
  EXPECT_EQ(StatusOf(chunks + "5\r\nabcde\r\n6\r\nabcdef\r\n0\r\n\r\n", 4, limits), 413);
  EXPECT_EQ(StatusOf(chunks + "ffffffffffffffff\r\n", 4, limits), 413);
  EXPECT_EQ(StatusOf(chunks + "5;" + std::string(300, 'a'), 4, limits), 431);
  EXPECT_EQ(StatusOf(chunks + "0\r\nX: " + std::string(300, 'a'), 4, limits), 431);
  EXPECT_EQ(StatusOf(start + "X: " + std::string(300, 'a'), 4, limits), 431);
  EXPECT_EQ(StatusOf(std::string(300, 'G'), 4, limits), 431);
  EXPECT_EQ(StatusOf("GET /" + std::string(300, 'a'), 300, limits), 431);
}

}  // namespace
}  // namespace kv8
