#include "proof/attention_html.h"

#include <fmt/format.h>

#include <vector>

#include "proof/html_page.h"
#include "proof/svg.h"

namespace kv8 {
namespace {

bool Has(const Json& diagnostics, const char* table) {
  return diagnostics.contains(table) && !diagnostics[table].empty();
}

std::string SideName(const Json& side) {
  return fmt::format("layer {} {}", side["layer"].get<int>(),
                     side["side"].get_ref<const std::string&>() == "k" ? "K" : "V");
}

/// One row for each layer, side and head.
Json MarginRows(const Json& stored) {
  Json rows = Json::array();
  for (const Json& side : stored) {
    for (Json row : side["heads"]) {
      row["of"] = SideName(side);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

std::string AttentionTables(const Json& diagnostics) {
  std::string html;
  if (Has(diagnostics, "attention")) {
    html += HtmlSection(
        "Attention by layer",
        "recall: share of A's selection blocks that B chose, over rows that must choose; cosine "
        "and relative L2: outputs before their projection",
        HtmlTable(diagnostics["attention"],
                  {"layer", "choosing_rows", "recall", "jaccard", "cosine", "relative_l2"}));
  }
  if (Has(diagnostics, "stored")) {
    html += HtmlSection(
        "Values clipped by margin",
        "texts that were not calibrated on; with B's scales times 1.00, 1.05 and 1.10",
        HtmlTable(MarginRows(diagnostics["stored"]), {"of", "head", "values", "clipped_at_1.00",
                                                      "clipped_at_1.05", "clipped_at_1.10"}));
  }
  if (Has(diagnostics, "scales")) {
    html += HtmlSection("Scales", "the largest change first",
                        HtmlTable(diagnostics["scales"], {"layer", "side", "a", "b", "ratio"}));
  }
  return html;
}

std::string CodePlots(const Json& diagnostics) {
  if (!Has(diagnostics, "stored")) return "";
  std::string html;
  for (const Json& side : diagnostics["stored"]) {
    const std::string name = SideName(side);
    html += HtmlSection("Codes of " + name, "share of values with each code, sign left out",
                        CodePlot("Codes of " + name, side["codes"].get<std::vector<double>>()));
  }
  return html;
}

}  // namespace kv8
