#include "proof/gates.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/json_fields.h"

namespace kv8 {
namespace {

constexpr std::array<std::string_view, 5> kKeys = {"name", "figure", "at_most", "at_least",
                                                   "if_measured"};

Result<std::optional<double>> Limit(const JsonFields& fields, std::string_view key) {
  if (!fields.Has(key)) return std::optional<double>();
  KV8_ASSIGN_OR_RETURN(const double limit, fields.Number(key));
  return std::optional(limit);
}

Result<Gate> ParseGate(const JsonFields& fields) {
  for (const auto& [key, value] : fields.json().items()) {
    if (std::ranges::find(kKeys, key) == kKeys.end()) return fields.Bad(key, "is no key of a gate");
  }
  Gate gate;
  KV8_ASSIGN_OR_RETURN(gate.name, fields.String("name"));
  KV8_ASSIGN_OR_RETURN(gate.figure, fields.String("figure"));
  KV8_ASSIGN_OR_RETURN(gate.at_most, Limit(fields, "at_most"));
  KV8_ASSIGN_OR_RETURN(gate.at_least, Limit(fields, "at_least"));
  if (fields.Has("if_measured")) {
    KV8_ASSIGN_OR_RETURN(gate.if_measured, fields.Bool("if_measured"));
  }
  if (!gate.at_most && !gate.at_least) {
    return fields.Bad("name", "names a gate without \"at_most\" and \"at_least\"");
  }
  return gate;
}

bool Passes(const Gate& gate, const std::optional<double>& value) {
  if (!value) return gate.if_measured;
  // Written so that NaN passes nothing.
  return (!gate.at_most || *value <= *gate.at_most) && (!gate.at_least || *value >= *gate.at_least);
}

}  // namespace

Result<std::vector<Gate>> ParseGates(const Json& json, std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where, ""));
  for (const auto& [key, value] : fields.json().items()) {
    if (key != "gates") return fields.Bad(key, "is unknown; there is \"gates\" alone");
  }
  KV8_ASSIGN_OR_RETURN(const Json* const array, fields.Array("gates"));
  if (array->empty() || array->size() > kMaxGates) {
    return fields.Bad("gates", "has no entry, or more than 1000");
  }
  std::vector<Gate> gates;
  std::set<std::string> names;
  for (const Json& entry : *array) {
    const std::string path = "gates[" + std::to_string(gates.size()) + "]";
    KV8_ASSIGN_OR_RETURN(const JsonFields gate_fields, JsonFields::Of(entry, where, path));
    KV8_ASSIGN_OR_RETURN(Gate gate, ParseGate(gate_fields));
    if (!names.insert(gate.name).second) return gate_fields.Bad("name", "comes twice");
    gates.push_back(std::move(gate));
  }
  return gates;
}

std::vector<GateResult> CheckGates(const std::vector<Gate>& gates, const Figures& figures) {
  std::vector<GateResult> results;
  for (const Gate& gate : gates) {
    const auto found = figures.find(gate.figure);
    std::optional<double> value;
    if (found != figures.end()) value = found->second;
    results.push_back({.gate = gate, .value = value, .passed = Passes(gate, value)});
  }
  return results;
}

}  // namespace kv8
