#include "jinja/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "jinja/indexing.h"
#include "jinja/python_repr.h"

namespace kv8::jinja {
namespace {

Result<Value> CountItems(Runtime& runtime, const Bound& args) {
  KV8_RETURN_IF_ERROR(runtime.Charge(args[0]->extent().weight));
  const std::vector<Value>& items = args[0]->sequence().items;
  return Value(static_cast<std::int64_t>(std::count_if(
      items.begin(), items.end(), [&args](const Value& item) { return Equal(item, *args[1]); })));
}

Result<Value> IndexOfItem(Runtime& runtime, const Bound& args) {
  KV8_RETURN_IF_ERROR(runtime.Charge(args[0]->extent().weight));
  const std::vector<Value>& items = args[0]->sequence().items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (Equal(items[i], *args[1])) return Value(static_cast<std::int64_t>(i));
  }
  return Failure(fmt::format("{} is not in the list", Repr(*args[1])));
}

Result<Value> Copy(Runtime&, const Bound& args) {
  return *args[0];
}

Result<Value> Get(Runtime&, const Bound& args) {
  if (!HashOf(*args[1])) return Failure(fmt::format("unhashable type: '{}'", args[1]->TypeName()));
  if (const Value* found = args[0]->dict().Find(*args[1])) return *found;
  return args[2] == nullptr ? Value() : *args[2];
}

Result<Value> Items(Runtime&, const Bound& args) {
  std::vector<Value> items;
  items.reserve(args[0]->dict().entries().size());
  for (const auto& [key, value] : args[0]->dict().entries()) {
    KV8_ASSIGN_OR_RETURN(Value pair, MakeTuple({key, value}));
    items.push_back(std::move(pair));
  }
  return MakeSequence(Kind::kView, std::move(items), "dict_items");
}

Result<Value> Keys(Runtime&, const Bound& args) {
  std::vector<Value> keys;
  for (const auto& [key, value] : args[0]->dict().entries()) keys.push_back(key);
  return MakeSequence(Kind::kView, std::move(keys), "dict_keys");
}

Result<Value> Values(Runtime&, const Bound& args) {
  std::vector<Value> values;
  for (const auto& [key, value] : args[0]->dict().entries()) values.push_back(value);
  return MakeSequence(Kind::kView, std::move(values), "dict_values");
}

Result<Value> IsInteger(Runtime&, const Bound& args) {
  const double number = *args[0]->AsReal();
  return Value(std::isfinite(number) && std::floor(number) == number);
}

}  // namespace

std::vector<Native> ListMethods() {
  return {
      {"copy", "self", Copy},
      {"count", "self value", CountItems},
      {"index", "self value", IndexOfItem},
  };
}

std::vector<Native> DictMethods() {
  return {
      {"copy", "self", Copy}, {"get", "self key default?", Get}, {"items", "self", Items},
      {"keys", "self", Keys}, {"values", "self", Values},
  };
}

const Native* FindMethod(const Value& value, std::string_view name) {
  static const NativeTable kString({CaseMethods(), SearchMethods(), SplitMethods()});
  static const NativeTable kList({ListMethods()});
  static const NativeTable kDict({DictMethods()});
  static const NativeTable kFloat({{{"is_integer", "self", IsInteger}}});
  switch (value.kind()) {
    case Kind::kString:
      return kString.Find(name);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return name == "copy" && !value.Is(Kind::kList) ? nullptr : kList.Find(name);
    case Kind::kDict:
      return kDict.Find(name);
    case Kind::kFloat:
      return kFloat.Find(name);
    default:
      return nullptr;
  }
}

bool IsMutation(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kOfLists = {
      "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 5> kOfDicts = {"clear", "pop", "popitem",
                                                               "setdefault", "update"};
  const auto has = [name](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return (value.Is(Kind::kList) && has(kOfLists)) || (value.Is(Kind::kDict) && has(kOfDicts));
}

}  // namespace kv8::jinja
