#include "server/http/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "base/json.h"
#include "server/http/line_writer.h"

namespace kv8 {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr auto kText = LogFormat::kText;

struct Pipe {
  explicit Pipe(bool socket = false) {
    EXPECT_EQ(socket ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) : ::pipe(ends.data()), 0);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int fd : ends) ::close(fd);
  }
  /// What is in it now.
  std::string Read() const {
    std::string text;
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

  std::array<int, 2> ends{};  // for reading, for writing
};

/// Seconds that `work` takes.
template <class Work>
double SecondsOf(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Log, WantsOnlyItsLevel) {
  const Log log(LogLevel::kWarning, LogFormat::kJson);
  EXPECT_FALSE(log.Wants(LogLevel::kInfo));
  EXPECT_TRUE(log.Wants(LogLevel::kError));
  EXPECT_FALSE(Log(LogLevel::kOff, kText).Wants(LogLevel::kError));
}

TEST(Log, WritesEveryLineBeforeItEnds) {
  const Pipe pipe;
  {
    Log log(LogLevel::kInfo, kText, pipe.ends[1]);
    for (std::int64_t i = 0; i < 500; ++i) log.Write(LogLevel::kInfo, "event", {{"i", i}});
    log.Write(LogLevel::kDebug, "unwanted");
    log.Write(LogLevel::kInfo, "last", {{"long", std::string(9999, 'x')}});
  }
  const std::string text = pipe.Read();
  for (int i = 0; i < 500; ++i) EXPECT_THAT(text, HasSubstr("event i=" + std::to_string(i) + "\n"));
  EXPECT_THAT(text, EndsWith("last long=" + std::string(300, 'x') + "\n"));
  EXPECT_THAT(text, Not(HasSubstr("unwanted")));
}

void FillUntilLinesAreLost(Log& log) {
  for (int i = 0; i < 100'000 && log.lost() == 0; ++i) {
    log.Write(LogLevel::kInfo, "event", {{"text", std::string(200, 'x')}});
  }
  ASSERT_GT(log.lost(), 0u);
}

TEST(Log, LosesLinesWhereNobodyReadsAndEndsInTime) {
  for (const bool socket : {false, true}) {
    const Pipe pipe(socket);
    auto log = std::make_unique<Log>(LogLevel::kInfo, kText, pipe.ends[1]);
    EXPECT_LT(SecondsOf([&] { FillUntilLinesAreLost(*log); }), 30);
    EXPECT_LT(SecondsOf([&] { log.reset(); }), 10);
  }
}

TEST(Log, TellsHowManyLinesWereLost) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const Pipe pipe;
    Log log(LogLevel::kInfo, format, pipe.ends[1]);
    FillUntilLinesAreLost(log);
    const std::uint64_t lost = log.lost();
    std::string text;
    for (int i = 0; i < 1000 && text.find("log lines lost") == std::string::npos; ++i) {
      text += pipe.Read();
      ::usleep(1000);
    }
    text = text.substr(text.find("log lines lost"));
    const std::string count = format == LogFormat::kText ? "count=" : "\"count\":";
    EXPECT_THAT(text, HasSubstr(count + std::to_string(lost)));
    EXPECT_EQ(log.lost(), lost) << "while somebody reads, nothing more is";
  }
}

TEST(LineWriter, GivesUpWhenTheReaderHasGoneOrTheTimeIsOver) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  LineWriter writer(pipe.ends[1]);
  EXPECT_TRUE(writer.Write("a\n"));
  writer.Stop(50ms);
  EXPECT_LT(SecondsOf([&] {
              while (writer.Write(std::string(9000, 'x'))) {
              }
            }),
            10);
  pipe.Read();
  EXPECT_TRUE(writer.Write("b\n")) << "what can be written at once still is";
  EXPECT_EQ(pipe.Read(), "b\n");
  ::close(pipe.ends[0]);
  pipe.ends[0] = ::dup(pipe.ends[1]);
  EXPECT_FALSE(writer.Write("c\n"));
}

TEST(LineWriter, LeavesTheGivenDescriptorAsItIs) {
  const Pipe pipe;
  const LineWriter writer(pipe.ends[1]);
  EXPECT_EQ(::fcntl(pipe.ends[1], F_GETFL) & O_NONBLOCK, 0);
}

}  // namespace
}  // namespace kv8
