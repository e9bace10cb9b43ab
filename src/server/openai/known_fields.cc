#include "server/openai/known_fields.h"

#include <unordered_map>
#include <utility>

namespace kv8::openai {
namespace {

constexpr std::size_t kMaxUnknownBytes = 200;  // of a line in the log

using FieldsByName = std::unordered_multimap<std::string_view, const KnownField*>;

const KnownField* FindField(std::string_view name, EndpointBit endpoint) {
  static const FieldsByName kByName = [] {
    FieldsByName fields;
    for (const KnownField& field : KnownFields()) fields.emplace(field.name, &field);
    return fields;
  }();
  const auto [begin, end] = kByName.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    if ((it->second->endpoints & endpoint) != 0) return it->second;
  }
  return nullptr;
}

bool AsksForNothing(const KnownField& field, const OrderedJson& value) {
  if (value.is_null()) return true;
  for (const OrderedJson& harmless : OrderedJson::parse(field.good)) {
    if (value == harmless) return true;
  }
  return false;
}

/// Looks at the members of `object`, whose names in the table begin with `prefix`.
Result<void> RefuseMembers(const OrderedJson& object, const std::string& prefix,
                           EndpointBit endpoint) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key;
    const KnownField* field = FindField(name, endpoint);
    if (field == nullptr) continue;
    if (field->use == FieldUse::kRefused && !AsksForNothing(*field, value)) {
      Error error = BadField(name, "is not supported",
                             field->note.empty() ? "leave it out" : std::string(field->note));
      error.code = Code::kUnsupported;
      return error;
    }
    // One level: no field of the table lies deeper.
    if (prefix.empty() && value.is_object()) {
      KV8_RETURN_IF_ERROR(RefuseMembers(value, name + ".", endpoint));
    }
  }
  return {};
}

}  // namespace

Result<void> RefuseUnsupported(const RequestFields& body, EndpointBit endpoint) {
  return RefuseMembers(body.json(), "", endpoint);
}

std::string UnknownFields(const OrderedJson& body, EndpointBit endpoint) {
  std::string names;
  for (const auto& [key, value] : body.items()) {
    if (value.is_null() || FindField(key, endpoint) != nullptr) continue;
    if (!names.empty()) names += ',';
    names += key;
    if (names.size() > kMaxUnknownBytes) {
      names.resize(kMaxUnknownBytes);
      return names + "...";
    }
  }
  return names;
}

}  // namespace kv8::openai
