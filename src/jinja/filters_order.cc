// Filters that compare items: sorting, grouping, extremes, duplicates.
#include <algorithm>
#include <functional>

#include "jinja/filters.h"

namespace kv8::jinja {
namespace {

/// What an item is compared by.
using Key = std::function<Result<Value>(const Value& item)>;

Value IgnoreCase(const Value& value) {
  return value.Is(Kind::kString) ? Value(Lower(value.text())) : value;
}

/// The attribute at `path`, or the item itself; small letters unless case matters.
Key KeyOf(Runtime& runtime, const Value* path, bool case_sensitive,
          const Value* fallback = nullptr) {
  return [getter = AttributeGetter(runtime, path, fallback),
          case_sensitive](const Value& item) -> Result<Value> {
    KV8_ASSIGN_OR_RETURN(Value value, getter(item));
    return case_sensitive ? value : IgnoreCase(value);
  };
}

/// Several attributes, separated by commas: a list of their values.
Key KeysOf(Runtime& runtime, const Value* paths, bool case_sensitive) {
  if (paths == nullptr || !paths->Is(Kind::kString)) return KeyOf(runtime, paths, case_sensitive);
  std::vector<Key> keys;
  for (const std::string_view path : SplitAt(paths->text(), ",", -1, false)) {
    const Value single(path);
    keys.push_back(KeyOf(runtime, &single, case_sensitive));
  }
  return [keys = std::move(keys)](const Value& item) -> Result<Value> {
    std::vector<Value> values;
    for (const Key& key : keys) {
      KV8_ASSIGN_OR_RETURN(Value value, key(item));
      values.push_back(std::move(value));
    }
    return MakeList(std::move(values));
  };
}

struct Keyed {
  Value key;
  Value item;
};

/// The items with their keys, in stable order of the keys.
Result<std::vector<Keyed>> Sorted(Runtime& runtime, const std::vector<Value>& items, const Key& key,
                                  bool reverse) {
  std::vector<Keyed> keyed;
  std::uint64_t weight = 0;
  for (const Value& item : items) {
    KV8_ASSIGN_OR_RETURN(Value value, key(item));
    weight += value.extent().weight;
    keyed.push_back({std::move(value), item});
  }
  std::uint64_t rounds = 1;
  while (items.size() >> rounds != 0) ++rounds;
  KV8_RETURN_IF_ERROR(runtime.Charge(weight * rounds));
  Result<void> status;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    const auto order = Order(reverse ? b.key : a.key, reverse ? a.key : b.key, Operator::kLess);
    if (!order.ok()) status = order.error();
    return order.ok() && std::is_lt(*order);
  });
  KV8_RETURN_IF_ERROR(status);
  return keyed;
}

Result<Value> SortFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  const Key key = KeysOf(runtime, args[3], FlagOf(args[2], false));
  KV8_ASSIGN_OR_RETURN(auto sorted, Sorted(runtime, items, key, FlagOf(args[1], false)));
  std::vector<Value> out;
  for (Keyed& keyed : sorted) out.push_back(std::move(keyed.item));
  return MakeList(std::move(out));
}

Result<Value> DictSortFilter(Runtime& runtime, const Bound& args) {
  if (args[0]->Is(Kind::kUndefined)) return UndefinedError(*args[0]);
  if (!args[0]->Is(Kind::kDict)) return Failure("dictsort needs a mapping");
  KV8_ASSIGN_OR_RETURN(const auto by, TextOf(args[2], "key", "dictsort: by"));
  if (by != "key" && by != "value") {
    return Failure("You can only sort by either \"key\" or \"value\"");
  }
  std::vector<Value> pairs;
  for (const auto& [key, value] : args[0]->dict().entries()) {
    KV8_ASSIGN_OR_RETURN(Value pair, MakeTuple({key, value}));
    pairs.push_back(std::move(pair));
  }
  const bool case_sensitive = FlagOf(args[1], false);
  const auto key = [&by, case_sensitive](const Value& pair) -> Result<Value> {
    const Value& value = pair.sequence().items[by == "key" ? 0 : 1];
    return case_sensitive ? value : IgnoreCase(value);
  };
  KV8_ASSIGN_OR_RETURN(auto sorted, Sorted(runtime, pairs, key, FlagOf(args[3], false)));
  std::vector<Value> out;
  for (Keyed& keyed : sorted) out.push_back(std::move(keyed.item));
  return MakeList(std::move(out));
}

Result<Value> GroupByFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  const Key key = KeyOf(runtime, args[1], FlagOf(args[3], false), args[2]);
  const Key shown = KeyOf(runtime, args[1], true, args[2]);
  KV8_ASSIGN_OR_RETURN(const auto sorted, Sorted(runtime, items, key, false));
  std::vector<Value> groups;
  for (std::size_t at = 0; at < sorted.size();) {
    std::vector<Value> group;
    const std::size_t first = at;
    while (at < sorted.size() && Equal(sorted[at].key, sorted[first].key)) {
      group.push_back(sorted[at++].item);
    }
    if (at == first) group.push_back(sorted[at++].item);  // NaN equals nothing
    KV8_ASSIGN_OR_RETURN(Value grouper, shown(group[0]));
    KV8_ASSIGN_OR_RETURN(Value list, MakeList(std::move(group)));
    KV8_ASSIGN_OR_RETURN(
        Value pair, MakeSequence(Kind::kTuple, {std::move(grouper), std::move(list)}, "group"));
    groups.push_back(std::move(pair));
  }
  return MakeList(std::move(groups));
}

/// min and max: the first of those that no other goes beyond.
Result<Value> Extreme(Runtime& runtime, const Bound& args, Operator beyond) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  if (items.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  const Key key = KeyOf(runtime, args[2], FlagOf(args[1], false));
  KV8_ASSIGN_OR_RETURN(Value best, key(items[0]));
  std::size_t best_at = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    KV8_ASSIGN_OR_RETURN(Value value, key(items[i]));
    KV8_ASSIGN_OR_RETURN(const Value is_beyond, runtime.Operate(beyond, value, best));
    if (!is_beyond.Truthy()) continue;
    best = std::move(value);
    best_at = i;
  }
  return items[best_at];
}

Result<Value> MinFilter(Runtime& runtime, const Bound& args) {
  return Extreme(runtime, args, Operator::kLess);
}
Result<Value> MaxFilter(Runtime& runtime, const Bound& args) {
  return Extreme(runtime, args, Operator::kGreater);
}

Result<Value> UniqueFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  const Key key = KeyOf(runtime, args[2], FlagOf(args[1], false));
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : items) {
    KV8_ASSIGN_OR_RETURN(Value value, key(item));
    if (seen.Find(value) != nullptr) continue;
    KV8_RETURN_IF_ERROR(seen.Set(std::move(value), Value()));
    out.push_back(item);
  }
  return MakeIterator(std::move(out));
}

}  // namespace

std::vector<Native> OrderFilters() {
  return {
      {"dictsort", "value case_sensitive? by? reverse?", DictSortFilter},
      {"groupby", "value attribute default? case_sensitive?", GroupByFilter},
      {"max", "value case_sensitive? attribute?", MaxFilter},
      {"min", "value case_sensitive? attribute?", MinFilter},
      {"sort", "value reverse? case_sensitive? attribute?", SortFilter},
      {"unique", "value case_sensitive? attribute?", UniqueFilter},
  };
}

}  // namespace kv8::jinja
