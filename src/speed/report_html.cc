#include <fmt/format.h>

#include "proof/html_page.h"
#include "proof/svg.h"
#include "speed/report.h"
#include "speed/spread.h"

namespace kv8 {
namespace {

std::string CellName(const Json& cell) {
  return fmt::format("{} x {}", cell["context"].dump(), cell["sequences"].dump());
}

/// Bars of a figure of each cell, A's and B's.
std::string CellPlot(const Json& report, const char* figure, const std::string& title) {
  std::vector<BarRow> rows;
  for (const Json& cell : report["cells"]) {
    BarRow& row = rows.emplace_back(BarRow{.label = CellName(cell), .values = {}});
    for (const char* arm : {"a", "b"}) {
      if (cell.contains(arm)) row.values.push_back(cell[arm][figure]["median"].get<double>());
    }
  }
  return rows.empty()
             ? ""
             : HtmlSection(title, "tokens/s, median; context x sequences", BarPlot(title, rows));
}

/// One row for each cell and arm.
std::string CellTable(const Json& report) {
  Json rows = Json::array();
  for (const Json& cell : report["cells"]) {
    for (const char* arm : {"a", "b"}) {
      if (!cell.contains(arm)) continue;
      const Json& of = cell[arm];
      rows.push_back({{"cell", CellName(cell)},
                      {"arm", arm},
                      {"prefill", SpreadText(of["prefill_tokens_per_second"])},
                      {"first_token", SpreadText(of["first_token_seconds"])},
                      {"decode", SpreadText(of["decode_tokens_per_second"])},
                      {"tokens_per_step", of["tokens_per_step"]["median"]},
                      {"acceptance", of["acceptance"]}});
    }
  }
  return rows.empty() ? ""
                      : HtmlSection("Every cell", "median (smallest to largest) of the repeats",
                                    HtmlTable(rows, {"cell", "arm", "prefill", "first_token",
                                                     "decode", "tokens_per_step", "acceptance"}));
}

/// Rows whose figure `spread` is shown as text.
std::string SpreadTable(const Json& rows, const char* spread, const std::string& title,
                        const std::string& note, const std::vector<const char*>& keys) {
  if (rows.empty()) return "";
  Json shown = rows;
  for (Json& row : shown) row[spread] = SpreadText(row[spread]);
  return HtmlSection(title, note, HtmlTable(shown, keys));
}

std::string MemoryTable(const Json& report) {
  if (!report["arms"]["a"].contains("memory")) return "";
  Json rows = Json::array();
  for (const auto& [owner, bytes] : report["arms"]["a"]["memory"].items()) {
    Json row = {{"owner", owner}, {"a", bytes}};
    if (report["arms"].contains("b")) row["b"] = report["arms"]["b"]["memory"][owner];
    rows.push_back(std::move(row));
  }
  std::vector<const char*> keys = {"owner", "a"};
  if (report["arms"].contains("b")) keys.push_back("b");
  return HtmlSection("Memory", "bytes beside the mapped weights, by owner", HtmlTable(rows, keys));
}

std::string RouteTable(const Json& report) {
  if (!report["arms"]["a"].contains("routes")) return "";
  Json rows = Json::array();
  for (const auto& [op, code] : report["arms"]["a"]["routes"].items()) {
    Json row = {{"op", op}, {"a", code}};
    if (report["arms"].contains("b")) row["b"] = report["arms"]["b"]["routes"].value(op, "");
    rows.push_back(std::move(row));
  }
  std::vector<const char*> keys = {"op", "a"};
  if (report["arms"].contains("b")) keys.push_back("b");
  return HtmlSection("Routes", "the code that ran each op", HtmlTable(rows, keys));
}

/// The cache's type, or the server.
std::string ArmName(const Json& arm) {
  return HtmlText(arm.contains("server") ? arm["server"] : arm["kv_cache_dtype"]);
}

std::string Head(const Json& report) {
  std::string html = fmt::format("<h1>kv8 bench</h1><p><span class=\"key a\">A: {}</span>",
                                 ArmName(report["arms"]["a"]));
  if (report["arms"].contains("b")) {
    html += fmt::format(" &nbsp; <span class=\"key b\">B: {}</span>", ArmName(report["arms"]["b"]));
  }
  html += fmt::format("</p><p class=\"dim\">{}; prompts: {}; {} repeats after one to warm up</p>",
                      HtmlText(report["model"]), HtmlText(report["prompts"]),
                      HtmlText(report["repeats"]));
  for (const Json& line : report["differences"]) {
    html += "<p class=\"bad\">A and B are not comparable: " + HtmlText(line) + "</p>";
  }
  return html;
}

}  // namespace

std::string BenchHtml(const Json& report) {
  std::string html = Head(report) + "<div class=\"plots\">" +
                     CellPlot(report, "decode_tokens_per_second", "Decode") +
                     CellPlot(report, "prefill_tokens_per_second", "Prefill") + "</div>" +
                     CellTable(report);
  if (!report["skipped"].empty()) {
    html += HtmlSection("Skipped", "what has no room here",
                        HtmlTable(report["skipped"], {"context", "sequences", "reason"}));
  }
  html += SpreadTable(report["conversations"], "first_token_seconds", "Conversations",
                      "seconds to the first token of each turn; share of the prompt reused",
                      {"arm", "turn", "prompt_tokens", "reused", "first_token_seconds"});
  html +=
      SpreadTable(report["structured"], "tokens_per_second", "Structured output",
                  "objects of a JSON schema, several at once",
                  {"arm", "sequences", "tokens_per_second", "acceptance", "complete", "outputs"});
  return HtmlPage("kv8 bench", html + MemoryTable(report) + RouteTable(report));
}

}  // namespace kv8
