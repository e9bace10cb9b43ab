#include "client/response_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kv8 {
namespace {

constexpr std::size_t kLimit = 20;

struct Taken {
  bool done = false;
  std::string body;
  std::string left;
  std::string problem;
};

Taken ReadIn(std::string_view bytes, std::size_t step, bool end = false) {
  ResponseReader reader(kLimit);
  Taken read;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    read.left += bytes.substr(at, step);
    if (const auto fed = reader.Feed(read.left); !fed.ok()) {
      read.problem = fed.error().what;
      break;
    }
  }
  if (end && read.problem.empty()) {
    if (const auto fed = reader.FeedEnd(); !fed.ok()) read.problem = fed.error().what;
  }
  read.done = reader.done();
  read.body = reader.TakeBody();
  return read;
}

TEST(ResponseReaderTest, ReadsBodiesHoweverTheyAreCut) {
  const std::string_view chunked =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;a=b\r\nabc\r\n0002\r\nde\r\n0\r\nTrailer: x\r\n\r\n";
  const std::string_view sized = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
  const std::string_view ended = "HTTP/1.0 200 OK\r\n\r\nabcde";
  for (std::size_t step = 1; step <= chunked.size(); ++step) {
    for (const std::string_view bytes : {chunked, sized, ended}) {
      const Taken read = ReadIn(bytes, step, bytes == ended);
      EXPECT_TRUE(read.done) << step << bytes << read.problem;
      EXPECT_EQ(read.body, "abcde") << step << bytes;
      EXPECT_EQ(read.left, "");
    }
  }
}

TEST(ResponseReaderTest, LeavesWhatFollows) {
  const Taken read = ReadIn("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", 99);
  EXPECT_EQ(read.body, "a");
  EXPECT_EQ(read.left, "bc");
}

TEST(ResponseReaderTest, RefusesWhatIsTooLongOrNotHttp) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  EXPECT_THAT(ReadIn("SSH-2.0-OpenSSH\r\n\r\n", 99).problem, testing::HasSubstr("not HTTP"));
  EXPECT_THAT(ReadIn(head + "Content-Length: 21\r\n\r\n", 99).problem,
              testing::HasSubstr("more than 20 bytes"));
  EXPECT_THAT(ReadIn(head + "Transfer-Encoding: chunked\r\n\r\n15\r\n", 99).problem,
              testing::HasSubstr("more than 20 bytes"));
  EXPECT_THAT(ReadIn(head + "X: " + std::string(70'000, 'x') + "\r\n\r\n", 4096).problem,
              testing::HasSubstr("head"));
  EXPECT_THAT(ReadIn(std::string(70'000, 'H'), 4096).problem, testing::Not(""));
  EXPECT_THAT(ReadIn(head + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(70'000, 'x'), 4096)
                  .problem,
              testing::HasSubstr("chunk"));
}

TEST(ResponseReaderTest, TellsAnEndInTheMiddle) {
  EXPECT_THAT(ReadIn("HTTP/1.1 200 O", 99, true).problem, testing::HasSubstr("without an answer"));
  for (const char* cut :
       {"Content-Length: 5\r\n\r\nabcd", "Transfer-Encoding: chunked\r\n\r\n5\r\nabcd",
        "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"}) {
    EXPECT_THAT(ReadIn(std::string("HTTP/1.1 200 OK\r\n") + cut, 99, true).problem,
                testing::HasSubstr("in the middle"));
  }
}

}  // namespace
}  // namespace kv8
