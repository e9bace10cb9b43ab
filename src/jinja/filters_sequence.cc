// Filters of items in their order, and filters that choose or transform items.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/filters.h"
#include "jinja/indexing.h"
#include "jinja/python_repr.h"

namespace kv8::jinja {
namespace {

Result<Value> AttrFilter(Runtime& runtime, const Bound& args) {
  const std::string name = Str(*args[1]);
  const Value& object = *args[0];
  const bool has = object.Is(Kind::kObject) ? object.object()->Attribute(name).has_value()
                                            : FindMethod(object, name) != nullptr;
  if (!has)
    return Value::Undefined(fmt::format("'{}' has no attribute '{}'", object.TypeName(), name));
  return runtime.GetAttribute(object, name);
}

Result<Value> LengthFilter(Runtime&, const Bound& args) {
  if (const auto length = args[0]->Length()) return Value(*length);
  return Failure(fmt::format("object of type '{}' has no len()", args[0]->TypeName()));
}

Result<Value> DefaultFilter(Runtime&, const Bound& args) {
  const bool missing =
      args[0]->Is(Kind::kUndefined) || (FlagOf(args[2], false) && !args[0]->Truthy());
  if (!missing) return *args[0];
  return args[1] == nullptr ? Value("") : *args[1];
}

Result<Value> FirstFilter(Runtime& runtime, const Bound& args) {
  if (args[0]->Is(Kind::kIterator)) {
    const Sequence& sequence = args[0]->sequence();
    if (sequence.taken < sequence.items.size()) return sequence.items[sequence.taken++];
  } else {
    KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
    if (!items.empty()) return items[0];
  }
  return Value::Undefined("No first item, sequence was empty.");
}

Result<Value> LastFilter(Runtime& runtime, const Bound& args) {
  if (args[0]->Is(Kind::kIterator)) return Failure("'generator' object is not reversible");
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  if (items.empty()) return Value::Undefined("No last item, sequence was empty.");
  return items.back();
}

Result<Value> ListFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(auto items, runtime.Items(*args[0]));
  return MakeList(std::move(items));
}

Result<Value> ItemsFilter(Runtime& runtime, const Bound& args) {
  if (args[0]->Is(Kind::kUndefined)) return MakeIterator({});
  if (!args[0]->Is(Kind::kDict)) return Failure("Can only get item pairs from a mapping.");
  const Native* items = FindMethod(*args[0], "items");
  KV8_ASSIGN_OR_RETURN(const Value view, items->Call(runtime, Arguments{{*args[0]}, {}}));
  return MakeIterator(view.sequence().items);
}

Result<Value> JoinFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  const MarkedText separator = args[1] == nullptr ? MarkedText() : MarkedStr(*args[1]);
  const AttributeGetter attribute(runtime, args[2]);
  MarkedText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.Append(separator);
    KV8_ASSIGN_OR_RETURN(const Value item, attribute(items[i]));
    AppendStr(item, out);
    if (out.size() > kMaxStringBytes) return StringTooLong();
  }
  return Value(std::move(out));
}

Result<Value> ReverseFilter(Runtime& runtime, const Bound& args) {
  if (args[0]->Is(Kind::kString)) {
    KV8_ASSIGN_OR_RETURN(const auto reversed,
                         Slice(*args[0], {Value(), Value(), Value(std::int64_t{-1})}));
    return *reversed;
  }
  KV8_ASSIGN_OR_RETURN(auto items, runtime.Items(*args[0]));
  std::reverse(items.begin(), items.end());
  return MakeIterator(std::move(items));
}

Result<Value> BatchFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  KV8_ASSIGN_OR_RETURN(const std::int64_t size, IntOf(args[1], 0, "batch: the size"));
  if (size < 1) return Failure("batch: the size must be positive");
  const auto length = static_cast<std::int64_t>(items.size());
  std::vector<Value> batches;
  for (std::int64_t at = 0; at < length; at += std::min(size, length)) {
    std::vector<Value> batch(items.begin() + at, items.begin() + std::min(at + size, length));
    if (args[2] != nullptr && !args[2]->Is(Kind::kNone)) {
      const std::int64_t missing = size - static_cast<std::int64_t>(batch.size());
      KV8_RETURN_IF_ERROR(runtime.Charge(missing));
      batch.insert(batch.end(), missing, *args[2]);
    }
    KV8_ASSIGN_OR_RETURN(Value list, MakeList(std::move(batch)));
    batches.push_back(std::move(list));
  }
  return MakeIterator(std::move(batches));
}

Result<Value> SliceFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  KV8_ASSIGN_OR_RETURN(const std::int64_t slices, IntOf(args[1], 0, "slice: the number"));
  if (slices < 1) return Failure("slice: the number of slices must be positive");
  KV8_RETURN_IF_ERROR(runtime.Charge(slices));
  const auto length = static_cast<std::int64_t>(items.size());
  const std::int64_t longer = length % slices;  // slices with one item more
  std::vector<Value> out;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    const std::int64_t size = length / slices + (i < longer ? 1 : 0);
    std::vector<Value> slice(items.begin() + at, items.begin() + at + size);
    if (args[2] != nullptr && !args[2]->Is(Kind::kNone) && i >= longer) slice.push_back(*args[2]);
    KV8_ASSIGN_OR_RETURN(Value list, MakeList(std::move(slice)));
    out.push_back(std::move(list));
    at += size;
  }
  return MakeIterator(std::move(out));
}

