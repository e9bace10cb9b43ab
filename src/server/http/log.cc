#include "server/http/log.h"

#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <chrono>
#include <new>

#include "base/json.h"
#include "server/http/line_writer.h"

namespace kv8 {
namespace {

constexpr std::size_t kQueuedLines = 8192;
constexpr std::size_t kMaxText = 300;  // bytes of a value: clients choose some, and lines wait

/// How long the end of the log waits for a reader that does not read.
constexpr std::chrono::milliseconds kGrace{1'000};

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

/// Clients choose some of these texts: ASCII alone, so that no terminal obeys them.
std::string Quoted(std::string_view text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// Whether a text stands for itself between blanks.
bool IsWord(std::string_view text) {
  for (const char c : text) {
    if (c <= 0x20 || c >= 0x7F || c == '"' || c == '=' || c == '\\') return false;
  }
  return !text.empty();
}

std::string ValueText(const LogField& field, LogFormat format) {
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&field.value)) return fmt::format("{:.6f}", *number);
  const std::string_view text = std::get<std::string_view>(field.value).substr(0, kMaxText);
  return format == LogFormat::kText && IsWord(text) ? std::string(text) : Quoted(text);
}

std::string LineOf(LogFormat format, std::string_view event, std::span<const LogField> fields) {
  const bool json = format == LogFormat::kJson;
  std::string line = json ? "\"event\":" + Quoted(event) : std::string(event);
  for (const LogField& field : fields) {
    line += json ? ",\"" : " ";
    line.append(field.name).append(json ? "\":" : "=");
    line += ValueText(field, format);
  }
  return line;
}

}  // namespace

/// Writes what the log's own thread hands it, and tells how many lines were lost before.
class Log::Sink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  Sink(int fd, LogFormat format) : writer_(fd), format_(format) {}

  LineWriter& writer() { return writer_; }
  /// Lines that could not be written, and those that others overran in the line of waiting ones.
  std::uint64_t lost() const { return lost_ + overrun_; }
  void CountLoss() { ++lost_; }
  void NoteOverrun(std::size_t lines) { overrun_ = lines; }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (const std::uint64_t lost = this->lost(); lost > told_) {
      const std::string text =
          format_ == LogFormat::kJson
              ? fmt::format(R"("event":"log lines lost","count":{})", lost - told_)
              : fmt::format("log lines lost count={}", lost - told_);
      spdlog::details::log_msg loss(message.logger_name, spdlog::level::warn, text);
      if (WriteLine(loss)) told_ = lost;
    }
    if (!WriteLine(message)) ++lost_;
  }
  void flush_() override {}

 private:
  bool WriteLine(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    return writer_.Write({line.data(), line.size()});
  }

  LineWriter writer_;
  const LogFormat format_;
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> overrun_{0};
  std::uint64_t told_ = 0;
};

class Log::Impl {
 public:
  Impl(LogLevel level, LogFormat line_format, int fd)
      : format(line_format),
        sink(std::make_shared<Sink>(fd, line_format)),
        pool(std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1)),
        logger(std::make_shared<spdlog::async_logger>(
            "kv8", sink, pool, spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_level(LevelOf(level));
    logger->set_pattern(format == LogFormat::kJson
                            ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                            : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                        spdlog::pattern_time_type::utc);
    // Otherwise spdlog writes to standard error itself, and waits for it.
    logger->set_error_handler([sink = sink.get()](const std::string&) { sink->CountLoss(); });
  }
  ~Impl() { sink->writer().Stop(kGrace); }

  const LogFormat format;
  const std::shared_ptr<Sink> sink;
  const std::shared_ptr<spdlog::details::thread_pool> pool;
  const std::shared_ptr<spdlog::async_logger> logger;
};

Log::Log(LogLevel level, LogFormat format, int fd)
    : impl_(std::make_unique<Impl>(level, format, fd)) {}

Log::~Log() = default;

bool Log::Wants(LogLevel level) const {
  return impl_->logger->should_log(LevelOf(level));
}

std::uint64_t Log::lost() const {
  return impl_->sink->lost();
}

void Log::Write(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  if (!Wants(level)) return;
  try {
    const std::string line = LineOf(impl_->format, event, fields);
    impl_->logger->log(LevelOf(level), spdlog::string_view_t(line.data(), line.size()));
    impl_->sink->NoteOverrun(impl_->pool->overrun_counter());
  } catch (const std::bad_alloc&) {
    impl_->sink->CountLoss();
  }
}

}  // namespace kv8
