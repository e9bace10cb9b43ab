#include "jinja/indexing.h"

#include <algorithm>

#include "base/checked.h"

namespace kv8::jinja {
namespace {

/// Python's own correction of slice bounds for a sequence of `length`.
std::int64_t ClampBound(std::int64_t bound, std::int64_t length, bool forwards) {
  if (bound < 0) bound += length;
  const std::int64_t lowest = forwards ? 0 : -1;
  return std::clamp(bound, lowest, forwards ? length : length - 1);
}

/// The bound that `value` gives; nullopt when it is neither an int nor None.
std::optional<std::int64_t> BoundOf(const Value& value, std::int64_t fallback, std::int64_t length,
                                    bool forwards) {
  if (value.Is(Kind::kNone)) return fallback;
  const auto bound = value.AsInt();
  if (!bound) return std::nullopt;
  return ClampBound(std::max(*bound, -length - 1), length, forwards);
}

/// Indices that a slice takes.
struct Steps {
  std::int64_t start;
  std::int64_t count;
  std::int64_t step;
};

Result<std::optional<Steps>> StepsOf(const SliceBounds& bounds, std::int64_t length) {
  const auto given =
      bounds.step.Is(Kind::kNone) ? std::optional<std::int64_t>(1) : bounds.step.AsInt();
  if (!given) return std::optional<Steps>();
  if (*given == 0) return Failure("slice step cannot be zero");
  // A longer step takes no more than one item either.
  const std::int64_t step = std::clamp(*given, -length - 1, length + 1);
  const bool forwards = step > 0;
  const auto start = BoundOf(bounds.start, forwards ? 0 : length - 1, length, forwards);
  const auto stop = BoundOf(bounds.stop, forwards ? length : -1, length, forwards);
  if (!start || !stop) return std::optional<Steps>();
  const std::int64_t span = forwards ? *stop - *start : *start - *stop;
  const std::int64_t size = forwards ? step : -step;
  return std::optional<Steps>(Steps{*start, span <= 0 ? 0 : CeilDiv(span, size), step});
}

}  // namespace

Result<std::optional<Value>> Slice(const Value& value, const SliceBounds& bounds) {
  const bool sliceable = value.Is(Kind::kString) || value.Is(Kind::kList) ||
                         value.Is(Kind::kTuple) || value.Is(Kind::kRange);
  if (!sliceable) return std::optional<Value>();
  KV8_ASSIGN_OR_RETURN(const auto steps, StepsOf(bounds, *value.Length()));
  if (!steps) return std::optional<Value>();
  if (value.Is(Kind::kString)) {
    const auto part = [&value](std::int64_t start, std::int64_t count) {
      const Text& text = value.characters();
      const std::size_t begin = text.OffsetOf(start);
      return std::string_view(text.text()).substr(begin, text.OffsetOf(start + count) - begin);
    };
    if (steps->step == 1) {
      return std::optional(Value::PartOf(value, part(steps->start, steps->count)));
    }
    MarkedText out;
    for (std::int64_t i = 0; i < steps->count; ++i) {
      out.AppendPart(value.marked(), part(steps->start + i * steps->step, 1));
    }
    return std::optional(Value(std::move(out)));
  }
  std::vector<Value> items;
  for (std::int64_t i = 0; i < steps->count; ++i) {
    items.push_back(value.sequence().items[steps->start + i * steps->step]);
  }
  KV8_ASSIGN_OR_RETURN(Value out,
                       MakeSequence(value.kind(), std::move(items), value.sequence().label));
  return std::optional(std::move(out));
}

std::optional<Value> ItemOf(const Value& value, const Value& key) {
  if (value.Is(Kind::kDict)) {
    const Value* found = value.dict().Find(key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  const auto index = key.AsInt();
  const bool indexable = value.Is(Kind::kString) || value.Is(Kind::kList) ||
                         value.Is(Kind::kTuple) || value.Is(Kind::kRange);
  if (!index || !indexable) return std::nullopt;
  const std::int64_t length = *value.Length();
  const std::int64_t at = *index < 0 ? *index + length : *index;
  if (at < 0 || at >= length) return std::nullopt;
  if (!value.Is(Kind::kString)) return value.sequence().items[at];
  const Text& text = value.characters();
  const std::size_t begin = text.OffsetOf(at);
  const std::string_view character =
      std::string_view(text.text()).substr(begin, text.OffsetOf(at + 1) - begin);
  return Value::PartOf(value, character);
}

}  // namespace kv8::jinja
