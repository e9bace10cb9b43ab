// report.html: a report for a person, in one file that asks for nothing else.
#pragma once

#include <string>

#include "base/json.h"

namespace kv8 {

/// The page of a report that ReportJson has made. No script, no outside request; follows the
/// reader's light or dark setting.
std::string ReportHtml(const Json& report);

}  // namespace kv8
