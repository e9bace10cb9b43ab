#include "proof/html_page.h"

#include <fmt/format.h>

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
section{min-width:0}.plots{display:grid;gap:0 2rem;
grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr))}
h1,p{overflow-wrap:anywhere}h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:0}
p{margin:.3rem 0}.dim{color:var(--dim);font-size:.88rem}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(19rem,100%),1fr));gap:.8rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;
overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line)}
svg{display:block;width:100%;max-width:34rem;height:auto}
svg .axis{stroke:var(--line)}svg text{fill:var(--fg);font-size:10px;font-family:inherit}
svg .a{fill:var(--a)}svg .b{fill:var(--b)}svg .zero{stroke:var(--dim)}
.key::before{content:"";display:inline-block;width:.8em;height:.8em;margin-right:.3em}
.key.a::before{background:var(--a)}.key.b::before{background:var(--b)}
)css";

}  // namespace

std::string HtmlText(const Json& value) {
  if (value.is_null()) return "&ndash;";
  if (value.is_string()) return EscapeHtml(value.get_ref<const std::string&>());
  if (value.is_number_float()) return NumberText(value.get<double>());
  return EscapeHtml(value.dump());
}

std::string HtmlTable(const Json& rows, const std::vector<const char*>& keys) {
  std::string html = "<div class=\"wide\"><table><tr>";
  for (std::string head : keys) {
    for (char& c : head) c = c == '_' ? ' ' : c;
    html += "<th>" + EscapeHtml(head) + "</th>";
  }
  html += "</tr>";
  for (const Json& row : rows) {
    html += "<tr>";
    for (const char* key : keys) html += "<td>" + HtmlText(row[key]) + "</td>";
    html += "</tr>";
  }
  return html + "</table></div>";
}

std::string HtmlSection(std::string_view title, std::string_view note, const std::string& body) {
  return fmt::format("<section><h2>{}</h2><p class=\"dim\">{}</p>{}</section>", EscapeHtml(title),
                     EscapeHtml(note), body);
}

std::string HtmlPage(std::string_view title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>{}</title><style>{}</style></head>\n<body>{}</body></html>\n",
      EscapeHtml(title), kStyle, body);
}

}  // namespace kv8
