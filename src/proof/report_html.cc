#include "proof/report_html.h"

#include <fmt/format.h>

#include <vector>

#include "proof/svg.h"

namespace kv8 {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5c6670;--line:#d5dae0;--card:#f5f7f9;
--a:#7a8794;--b:#1663c7;--good:#1a7f37;--bad:#c62828}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e9ec;--dim:#9aa5b0;--line:#343b42;
--card:#1d2226;--a:#8f9ba7;--b:#6cabff;--good:#56c271;--bad:#ff7b72}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:0}
p{margin:.3rem 0}.dim{color:var(--dim);font-size:.88rem}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(19rem,100%),1fr));gap:.8rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;
overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line)}
svg{display:block;width:100%;max-width:34rem;height:auto}
svg text{fill:var(--fg);font-size:10px;font-family:inherit}
svg .a{fill:var(--a)}svg .b{fill:var(--b)}svg .zero{stroke:var(--dim)}
.key::before{content:"";display:inline-block;width:.8em;height:.8em;margin-right:.3em}
.key.a::before{background:var(--a)}.key.b::before{background:var(--b)}
)css";

std::string Text(const Json& value) {
  if (value.is_null()) return "&ndash;";
  if (value.is_string()) return EscapeHtml(value.get_ref<const std::string&>());
  if (value.is_number_float()) return NumberText(value.get<double>());
  return EscapeHtml(value.dump());
}

/// The values of `keys` in each row, as a table.
std::string Table(const Json& rows, const std::vector<const char*>& keys) {
  std::string html = "<div class=\"wide\"><table><tr>";
  for (std::string head : keys) {
    for (char& c : head) c = c == '_' ? ' ' : c;
    html += "<th>" + EscapeHtml(head) + "</th>";
  }
  html += "</tr>";
  for (const Json& row : rows) {
    html += "<tr>";
    for (const char* key : keys) html += "<td>" + Text(row[key]) + "</td>";
    html += "</tr>";
  }
  return html + "</table></div>";
}

std::string VerdictCard(const Json& verdict) {
  const auto outcome = verdict["outcome"].get<std::string>();
  const char* const mood = outcome == "B is worse" ? "bad" : outcome == "B is better" ? "good" : "";
  std::string html =
      fmt::format("<div class=\"card\"><h3>{}</h3><p class=\"{}\">{}</p><p>A {} &rarr; B {}</p>",
                  Text(verdict["what"]), mood, Text(verdict["outcome"]), Text(verdict["a"]),
                  Text(verdict["b"]));
  if (verdict.contains("p")) {
    html += fmt::format("<p class=\"dim\">{} pairs; {} lost, {} gained; McNemar p = {}</p>",
                        Text(verdict["pairs"]), Text(verdict["lost"]), Text(verdict["gained"]),
                        Text(verdict["p"]));
  } else {
    if (!verdict["low"].is_null()) {
      html += IntervalPlot(verdict["low"].get<double>(), verdict["difference"].get<double>(),
                           verdict["high"].get<double>());
    }
    html += fmt::format("<p class=\"dim\">{} pairs; difference {}, 95% from {} to {}</p>",
                        Text(verdict["pairs"]), Text(verdict["difference"]), Text(verdict["low"]),
                        Text(verdict["high"]));
  }
  const std::string effect =
      verdict["smallest_effect"].is_null()
          ? "No size of an effect can be told that these pairs would have shown."
          : "Smallest effect that 80% of such runs would show: " + Text(verdict["smallest_effect"]);
  return html + "<p class=\"dim\">" + effect + "</p></div>";
}

