// The server's log on standard error: one line per event, as text or as JSON.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace kv8 {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

/// A named value of an event.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double> value;
};

/// Thread-safe. Lines are written by a thread of its own: a standard error that nobody reads makes
/// lines get lost, never the server wait.
class Log {
 public:
  Log(LogLevel level, LogFormat format);
  ~Log();

  bool Wants(LogLevel level) const;
  /// Text: "<time> <level> <event> name=value ..."; JSON: {"time", "level", "event", name: value}.
  void Write(LogLevel level, std::string_view event, std::span<const LogField> fields);
  void Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {}) {
    Write(level, event, std::span(fields.begin(), fields.size()));
  }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv8
