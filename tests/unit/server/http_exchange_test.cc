#include "server/http/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace kv8 {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr std::chrono::hours kNeverApart{1};
constexpr std::chrono::hours kAlwaysApart{0};

struct Wired {
  explicit Wired(ResponseFrame frame = {}, std::size_t limit = 1000,
                 Exchange::Clock::duration gap = kNeverApart)
      : exchange(std::make_shared<Exchange>(std::move(frame), limit, gap, [this] { ++wakes; })),
        responder(std::make_unique<ExchangeResponder>(exchange)) {}

  int wakes = 0;
  std::shared_ptr<Exchange> exchange;
  std::unique_ptr<ExchangeResponder> responder;
};

std::string BodyOf(const std::string& bytes) {
  return bytes.substr(bytes.find("\r\n\r\n") + 4);
}

TEST(Exchange, SendsOnce) {
  Wired w;
  w.responder->Send(200, "text/plain", "one", {});
  w.responder->Send(500, "text/plain", "two", {});
  EXPECT_FALSE(w.responder->Write("three"));
  const Exchange::Output output = w.exchange->Take();
  EXPECT_THAT(output.bytes, EndsWith("\r\n\r\none"));
  EXPECT_TRUE(output.complete);
  EXPECT_FALSE(output.broken);
}

TEST(Exchange, StreamsInChunksAndWakesOncePerTake) {
  Wired w;
  w.responder->BeginStream(200, "text/event-stream", {});
  EXPECT_TRUE(w.responder->Write("ab"));
  EXPECT_TRUE(w.responder->Write(""));
  EXPECT_EQ(w.wakes, 1);
  Exchange::Output output = w.exchange->Take();
  EXPECT_EQ(BodyOf(output.bytes), "2\r\nab\r\n");
  EXPECT_FALSE(output.complete);
  EXPECT_TRUE(w.responder->Write("0123456789abcdef"));
  w.responder->End();
  EXPECT_EQ(w.wakes, 2);
  output = w.exchange->Take();
  EXPECT_EQ(output.bytes, "10\r\n0123456789abcdef\r\n0\r\n\r\n");
  EXPECT_TRUE(output.complete);
  EXPECT_EQ(w.exchange->summary().body_bytes, 18u);
}

/// A stream whose first piece is on its way, after one wake.
void BeginPaced(Wired& w) {
  w.responder->BeginStream(200, "text/event-stream", {});
  w.responder->Write("first");
  EXPECT_EQ(w.wakes, 1);
  EXPECT_TRUE(w.exchange->Take().paced);
}

TEST(Exchange, TheHeadOfAStreamWaitsForTheFirstPiece) {
  Wired w;
  w.responder->BeginStream(200, "text/event-stream", {});
  EXPECT_EQ(w.wakes, 0);
  EXPECT_EQ(w.exchange->Take().bytes, "");
  w.responder->Write("first");
  EXPECT_EQ(w.wakes, 1);
  EXPECT_EQ(BodyOf(w.exchange->Take().bytes), "5\r\nfirst\r\n");
}

TEST(Exchange, TheHeadOfAStreamDoesNotWaitBeyondThePause) {
  Wired w;
  w.responder->BeginStream(200, "text/event-stream", {});
  w.exchange->EndPause();
  EXPECT_THAT(w.exchange->Take().bytes, EndsWith("\r\n\r\n"));
  w.responder->Write("first");
  EXPECT_EQ(w.wakes, 1) << "the first piece must not wait because the head has just gone";
  EXPECT_EQ(w.exchange->Take().bytes, "5\r\nfirst\r\n");
}

TEST(Exchange, AStreamThatBeginsLateIsNotKeptBack) {
  Wired w;
  w.exchange->EndPause();
  EXPECT_FALSE(w.exchange->Take().paced) << "there is nothing yet to pace";
  w.responder->BeginStream(200, "text/event-stream", {});
  EXPECT_EQ(w.wakes, 1);
}

TEST(Exchange, PiecesThatComeApartDoNotWait) {
  Wired w({}, 1000, kAlwaysApart);
  BeginPaced(w);
  for (int i = 2; i < 5; ++i) {
    w.responder->Write("ab");
    EXPECT_EQ(w.wakes, i);
    EXPECT_EQ(w.exchange->Take().bytes, "2\r\nab\r\n");
  }
}

TEST(Exchange, PiecesThatFollowFastWaitForThePausesEnd) {
  Wired w;
  BeginPaced(w);
  w.responder->Write("ab");
  w.responder->Write("cd");
  EXPECT_EQ(w.wakes, 1);
  EXPECT_EQ(w.exchange->Take().bytes, "") << "what was sent before is out, and the pause goes on";
  w.exchange->EndPause();
  const Exchange::Output output = w.exchange->Take();
  EXPECT_EQ(output.bytes, "2\r\nab\r\n2\r\ncd\r\n");
  EXPECT_TRUE(output.paced);
}

