// Text of HTML and plots for a page without scripts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kv8 {

/// Safe as text and inside of a quoted attribute.
std::string EscapeHtml(std::string_view text);

/// Four significant digits.
std::string NumberText(double value);

/// A row of bars: one per series, in the colours of A and B.
struct BarRow {
  std::string label;
  std::vector<double> values;  // finite; below 0 as 0
};

/// Horizontal bars from 0, as inline SVG that fits the width it gets; each with its number.
std::string BarPlot(const std::string& title, const std::vector<BarRow>& rows);

/// Columns of how many values have each magnitude of an E4M3 code, from 0 to 448 (and NaN behind
/// it), over an axis that names some of them.
std::string CodePlot(const std::string& title, const std::vector<double>& counts);

/// An interval, its middle, and 0.
std::string IntervalPlot(double low, double middle, double high);

}  // namespace kv8
