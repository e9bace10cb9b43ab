#include "calib/progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>

namespace kv8 {
namespace {

std::string DurationText(double seconds) {
  const auto total = static_cast<std::int64_t>(std::ceil(seconds));
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total % 3600 / 60);
}

std::string EndText(double seconds_left, ProgressMeter::WallClock wall) {
  const auto end = wall + std::chrono::seconds(static_cast<std::int64_t>(std::ceil(seconds_left)));
  const std::tm local = fmt::localtime(std::chrono::system_clock::to_time_t(end));
  // A time of day alone would mislead beyond a day.
  return seconds_left < 20 * 3600 ? fmt::format("{:%H:%M:%S}", local)
                                  : fmt::format("{:%Y-%m-%d %H:%M}", local);
}

}  // namespace

std::optional<std::string> ProgressMeter::Update(const CalibrationProgress& progress, Monotonic now,
                                                 WallClock wall) {
  if (!start_) {
    start_ = last_line_ = now;
    start_tokens_ = progress.tokens_done;
  }
  const bool finished = progress.tokens_done == progress.tokens_total;
  if (!finished && now - last_line_ < interval_) return std::nullopt;
  last_line_ = now;
  std::string line = fmt::format("{}: {:.1f}%, {} of {} tokens", progress.pass,
                                 100.0 * static_cast<double>(progress.tokens_done) /
                                     static_cast<double>(progress.tokens_total),
                                 progress.tokens_done, progress.tokens_total);
  const double seconds = std::chrono::duration<double>(now - *start_).count();
  const double rate = static_cast<double>(progress.tokens_done - start_tokens_) / seconds;
  if (!(rate > 0) || !std::isfinite(rate)) return line;
  line += fmt::format(", {:.0f} tokens/s", rate);
  if (finished) return line + fmt::format(", {} in all", DurationText(seconds));
  const double left = static_cast<double>(progress.tokens_total - progress.tokens_done) / rate;
  return line + fmt::format(", {} left, done at {}", DurationText(left), EndText(left, wall));
}

}  // namespace kv8
