#include "text/reasoning_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kv8 {
namespace {

/// The parts of `text` when it comes in pieces of `piece` bytes.
ReasoningDelta Split(std::string_view text, bool open, std::size_t piece) {
  ReasoningParser parser(open);
  ReasoningDelta all;
  const auto add = [&all](const ReasoningDelta& delta) {
    all.reasoning += delta.reasoning;
    all.content += delta.content;
  };
  for (std::size_t at = 0; at < text.size(); at += piece) add(parser.Push(text.substr(at, piece)));
  add(parser.Finish());
  return all;
}

void ExpectParts(std::string_view text, bool open, std::string_view reasoning,
                 std::string_view content) {
  for (const std::size_t piece : {1u, 2u, 3u, 7u, 1000u}) {
    const ReasoningDelta parts = Split(text, open, piece);
    EXPECT_EQ(parts.reasoning, reasoning) << text << " in pieces of " << piece;
    EXPECT_EQ(parts.content, content) << text << " in pieces of " << piece;
  }
}

TEST(ReasoningParser, SplitsAtTheFirstEnd) {
  ExpectParts("Let me see.\n</think>\n\nIt is 4.", true, "Let me see.", "It is 4.");
  ExpectParts("a</think>b</think>c", true, "a", "b</think>c");
  ExpectParts("</think>b", true, "", "b");
  ExpectParts("", true, "", "");
}

TEST(ReasoningParser, ABeginningMarkerMayBeThere) {
  ExpectParts("<think>\nsee\n</think>\n\n4", true, "see", "4");
  ExpectParts("<think>\nsee\n</think>\n\n4", false, "see", "4");
  ExpectParts("\n<think>see</think>4", false, "see", "4");
}

TEST(ReasoningParser, WithoutASectionAllIsContent) {
  ExpectParts("It is 4.", false, "", "It is 4.");
  ExpectParts("\n\nIt is <think>4</think>.", false, "", "\n\nIt is <think>4</think>.");
  ExpectParts("<thin ice", false, "", "<thin ice");
  ExpectParts("<think", false, "", "<think");
}

TEST(ReasoningParser, AnAnswerMayBreakOff) {
  ExpectParts("still think", true, "still think", "");
  ExpectParts("still\n</thin", true, "still\n</thin", "");
  ExpectParts("a\n\nb\n", true, "a\n\nb\n", "");
  ExpectParts("x</think>\n", true, "x", "");
  ExpectParts("<thi", true, "<thi", "");
}

TEST(ReasoningParser, HoldsBackNoMoreThanAMarker) {
  ReasoningParser parser(true);
  EXPECT_TRUE(parser.in_reasoning());
  EXPECT_EQ(parser.Push("ab").reasoning, "ab");
  EXPECT_EQ(parser.Push("c\n<").reasoning, "c");
  EXPECT_EQ(parser.Push("/thinks").reasoning, "\n</thinks");
  EXPECT_EQ(parser.Push("</think>").reasoning, "");
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_EQ(parser.Push("\nx <").content, "x <");
  EXPECT_EQ(parser.Finish().content, "");
}

TEST(ReasoningParser, TheEndOfThePromptSaysWhetherTheSectionIsOpen) {
  EXPECT_TRUE(PromptOpensReasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(PromptOpensReasoning("<think>"));
  EXPECT_FALSE(PromptOpensReasoning("<|im_start|>assistant\n"));
  EXPECT_FALSE(PromptOpensReasoning("<think>\n\n</think>\n\n"));
  EXPECT_FALSE(PromptOpensReasoning(""));
}

}  // namespace
}  // namespace kv8
