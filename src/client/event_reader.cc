#include "client/event_reader.h"

#include <utility>

namespace kv8 {

std::vector<ServerSentEvent> EventReader::Feed(std::string_view bytes) {
  std::vector<ServerSentEvent> events;
  for (const char c : bytes) {
    const bool same_end = c == '\n' && after_return_;
    after_return_ = c == '\r';
    if (same_end) continue;
    if (c == '\n' || c == '\r') {
      TakeLine(events);
    } else {
      line_ += c;
    }
  }
  return events;
}

void EventReader::TakeLine(std::vector<ServerSentEvent>& events) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::string line = std::exchange(line_, {});
  std::string_view rest = line;
  if (std::exchange(first_line_, false) && rest.starts_with(kByteOrderMark)) {
    rest.remove_prefix(kByteOrderMark.size());
  }
  if (rest.empty()) {
    if (has_data_) events.push_back(std::move(event_));
    event_ = {};
    has_data_ = false;
    return;
  }
  const std::size_t colon = rest.find(':');
  const std::string_view field = rest.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") event_.name = value;
  if (field != "data") return;
  if (std::exchange(has_data_, true)) event_.data += '\n';
  event_.data += value;
}

}  // namespace kv8
