#include "speed/comparability.h"

#include <fmt/format.h>

#include <set>

namespace kv8 {
namespace {

std::string Said(const Json* value) {
  if (value == nullptr || value->is_null()) return "not said";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

const Json* Find(const Json& object, const std::string& key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? &*found : nullptr;
}

}  // namespace

std::vector<std::string> Differences(const Json& a, const Json& b) {
  std::vector<std::string> lines;
  for (const std::string fact : {kRoutesFact, kPartitionFact, kAcceptanceFact}) {
    const Json* const of_a = Find(a, fact);
    const Json* const of_b = Find(b, fact);
    if (of_a == nullptr || of_b == nullptr || !of_a->is_object() || !of_b->is_object()) {
      lines.push_back(fmt::format("{}: {} and {}", fact, Said(of_a), Said(of_b)));
      continue;
    }
    std::set<std::string> keys;
    for (const Json* side : {of_a, of_b}) {
      for (const auto& [key, value] : side->items()) keys.insert(key);
    }
    for (const std::string& key : keys) {
      const Json* const x = Find(*of_a, key);
      const Json* const y = Find(*of_b, key);
      if (x != nullptr && y != nullptr && *x == *y) continue;
      lines.push_back(fmt::format("{}.{}: {} and {}", fact, key, Said(x), Said(y)));
    }
  }
  return lines;
}

}  // namespace kv8