TEST(Exchange, AfterAPauseWithoutPiecesTheNextWakes) {
  Wired w;
  BeginPaced(w);
  w.exchange->EndPause();
  EXPECT_FALSE(w.exchange->Take().paced);
  w.responder->Write("ab");
  EXPECT_EQ(w.wakes, 2);
  EXPECT_EQ(w.exchange->Take().bytes, "2\r\nab\r\n");
}

TEST(Exchange, TheEndOfAStreamCutsThePauseShort) {
  Wired w;
  BeginPaced(w);
  w.responder->Write("ab");
  w.responder->End();
  EXPECT_EQ(w.wakes, 2);
  const Exchange::Output output = w.exchange->Take();
  EXPECT_EQ(output.bytes, "2\r\nab\r\n0\r\n\r\n");
  EXPECT_TRUE(output.complete);
  EXPECT_FALSE(output.paced);
}

TEST(Exchange, ADroppedStreamCutsThePauseShort) {
  Wired w;
  BeginPaced(w);
  w.responder.reset();
  EXPECT_EQ(w.wakes, 2);
  EXPECT_TRUE(w.exchange->Take().broken);
}

TEST(Exchange, MuchDataCutsThePauseShort) {
  Wired w;
  BeginPaced(w);
  w.responder->Write(std::string(200, 'x'));
  EXPECT_EQ(w.wakes, 1);
  w.responder->Write(std::string(200, 'y'));
  EXPECT_EQ(w.wakes, 2) << "a quarter of the buffer must not wait";
  EXPECT_GT(w.exchange->Take().bytes.size(), 400u);
}

TEST(Exchange, StreamsBareToOldClients) {
  Wired w({.http_1_0 = true, .keep_alive = true});
  w.responder->BeginStream(200, "text/plain", {});
  w.responder->Write("ab");
  w.responder->End();
  const std::string bytes = w.exchange->Take().bytes;
  EXPECT_EQ(BodyOf(bytes), "ab");
  EXPECT_THAT(bytes, HasSubstr("Connection: close\r\n"));
  EXPECT_FALSE(w.exchange->summary().keep_alive);
}

TEST(Exchange, AnswersHeadWithoutABody) {
  Wired w({.head_only = true});
  w.responder->Send(200, "text/plain", "body", {});
  const std::string bytes = w.exchange->Take().bytes;
  EXPECT_EQ(BodyOf(bytes), "");
  EXPECT_THAT(bytes, HasSubstr("Content-Length: 4\r\n"));
}

TEST(Exchange, CutsOffSlowReaders) {
  Wired w({}, 1000);
  w.responder->BeginStream(200, "text/plain", {});
  const std::string piece(300, 'x');
  EXPECT_TRUE(w.responder->Write(piece));
  w.exchange->Take();  // on its way, and counted until the next Take
  EXPECT_TRUE(w.responder->Write(piece));
  const int wakes = w.wakes;
  EXPECT_FALSE(w.responder->Write(piece));
  EXPECT_EQ(w.wakes, wakes + 1) << "the session must hear of it while it waits for the client";
  EXPECT_TRUE(w.exchange->overflowed());
  EXPECT_FALSE(w.responder->Write("x"));
}

TEST(Exchange, TellsOfTheClientsEndOnce) {
  Wired w;
  int closed = 0;
  w.responder->OnClose([&] { ++closed; });
  w.exchange->Close();
  w.exchange->Close();
  EXPECT_EQ(closed, 1);
  w.responder->OnClose([&] { ++closed; });
  EXPECT_EQ(closed, 2) << "at once when the client has gone before";
  w.responder->BeginStream(200, "text/plain", {});
  EXPECT_FALSE(w.responder->Write("x"));
}

TEST(Exchange, ACompleteAnswerForgetsTheCallback) {
  Wired w;
  const auto held = std::make_shared<int>();
  int closed = 0;
  w.responder->OnClose([&closed, held] { ++closed; });
  EXPECT_EQ(held.use_count(), 2);
  w.responder->Send(200, "text/plain", "x", {});
  EXPECT_EQ(held.use_count(), 1);
  w.exchange->Close();
  EXPECT_EQ(closed, 0);
}

TEST(Exchange, AResponderThatIsDroppedAnswers500) {
  Wired w;
  w.responder.reset();
  const Exchange::Output output = w.exchange->Take();
  EXPECT_THAT(output.bytes, HasSubstr("HTTP/1.1 500 "));
  EXPECT_TRUE(output.complete);
}

TEST(Exchange, AStreamThatIsDroppedIsCutShort) {
  Wired w;
  w.responder->BeginStream(200, "text/plain", {});
  w.responder.reset();
  EXPECT_TRUE(w.exchange->Take().broken) << "the client must not take it for a whole one";
}

}  // namespace
}  // namespace kv8
