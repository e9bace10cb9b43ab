#include "grammar/regex.h"

#include <algorithm>
#include <utility>

namespace kv8 {
namespace {

class RegexAdder {
 public:
  RegexAdder(ProgramBuilder& builder, TextForm form) : builder_(builder), form_(form) {}

  Pc Add(const Regex& regex, Pc next) {
    switch (regex.kind) {
      case Regex::Kind::kEmpty:
      case Regex::Kind::kStart:
      case Regex::Kind::kEnd:
        return next;
      case Regex::Kind::kChars:
        return AddChars(builder_, regex.chars, form_, next);
      case Regex::Kind::kConcat:
        for (std::size_t i = regex.parts.size(); i > 0; --i) next = Add(regex.parts[i - 1], next);
        return next;
      case Regex::Kind::kAny: {
        Pc entry = Add(regex.parts.front(), next);
        for (std::size_t i = 1; i < regex.parts.size(); ++i) {
          entry = builder_.Either(entry, Add(regex.parts[i], next));
        }
        return entry;
      }
      case Regex::Kind::kRepeat:
        return AddRepeat(regex, next);
    }
    return next;
  }

  Pc AnyText(Pc next) {
    const Pc split = builder_.OpenSplit(next);
    builder_.Close(split, AddChars(builder_, CharSet::All(), form_, split));
    return split;
  }

 private:
  Pc AddRepeat(const Regex& regex, Pc next) {
    const Regex& body = regex.parts.front();
    if (regex.max == 0) return next;
    if (regex.max == 1) {
      const Pc once = Add(body, next);
      return regex.min == 1 ? once : builder_.Either(once, next);
    }
    if (regex.max == kNoLimit && regex.min <= 1) {
      const Pc split = builder_.OpenSplit(next);
      const Pc entry = Add(body, split);
      builder_.Close(split, entry);
      return regex.min == 1 ? entry : split;
    }
    // An empty iteration can stand for any number of them.
    const std::uint32_t min = body.nullable() ? 0 : regex.min;
    return builder_.Loop(Add(body, kReturnPc), min, regex.max, next);
  }

  ProgramBuilder& builder_;
  TextForm form_;
};

bool StartsAnchored(const Regex& alternative) {
  if (alternative.kind == Regex::Kind::kStart) return true;
  return alternative.kind == Regex::Kind::kConcat && !alternative.parts.empty() &&
         StartsAnchored(alternative.parts.front());
}

bool EndsAnchored(const Regex& alternative) {
  if (alternative.kind == Regex::Kind::kEnd) return true;
  return alternative.kind == Regex::Kind::kConcat && !alternative.parts.empty() &&
         EndsAnchored(alternative.parts.back());
}

struct Lengths {
  std::uint64_t min = 0;
  std::uint64_t max = 0;  // kNoLimit and more: without a limit
};

Lengths LengthsOf(const Regex& regex) {
  Lengths all;
  switch (regex.kind) {
    case Regex::Kind::kChars:
      return {1, 1};
    case Regex::Kind::kConcat:
      for (const Regex& part : regex.parts) {
        const Lengths lengths = LengthsOf(part);
        all = {all.min + lengths.min, std::min<std::uint64_t>(all.max + lengths.max, kNoLimit)};
      }
      return all;
    case Regex::Kind::kAny:
      all.min = kNoLimit;
      for (const Regex& part : regex.parts) {
        const Lengths lengths = LengthsOf(part);
        all = {std::min(all.min, lengths.min), std::max(all.max, lengths.max)};
      }
      return all;
    case Regex::Kind::kRepeat: {
      // Lengths saturate, so that products of nested counts do not overflow.
      const Lengths lengths = LengthsOf(regex.parts.front());
      return {std::min<std::uint64_t>(lengths.min * regex.min, kNoLimit),
              lengths.max == 0 ? 0 : std::min<std::uint64_t>(lengths.max * regex.max, kNoLimit)};
    }
    default:
      return all;
  }
}

}  // namespace

bool LimitLength(Regex& regex, Anchoring anchoring, std::uint32_t min, std::uint32_t max) {
  if (min == 0 && max == kNoLimit) return true;
  const bool whole =
      anchoring == Anchoring::kWhole || (StartsAnchored(regex) && EndsAnchored(regex));
  if (!whole) return false;
  const Lengths lengths = LengthsOf(regex);
  if (lengths.min >= min && lengths.max <= max) return true;
  Regex* repeat = nullptr;
  for (Regex& part : regex.parts) {
    if (part.kind == Regex::Kind::kStart || part.kind == Regex::Kind::kEnd) continue;
    const bool repeated_class =
        part.kind == Regex::Kind::kRepeat && part.parts.front().kind == Regex::Kind::kChars;
    if (regex.kind != Regex::Kind::kConcat || repeat != nullptr || !repeated_class) return false;
    repeat = &part;
  }
  if (repeat == nullptr || std::max(repeat->min, min) > std::min(repeat->max, max)) return false;
  repeat->min = std::max(repeat->min, min);
  repeat->max = std::min(repeat->max, max);
  return true;
}

bool Regex::nullable() const {
  const auto is_nullable = [](const Regex& part) { return part.nullable(); };
  switch (kind) {
    case Kind::kChars:
      return false;
    case Kind::kConcat:
      return std::all_of(parts.begin(), parts.end(), is_nullable);
    case Kind::kAny:
      return std::any_of(parts.begin(), parts.end(), is_nullable);
    case Kind::kRepeat:
      return min == 0 || parts.front().nullable();
    default:
      return true;
  }
}

Pc AddText(ProgramBuilder& builder, std::uint32_t min, std::uint32_t max, TextForm form, Pc next) {
  Regex any{.kind = Regex::Kind::kChars, .chars = CharSet::All(), .parts = {}};
  const Regex text{
      .kind = Regex::Kind::kRepeat, .chars = {}, .parts = {std::move(any)}, .min = min, .max = max};
  return RegexAdder(builder, form).Add(text, next);
}

Pc AddRegex(ProgramBuilder& builder, const Regex& regex, Anchoring anchoring, TextForm form,
            Pc next) {
  RegexAdder adder(builder, form);
  if (anchoring == Anchoring::kWhole) return adder.Add(regex, next);
  const bool has_alternatives = regex.kind == Regex::Kind::kAny;
  const std::size_t count = has_alternatives ? regex.parts.size() : 1;
  const Pc tail = adder.AnyText(next);
  Pc entry = builder.Nothing();
  for (std::size_t i = 0; i < count; ++i) {
    const Regex& alternative = has_alternatives ? regex.parts[i] : regex;
    Pc way = adder.Add(alternative, EndsAnchored(alternative) ? next : tail);
    if (!StartsAnchored(alternative)) way = adder.AnyText(way);
    entry = builder.Either(way, entry);
  }
  return entry;
}

}  // namespace kv8
