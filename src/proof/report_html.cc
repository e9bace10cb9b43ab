#include "proof/report_html.h"

#include <fmt/format.h>

#include <vector>

#include "proof/attention_html.h"
#include "proof/html_page.h"
#include "proof/svg.h"

namespace kv8 {
namespace {

std::string VerdictCard(const Json& verdict) {
  const auto outcome = verdict["outcome"].get<std::string>();
  const char* const mood = outcome == "B is worse" ? "bad" : outcome == "B is better" ? "good" : "";
  std::string html =
      fmt::format("<div class=\"card\"><h3>{}</h3><p class=\"{}\">{}</p><p>A {} &rarr; B {}</p>",
                  HtmlText(verdict["what"]), mood, HtmlText(verdict["outcome"]),
                  HtmlText(verdict["a"]), HtmlText(verdict["b"]));
  if (verdict.contains("p")) {
    html += fmt::format("<p class=\"dim\">{} pairs; {} lost, {} gained; McNemar p = {}</p>",
                        HtmlText(verdict["pairs"]), HtmlText(verdict["lost"]),
                        HtmlText(verdict["gained"]), HtmlText(verdict["p"]));
  } else {
    if (!verdict["low"].is_null()) {
      html += IntervalPlot(verdict["low"].get<double>(), verdict["difference"].get<double>(),
                           verdict["high"].get<double>());
    }
    html += fmt::format("<p class=\"dim\">{} pairs; difference {}, 95% from {} to {}</p>",
                        HtmlText(verdict["pairs"]), HtmlText(verdict["difference"]),
                        HtmlText(verdict["low"]), HtmlText(verdict["high"]));
  }
  const std::string effect =
      verdict["smallest_effect"].is_null()
          ? "No size of an effect can be told that these pairs would have shown."
          : "Smallest effect that 80% of such runs would show: " +
                HtmlText(verdict["smallest_effect"]);
  return html + "<p class=\"dim\">" + effect + "</p></div>";
}

std::string GateTable(const Json& gates) {
  std::string html =
      "<div class=\"wide\"><table><tr><th></th><th>gate</th><th>value</th>"
      "<th>limit</th></tr>";
  for (const Json& gate : gates) {
    const bool passed = gate["passed"].get<bool>();
    const bool measured = !gate["value"].is_null();
    std::string limit;
    if (!gate["at_least"].is_null()) limit += "&ge; " + HtmlText(gate["at_least"]) + " ";
    if (!gate["at_most"].is_null()) limit += "&le; " + HtmlText(gate["at_most"]);
    html += fmt::format(
        "<tr><td class=\"{}\">{}</td><td>{}<br><span class=\"dim\">{}</span></td><td>{}</td>"
        "<td>{}</td></tr>",
        !passed    ? "bad"
        : measured ? "good"
                   : "dim",
        !passed    ? "failed"
        : measured ? "passed"
                   : "",
        HtmlText(gate["name"]), HtmlText(gate["figure"]),
        measured ? HtmlText(gate["value"]) : "not measured", limit);
  }
  return html + "</table></div>";
}

/// Bars of `keys` by the value of `label`; nothing where the report has no such table.
std::string Plot(const Json& report, const char* table, const char* label,
                 const std::vector<const char*>& keys, const std::string& title,
                 const std::string& note) {
  const Json& diagnostics = report["diagnostics"];
  if (!diagnostics.contains(table) || diagnostics[table].empty()) return "";
  std::vector<BarRow> rows;
  for (const Json& row : diagnostics[table]) {
    if (!row.contains(keys.front())) continue;
    const std::string name =
        row[label].is_string() ? row[label].get<std::string>() : row[label].dump();
    BarRow& bars = rows.emplace_back(BarRow{.label = name, .values = {}});
    for (const char* key : keys) bars.values.push_back(row[key].get<double>());
  }
  return rows.empty() ? "" : HtmlSection(title, note, BarPlot(title, rows));
}

std::string ClippedPlot(const Json& report) {
  std::vector<BarRow> rows;
  for (const Json& layer : report["diagnostics"]["losses"]["b"]) {
    const std::string name =
        (layer["draft"].get<bool>() ? "draft " : "layer ") + layer["layer"].dump();
    rows.push_back({name + " K", {layer["clipped_k"].get<double>()}});
    rows.push_back({name + " V", {layer["clipped_v"].get<double>()}});
  }
  return rows.empty() ? ""
                      : HtmlSection("Clipped values under B", "by layer and side",
                                    BarPlot("Clipped values under B", rows));
}

/// Its cache type, or the server and its model.
std::string ArmName(const Json& arm) {
  if (arm["server"].is_null()) return arm["kv_cache_dtype"].get<std::string>();
  return arm["model"].get<std::string>() + " at " + arm["server"].get<std::string>();
}

std::string CapacityPlot(const Json& report) {
  std::vector<BarRow> rows;
  for (const char* arm : {"a", "b"}) {
    const Json& bytes = report["arms"][arm]["bytes_per_token"];
    if (bytes.is_null()) continue;
    rows.push_back(
        {(*arm == 'a' ? "A " : "B ") + ArmName(report["arms"][arm]), {bytes.get<double>()}});
  }
  return rows.empty() ? ""
                      : HtmlSection("Capacity", "bytes of K and V a token takes, all layers",
                                    BarPlot("Bytes per token", rows));
}

std::string Plots(const Json& report) {
  const Json& diagnostics = report["diagnostics"];
  std::string html = Plot(report, "by_position", "positions_from_to", {"kl"},
                          "KL divergence by position", "nats, A to B; a lower bound");
  html += Plot(report, "by_category", "category", {"kl"}, "KL divergence by category",
               "nats, A to B; a lower bound");
  html += Plot(report, "acceptance_by_context", "context", {"acceptance_a", "acceptance_b"},
               "Accepted drafts by context", "share of drafted tokens; context in tokens");
  html += Plot(report, "acceptance_by_draft", "draft", {"acceptance_a", "acceptance_b"},
               "Accepted drafts by their number in a step", "share of drafted tokens");
  if (diagnostics.contains("retrieval") && !diagnostics["retrieval"].empty()) {
    html += HtmlSection(
        "Retrieval by context and depth", "facts found",
        HtmlTable(diagnostics["retrieval"], {"context", "depth", "pairs", "right_a", "right_b"}));
  }
  return "<div class=\"plots\">" + html + ClippedPlot(report) + CapacityPlot(report) +
         CodePlots(diagnostics) + "</div>" + AttentionTables(diagnostics);
}

std::string Head(const Json& report) {
  const bool passed = report["passed"].get<bool>();
  return fmt::format(
      "<h1>kv8 verify: <span class=\"{}\">{}</span></h1><p><span class=\"key a\">A: {}</span> "
      "&nbsp; <span class=\"key b\">B: {}</span></p><p class=\"dim\">{} documents, corpus {}</p>",
      passed ? "good" : "bad", passed ? "all gates passed" : "not passed",
      HtmlText(ArmName(report["arms"]["a"])), HtmlText(ArmName(report["arms"]["b"])),
      HtmlText(report["documents"]), HtmlText(report["corpus_sha256"]));
}

std::string Body(const Json& report) {
  std::string html = Head(report);
  if (!report["failures"].empty()) {
    html += HtmlSection(
        "What did not run", "the other results stand without it",
        HtmlTable(report["failures"], {"arm", "measurement", "where", "what", "remedy"}));
  }
  std::string cards = "<div class=\"cards\">";
  for (const Json& verdict : report["verdicts"]) cards += VerdictCard(verdict);
  html +=
      HtmlSection("Verdicts",
                  "\"No difference shown\" does not mean equal. Each verdict errs in one of twenty "
                  "cases without a difference.",
                  cards + "</div>");
  html += HtmlSection("Gates", "limits that must hold", GateTable(report["gates"]));
  html += Plots(report);
  if (report["not_measured"].empty()) return html;
  return html + HtmlSection("What was not measured", "a server cannot say everything",
                            HtmlTable(report["not_measured"], {"arm", "measurement", "reason"}));
}

}  // namespace

std::string ReportHtml(const Json& report) {
  return HtmlPage("kv8 verify", Body(report));
}

}  // namespace kv8