std::string GateTable(const Json& gates) {
  std::string html =
      "<div class=\"wide\"><table><tr><th></th><th>gate</th><th>value</th>"
      "<th>limit</th></tr>";
  for (const Json& gate : gates) {
    const bool passed = gate["passed"].get<bool>();
    std::string limit;
    if (!gate["at_least"].is_null()) limit += "&ge; " + Text(gate["at_least"]) + " ";
    if (!gate["at_most"].is_null()) limit += "&le; " + Text(gate["at_most"]);
    html += fmt::format(
        "<tr><td class=\"{}\">{}</td><td>{}<br><span class=\"dim\">{}</span></td><td>{}</td>"
        "<td>{}</td></tr>",
        passed ? "good" : "bad", passed ? "passed" : "failed", Text(gate["name"]),
        Text(gate["figure"]), gate["value"].is_null() ? "not measured" : Text(gate["value"]),
        limit);
  }
  return html + "</table></div>";
}

std::string Section(const std::string& title, const std::string& note, const std::string& body) {
  return "<h2>" + EscapeHtml(title) + "</h2><p class=\"dim\">" + EscapeHtml(note) + "</p>" + body;
}

/// Bars of `keys` by the value of `label`; nothing where the report has no such table.
std::string Plot(const Json& report, const char* table, const char* label,
                 const std::vector<const char*>& keys, const std::string& title,
                 const std::string& note) {
  const Json& diagnostics = report["diagnostics"];
  if (!diagnostics.contains(table) || diagnostics[table].empty()) return "";
  std::vector<BarRow> rows;
  for (const Json& row : diagnostics[table]) {
    const std::string name =
        row[label].is_string() ? row[label].get<std::string>() : row[label].dump();
    BarRow& bars = rows.emplace_back(BarRow{.label = name, .values = {}});
    for (const char* key : keys) bars.values.push_back(row[key].get<double>());
  }
  return Section(title, note, BarPlot(title, rows));
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
                      : Section("Clipped values under B", "by layer and side",
                                BarPlot("Clipped values under B", rows));
}

std::string CapacityPlot(const Json& report) {
  std::vector<BarRow> rows;
  for (const char* arm : {"a", "b"}) {
    const Json& bytes = report["arms"][arm]["bytes_per_token"];
    if (bytes.is_null()) continue;
    const auto dtype = report["arms"][arm]["kv_cache_dtype"].get<std::string>();
    rows.push_back({(*arm == 'a' ? "A " : "B ") + dtype, {bytes.get<double>()}});
  }
  return rows.empty() ? ""
                      : Section("Capacity", "bytes of K and V a token takes, all layers",
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
    html += Section(
        "Retrieval by context and depth", "facts found",
        Table(diagnostics["retrieval"], {"context", "depth", "pairs", "right_a", "right_b"}));
  }
  return html + ClippedPlot(report) + CapacityPlot(report);
}

std::string Head(const Json& report) {
  const bool passed = report["passed"].get<bool>();
  return fmt::format(
      "<h1>kv8 verify: <span class=\"{}\">{}</span></h1><p><span class=\"key a\">A: {}</span> "
      "&nbsp; <span class=\"key b\">B: {}</span></p><p class=\"dim\">{} documents, corpus {}</p>",
      passed ? "good" : "bad", passed ? "all gates passed" : "not passed",
      Text(report["arms"]["a"]["kv_cache_dtype"]), Text(report["arms"]["b"]["kv_cache_dtype"]),
      Text(report["documents"]), Text(report["corpus_sha256"]));
}

std::string Body(const Json& report) {
  std::string html = Head(report);
  if (!report["failures"].empty()) {
    html += Section("What did not run", "the other results stand without it",
                    Table(report["failures"], {"arm", "measurement", "where", "what", "remedy"}));
  }
  std::string cards = "<div class=\"cards\">";
  for (const Json& verdict : report["verdicts"]) cards += VerdictCard(verdict);
  html += Section("Verdicts",
                  "\"No difference shown\" does not mean equal. Each verdict errs in one of twenty "
                  "cases without a difference.",
                  cards + "</div>");
  html += Section("Gates", "limits that must hold", GateTable(report["gates"]));
  return html + Plots(report);
}

}  // namespace

std::string ReportHtml(const Json& report) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>kv8 verify</title><style>{}</style></head>\n<body>{}</body></html>\n",
      kStyle, Body(report));
}

}  // namespace kv8
