// Reads server-sent events from bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kv8 {

struct ServerSentEvent {
  std::string name;  // of its `event` field; mostly empty
  std::string data;  // its `data` lines, with line feeds between them
};

/// As in the HTML standard, "Interpreting an event stream"; `id` and `retry` are for reconnecting
/// and left out. An event without an end, or without data, is none.
class EventReader {
 public:
  /// The events that `bytes` completes.
  std::vector<ServerSentEvent> Feed(std::string_view bytes);

 private:
  void TakeLine(std::vector<ServerSentEvent>& events);

  std::string line_;
  bool after_return_ = false;  // a line feed behind it ends no other line
  bool first_line_ = true;
  bool has_data_ = false;
  ServerSentEvent event_;
};

}  // namespace kv8
