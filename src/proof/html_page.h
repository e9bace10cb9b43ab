// Pieces of a page for people: one file, no scripts, nothing asked of elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kv8 {

/// A value as text of HTML; a dash for null.
std::string HtmlText(const Json& value);

/// The values of `keys` in each row, as a table; a key's underscores are spaces in its head.
std::string HtmlTable(const Json& rows, const std::vector<const char*>& keys);

/// A title, a line below it, and what it is about.
std::string HtmlSection(std::string_view title, std::string_view note, const std::string& body);

/// The whole page. `body` is HTML, `title` text.
std::string HtmlPage(std::string_view title, const std::string& body);

}  // namespace kv8
