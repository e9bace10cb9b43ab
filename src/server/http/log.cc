#include "server/http/log.h"

#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/json.h"

namespace kv8 {
namespace {

constexpr std::size_t kQueuedLines = 8192;

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
  const std::string_view text = std::get<std::string_view>(field.value);
  return format == LogFormat::kText && IsWord(text) ? std::string(text) : Quoted(text);
}

}  // namespace

class Log::Impl {
 public:
  Impl(LogLevel level, LogFormat line_format)
      : format(line_format),
        pool(std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1)),
        logger(std::make_shared<spdlog::async_logger>(
            "kv8", std::make_shared<spdlog::sinks::stderr_sink_mt>(), pool,
            spdlog::async_overflow_policy::overrun_oldest)) {
    logger->set_level(LevelOf(level));
    logger->set_pattern(format == LogFormat::kJson
                            ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                            : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                        spdlog::pattern_time_type::utc);
    logger->flush_on(spdlog::level::info);
  }

  const LogFormat format;
  const std::shared_ptr<spdlog::details::thread_pool> pool;
  const std::shared_ptr<spdlog::async_logger> logger;
};

Log::Log(LogLevel level, LogFormat format) : impl_(std::make_unique<Impl>(level, format)) {}

Log::~Log() = default;

bool Log::Wants(LogLevel level) const {
  return impl_->logger->should_log(LevelOf(level));
}

void Log::Write(LogLevel level, std::string_view event, std::span<const LogField> fields) {
  if (!Wants(level)) return;
  const bool json = impl_->format == LogFormat::kJson;
  std::string line = json ? "\"event\":" + Quoted(event) : std::string(event);
  for (const LogField& field : fields) {
    line += json ? ",\"" : " ";
    line.append(field.name).append(json ? "\":" : "=");
    line += ValueText(field, impl_->format);
  }
  impl_->logger->log(LevelOf(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace kv8
