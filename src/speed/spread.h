// A figure measured several times.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace kv8 {

/// Median, smallest and largest of `values`, and all of them in the order measured; null of none.
Json SpreadJson(const std::vector<double>& values);

/// "median (smallest to largest)", or a dash for null.
std::string SpreadText(const Json& spread);

/// The middle, or the mean of the two in the middle. `values` is not empty.
double Median(std::vector<double> values);

}  // namespace kv8
