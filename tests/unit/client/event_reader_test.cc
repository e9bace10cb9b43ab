#include "client/event_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace kv8 {
namespace {

std::string EventsIn(std::string_view bytes, std::size_t step) {
  EventReader reader;
  std::string found;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    for (const ServerSentEvent& event : reader.Feed(bytes.substr(at, step))) {
      found += event.name + "=" + event.data + ";";
    }
  }
  return found;
}

TEST(EventReaderTest, ReadsEventsHoweverTheyAreCut) {
  const std::string_view bytes =
      "\xEF\xBB\xBF"
      "data: one\n\n: comment\nevent: e\r\ndata:two\r\ndata:  three\r\n\r\n"
      "data\rid: 7\r\revent: none\n\ndata: cut";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    EXPECT_EQ(EventsIn(bytes, step), "=one;e=two\n three;=;") << step;
  }
}

}  // namespace
}  // namespace kv8
