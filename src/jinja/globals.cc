// Functions that every template has.
#include <fmt/format.h>

#include <ctime>

#include "jinja/natives.h"
#include "jinja/objects.h"
#include "jinja/python_repr.h"

namespace kv8::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100000;

Result<Value> Range(Runtime& runtime, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.keyword.empty()) {
    return Failure("range() takes from 1 to 3 integers");
  }
  std::int64_t bounds[3] = {0, 0, 1};
  for (std::size_t i = 0; i < given.size(); ++i) {
    KV8_ASSIGN_OR_RETURN(bounds[given.size() == 1 ? 1 : i], IntOf(&given[i], 0, "range: a bound"));
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) return Failure("range() arg 3 must not be zero");
  std::vector<Value> items;
  // Wider than its bounds, so that no step overflows.
  for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<std::int64_t>(items.size()) == kMaxRange) {
      return Failure(fmt::format("Range too big: at most {} items are allowed", kMaxRange));
    }
    items.emplace_back(static_cast<std::int64_t>(i));
  }
  KV8_RETURN_IF_ERROR(runtime.Charge(items.size()));
  std::string label = step == 1 ? fmt::format("range({}, {})", start, stop)
                                : fmt::format("range({}, {}, {})", start, stop, step);
  return MakeSequence(Kind::kRange, std::move(items), std::move(label));
}

/// What dict() and namespace() make of their arguments.
Result<Dict> DictOf(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) return Failure("dict expected at most 1 argument");
  Dict dict;
  if (!arguments.positional.empty() && arguments.positional[0].Is(Kind::kDict)) {
    dict = arguments.positional[0].dict();
    KV8_RETURN_IF_ERROR(runtime.Charge(dict.entries().size()));
  } else if (!arguments.positional.empty()) {
    KV8_ASSIGN_OR_RETURN(const auto pairs, runtime.Items(arguments.positional[0]));
    for (const Value& pair : pairs) {
      KV8_ASSIGN_OR_RETURN(const auto parts, runtime.Items(pair));
      if (parts.size() != 2) return Failure("dict() takes pairs of a key and a value");
      KV8_RETURN_IF_ERROR(dict.Set(parts[0], parts[1]));
    }
  }
  for (const auto& [name, value] : arguments.keyword) {
    KV8_RETURN_IF_ERROR(dict.Set(Value(name), value));
  }
  return dict;
}

Result<Value> MakeDictGlobal(Runtime& runtime, const Arguments& arguments) {
  KV8_ASSIGN_OR_RETURN(Dict dict, DictOf(runtime, arguments));
  return MakeDict(std::move(dict));
}

Result<Value> MakeNamespace(Runtime& runtime, const Arguments& arguments) {
  KV8_ASSIGN_OR_RETURN(const Dict dict, DictOf(runtime, arguments));
  KV8_RETURN_IF_ERROR(runtime.Charge(dict.entries().size()));
  const auto space = runtime.AddNamespace();
  for (const auto& [key, value] : dict.entries()) {
    KV8_RETURN_IF_ERROR(space->Set(Str(key), value));
  }
  return Value(std::shared_ptr<Object>(space));
}

Result<Value> MakeCycler(Runtime&, const Arguments& arguments) {
  if (arguments.positional.empty()) return Failure("at least one item has to be provided");
  KV8_ASSIGN_OR_RETURN(Value items, MakeTuple(arguments.positional));
  return Value(std::shared_ptr<Object>(std::make_shared<Cycler>(std::move(items))));
}

Result<Value> MakeJoiner(Runtime&, const Bound& args) {
  return Value(std::shared_ptr<Object>(
      std::make_shared<Joiner>(args[0] == nullptr ? Value(", ") : Value(MarkedStr(*args[0])))));
}

Result<Value> RaiseException(Runtime&, const Bound& args) {
  return Failure(Str(*args[0]));
}

Result<Value> StrftimeNow(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto format, TextOf(args[0], "", "strftime_now: the format"));
  if (format.empty()) return Value("");
  if (format.size() > 1000) return Failure("strftime_now: the format is too long");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // A field of one format letter has no more than some tens of bytes; widths could ask for more.
  std::string out(64 * 1024, '\0');
  out.resize(std::strftime(out.data(), out.size(), std::string(format).c_str(), &local));
  return Value(std::move(out));
}

}  // namespace

const Native* FindGlobal(std::string_view name) {
  static const NativeTable kTable({{
      {"cycler", MakeCycler},
      {"dict", MakeDictGlobal},
      {"joiner", "sep?", MakeJoiner},
      {"namespace", MakeNamespace},
      {"raise_exception", "message", RaiseException},
      {"range", Range},
      {"strftime_now", "format", StrftimeNow},
  }});
  return kTable.Find(name);
}

}  // namespace kv8::jinja