Result<Value> SumFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[0]));
  const AttributeGetter attribute(runtime, args[1]);
  Value sum = args[2] == nullptr ? Value(std::int64_t{0}) : *args[2];
  if (sum.Is(Kind::kString)) return Failure("sum() can't sum strings");
  for (const Value& item : items) {
    KV8_ASSIGN_OR_RETURN(const Value number, attribute(item));
    KV8_ASSIGN_OR_RETURN(sum, runtime.Operate(Operator::kAdd, sum, number));
  }
  return sum;
}

// --- choosing and transforming ---

/// The arguments behind the first `taken`, with `subject` in front.
Arguments Rest(const Arguments& arguments, std::size_t taken, const Value& subject) {
  Arguments rest;
  rest.positional.push_back(subject);
  rest.positional.insert(rest.positional.end(), arguments.positional.begin() + taken,
                         arguments.positional.end());
  rest.keyword = arguments.keyword;
  return rest;
}

Result<Value> MapByAttribute(Runtime& runtime, const Arguments& arguments) {
  for (const auto& [name, value] : arguments.keyword) {
    if (name != "attribute" && name != "default") {
      return Failure(fmt::format("Unexpected keyword argument '{}'", name));
    }
  }
  const AttributeGetter attribute(runtime, arguments.Keyword("attribute"),
                                  arguments.Keyword("default"));
  KV8_ASSIGN_OR_RETURN(auto items, runtime.Items(arguments.positional[0]));
  for (Value& item : items) {
    KV8_ASSIGN_OR_RETURN(item, attribute(item));
  }
  return MakeIterator(std::move(items));
}

Result<Value> MapFilter(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty()) return Failure("map needs a value");
  const Value& subject = arguments.positional[0];
  if (!subject.Truthy()) return MakeIterator({});
  if (arguments.positional.size() == 1) {
    if (arguments.Keyword("attribute") == nullptr) return Failure("map requires a filter argument");
    return MapByAttribute(runtime, arguments);
  }
  const std::string filter = Str(arguments.positional[1]);
  KV8_ASSIGN_OR_RETURN(auto items, runtime.Items(subject));
  for (Value& item : items) {
    KV8_ASSIGN_OR_RETURN(item, runtime.ApplyFilter(filter, Rest(arguments, 2, item)));
  }
  return MakeIterator(std::move(items));
}

/// select, reject, selectattr, rejectattr: keeps items whose test gives `wanted`.
Result<Value> Select(Runtime& runtime, const Arguments& arguments, bool by_attribute, bool wanted) {
  if (arguments.positional.empty()) return Failure("there is nothing to select from");
  const Value& subject = arguments.positional[0];
  if (!subject.Truthy()) return MakeIterator({});
  const std::size_t test_at = by_attribute ? 2 : 1;
  if (arguments.positional.size() < test_at) {
    return Failure("Missing parameter for attribute name");
  }
  const AttributeGetter attribute(runtime, by_attribute ? &arguments.positional[1] : nullptr);
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(subject));
  std::vector<Value> kept;
  for (const Value& item : items) {
    KV8_ASSIGN_OR_RETURN(const Value tested, attribute(item));
    bool passes = tested.Truthy();
    if (arguments.positional.size() > test_at) {
      KV8_ASSIGN_OR_RETURN(passes, runtime.ApplyTest(Str(arguments.positional[test_at]),
                                                     Rest(arguments, test_at + 1, tested)));
    }
    if (passes == wanted) kept.push_back(item);
  }
  return MakeIterator(std::move(kept));
}

Result<Value> SelectFilter(Runtime& runtime, const Arguments& arguments) {
  return Select(runtime, arguments, false, true);
}
Result<Value> RejectFilter(Runtime& runtime, const Arguments& arguments) {
  return Select(runtime, arguments, false, false);
}
Result<Value> SelectAttrFilter(Runtime& runtime, const Arguments& arguments) {
  return Select(runtime, arguments, true, true);
}
Result<Value> RejectAttrFilter(Runtime& runtime, const Arguments& arguments) {
  return Select(runtime, arguments, true, false);
}

}  // namespace

std::vector<Native> SequenceFilters() {
  return {
      {"attr", "obj name", AttrFilter},
      {"batch", "value linecount fill_with?", BatchFilter},
      {"count", "obj", LengthFilter},
      {"d", "value default_value? boolean?", DefaultFilter},
      {"default", "value default_value? boolean?", DefaultFilter},
      {"first", "seq", FirstFilter},
      {"items", "value", ItemsFilter},
      {"join", "value d? attribute?", JoinFilter},
      {"last", "seq", LastFilter},
      {"length", "obj", LengthFilter},
      {"list", "value", ListFilter},
      {"reverse", "value", ReverseFilter},
      {"slice", "value slices fill_with?", SliceFilter},
      {"sum", "iterable attribute? start?", SumFilter},
  };
}

std::vector<Native> SelectionFilters() {
  return {
      {"map", MapFilter},       {"reject", RejectFilter},         {"rejectattr", RejectAttrFilter},
      {"select", SelectFilter}, {"selectattr", SelectAttrFilter},
  };
}

}  // namespace kv8::jinja
