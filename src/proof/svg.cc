#include "proof/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "numeric/e4m3.h"

namespace kv8 {
namespace {

// Units of the drawing; a phone shows 360 of them at their size.
constexpr double kWidth = 360;
constexpr double kLabelWidth = 96;
constexpr double kNumberWidth = 62;
constexpr double kBarHeight = 12;
constexpr double kRowGap = 8;

std::string Open(const std::string& title, double height) {
  return fmt::format(
      R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}" xmlns="http://www.w3.org/2000/svg">)",
      kWidth, height, EscapeHtml(title));
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string NumberText(double value) {
  return fmt::format("{:.4g}", value);
}

std::string BarPlot(const std::string& title, const std::vector<BarRow>& rows) {
  double most = 0;
  double height = kRowGap;
  for (const BarRow& row : rows) {
    for (const double value : row.values) most = std::max(most, value);
    height += kBarHeight * static_cast<double>(row.values.size()) + kRowGap;
  }
  std::string svg = Open(title, height);
  double y = kRowGap / 2;
  for (const BarRow& row : rows) {
    svg +=
        fmt::format(R"(<text x="0" y="{}">{}</text>)", y + kBarHeight - 2, EscapeHtml(row.label));
    for (std::size_t i = 0; i < row.values.size(); ++i, y += kBarHeight) {
      const double share = most > 0 ? std::max(0.0, row.values[i]) / most : 0;
      const double width = share * (kWidth - kLabelWidth - kNumberWidth);
      svg += fmt::format(R"(<rect class="{}" x="{}" y="{}" width="{:.1f}" height="{}"/>)",
                         i + 1 == row.values.size() ? "b" : "a", kLabelWidth, y, width,
                         kBarHeight - 2);
      svg += fmt::format(R"(<text x="{:.1f}" y="{}">{}</text>)", kLabelWidth + width + 4,
                         y + kBarHeight - 2, NumberText(row.values[i]));
    }
    y += kRowGap;
  }
  return svg + "</svg>";
}

std::string CodePlot(const std::string& title, const std::vector<double>& counts) {
  constexpr double kHeight = 80;
  double most = 0;
  for (const double count : counts) most = std::max(most, count);
  const double width = kWidth / static_cast<double>(counts.size());
  std::string svg = Open(title, kHeight + 14);
  for (std::size_t code = 0; code < counts.size() && most > 0; ++code) {
    const double height = counts[code] / most * kHeight;
    svg += fmt::format(R"(<rect class="b" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/>)",
                       width * static_cast<double>(code), kHeight - height, width * 0.8, height);
  }
  svg += fmt::format(R"(<line class="axis" x1="0" x2="{0}" y1="{1}" y2="{1}"/>)", kWidth, kHeight);
  for (const int code : {0, 24, 56, 88, 120}) {
    svg += fmt::format(R"(<text x="{:.1f}" y="{}">{}</text>)", width * code, kHeight + 11,
                       NumberText(DecodeE4M3(static_cast<std::uint8_t>(code))));
  }
  return svg + "</svg>";
}

std::string IntervalPlot(double low, double middle, double high) {
  const double most = std::max({std::abs(low), std::abs(high), 1e-300}) * 1.15;
  const auto x = [most](double value) { return kWidth / 2 * (1 + value / most); };
  std::string svg = Open("interval around the difference; the thin line is 0", 24);
  svg += fmt::format(R"(<line class="zero" x1="{0}" x2="{0}" y1="0" y2="24"/>)", kWidth / 2);
  svg += fmt::format(R"(<rect class="b" x="{:.1f}" y="10" width="{:.1f}" height="4"/>)", x(low),
                     std::max(1.0, x(high) - x(low)));
  svg += fmt::format(R"(<circle class="b" cx="{:.1f}" cy="12" r="6"/>)", x(middle));
  return svg + "</svg>";
}

}  // namespace kv8
