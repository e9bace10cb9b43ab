#include <fmt/format.h>

#include "speed/report.h"
#include "speed/spread.h"

namespace kv8 {
namespace {

std::string Number(const Json& value) {
  return value.is_number() ? fmt::format("{:.4g}", value.get<double>()) : "-";
}

std::string CellLine(const Json& cell, const char* name, const Json& arm) {
  return fmt::format("{:>8} {:>4} {}  {:<28} {:<28} {:>6} {:>6}\n", cell["context"].get<int>(),
                     cell["sequences"].get<int>(), name,
                     SpreadText(arm["prefill_tokens_per_second"]),
                     SpreadText(arm["decode_tokens_per_second"]),
                     Number(arm["tokens_per_step"]["median"]), Number(arm["acceptance"]));
}

std::string CellText(const Json& report) {
  if (report["cells"].empty()) return "";
  std::string text = fmt::format("{:>8} {:>4}    {:<28} {:<28} {:>6} {:>6}\n", "context", "seqs",
                                 "prefill, tokens/s", "decode, tokens/s", "a step", "accept");
  for (const Json& cell : report["cells"]) {
    for (const char* arm : {"a", "b"}) {
      if (cell.contains(arm)) text += CellLine(cell, arm, cell[arm]);
    }
    if (cell.contains("decode_b_over_a")) {
      text +=
          fmt::format("{:>8} {:>4}    {:<28} {:<28}\n", "", "b/a",
                      SpreadText(cell["prefill_b_over_a"]), SpreadText(cell["decode_b_over_a"]));
    }
  }
  return text;
}

}  // namespace

std::string BenchText(const Json& report) {
  std::string text = CellText(report);
  for (const Json& skip : report["skipped"]) {
    text += fmt::format("{:>8} {:>4}    skipped: {}\n", skip["context"].get<int>(),
                        skip["sequences"].get<int>(), skip["reason"].get<std::string>());
  }
  for (const Json& turn : report["conversations"]) {
    text +=
        fmt::format("{}  turn {}: first token after {} s, {:.0f}% reused\n",
                    turn["arm"].get<std::string>(), turn["turn"].get<int>(),
                    SpreadText(turn["first_token_seconds"]), 100 * turn["reused"].get<double>());
  }
  for (const Json& row : report["structured"]) {
    text += fmt::format("{}  structured, {} at once: {} tokens/s, {} of {} complete, accept {}\n",
                        row["arm"].get<std::string>(), row["sequences"].get<int>(),
                        SpreadText(row["tokens_per_second"]), row["complete"].get<int>(),
                        row["outputs"].get<int>(), Number(row["acceptance"]));
  }
  for (const Json& line : report["differences"]) {
    text += fmt::format("not comparable: {}\n", line.get<std::string>());
  }
  return text;
}

}  // namespace kv8
