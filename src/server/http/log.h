// The server's log on standard error: one line per event, as text or as JSON.
#pragma once

#include <unistd.h>

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
  std::variant<std::string_view, std::int64_t, double> value;  // a long text is cut
};

/// Thread-safe. Lines are written by a thread of its own: where nobody reads them, some get lost,
/// and a later line says how many; the server never waits.
class Log {
 public:
  /// `fd` outlives the log.
  Log(LogLevel level, LogFormat format, int fd = STDERR_FILENO);
  /// Writes what is left, for a second at most.
  ~Log();

  bool Wants(LogLevel level) const;
  /// Lines that were lost so far.
  std::uint64_t lost() const;
  /// Text: "<time> <level> <event> name=value ..."; JSON: {"time", "level", "event", name: value}.
  void Write(LogLevel level, std::string_view event, std::span<const LogField> fields);
  void Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {}) {
    Write(level, event, std::span(fields.begin(), fields.size()));
  }

 private:
  class Sink;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv8
