#include "text/json_rules.h"

#include <algorithm>
#include <string>

namespace kv8 {
namespace {

constexpr std::size_t kExcerptBytes = 60;

std::string Where(const JsonPlace& place) {
  return place.field.empty() ? std::string(place.file)
                             : fmt::format("{}: {}", place.file, place.field);
}

Result<void> CheckValue(simdjson::dom::element value, const JsonPlace& place,
                        const FieldRule& rule) {
  if (rule.values.empty()) return {};
  const std::string text = simdjson::minify(value);
  if (std::find(rule.values.begin(), rule.values.end(), text) != rule.values.end()) return {};
  return place.Unsupported(fmt::format("is {}; kv8 supports {} only", JsonExcerpt(text),
                                       fmt::join(rule.values, " or ")));
}

}  // namespace

JsonPlace JsonPlace::Field(std::string_view name) const {
  const std::string shown = JsonExcerpt(name);
  return {file, field.empty() ? shown : fmt::format("{}.{}", field, shown)};
}

JsonPlace JsonPlace::Item(std::size_t index) const {
  return {file, fmt::format("{}[{}]", field, index)};
}

Error JsonPlace::Corrupt(std::string what) const {
  return {Code::kCorrupt, std::move(what), Where(*this), "restore the file from its source"};
}

Error JsonPlace::Unsupported(std::string what) const {
  return {Code::kUnsupported, std::move(what), Where(*this),
          "use the tokenizer.json that the checkpoint was published with"};
}

std::string JsonExcerpt(std::string_view value) {
  std::size_t size = std::min(value.size(), kExcerptBytes);
  while (size < value.size() && size > 0 && (value[size] & 0xC0) == 0x80)
    --size;  // whole characters
  std::string out;
  for (const char c : value.substr(0, size)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += c;
    }
  }
  if (size < value.size()) out += "...";
  return out;
}

std::string JsonExcerpt(simdjson::dom::element value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return JsonExcerpt(std::string_view(simdjson::minify(value)));
}

Result<simdjson::dom::object> ReadFields(simdjson::dom::element value, const JsonPlace& place,
                                         std::initializer_list<FieldRule> rules) {
  KV8_ASSIGN_OR_RETURN(const auto object, ReadJson<simdjson::dom::object>(value, place));
  std::vector<bool> seen(rules.size(), false);
  for (const auto field : object) {
    const auto* rule = std::find_if(rules.begin(), rules.end(),
                                    [&](const FieldRule& r) { return r.name == field.key; });
    const JsonPlace field_place = place.Field(field.key);
    if (rule == rules.end()) return field_place.Unsupported("is not a field that kv8 knows");
    if (seen[rule - rules.begin()]) return field_place.Corrupt("is given twice");
    seen[rule - rules.begin()] = true;
    KV8_RETURN_IF_ERROR(CheckValue(field.value, field_place, *rule));
  }
  for (const FieldRule& rule : rules) {
    if (rule.presence == FieldRule::kRequired && !seen[&rule - rules.begin()]) {
      return place.Field(rule.name).Corrupt("is missing");
    }
  }
  return object;
}

}  // namespace kv8
