#include "grammar/json_grammar.h"

#include <algorithm>
#include <cassert>

#include "grammar/char_set.h"
#include "grammar/regex.h"

namespace kv8 {
namespace {

// One character of a string, however it is written. No half of a surrogate pair stands alone.
constexpr std::string_view kStringChar =
    R"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9abcefABCEF][0-9a-fA-F][0-9a-fA-F][0-9a-fA-F])"
    R"(|[dD][0-7][0-9a-fA-F][0-9a-fA-F])"
    R"(|[dD][89abAB][0-9a-fA-F][0-9a-fA-F]\\u[dD][c-fC-F][0-9a-fA-F][0-9a-fA-F]))";
// At most 100 digits in a row, so that no number goes on for ever, and exponents that keep every
// number within a double.
constexpr std::string_view kInteger = "-?(?:0|[1-9][0-9]{0,99})";
constexpr std::string_view kNumberPattern =
    R"(-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,100})?(?:[eE](?:\+?[0-9][0-9]?|-[0-9][0-9]?[0-9]?))?)";

}  // namespace

Pc JsonGrammar::Pattern(std::string_view pattern, Pc next) {
  const Result<Regex> regex = ParseRegex(pattern, "built in");
  assert(regex.ok());
  return AddRegex(builder_, *regex, Anchoring::kWhole, TextForm::kPlain, next);
}

Pc JsonGrammar::Space(Pc next) {
  if (!rules().space) {
    rules().space = builder_.AddRule();
    const Pc indent = builder_.Loop(builder_.Literal(" ", kReturnPc), 0, kMaxIndent, kReturnPc);
    const Pc space =
        builder_.Either(builder_.Literal(" ", kReturnPc), builder_.Literal("\n", indent));
    builder_.SetEntry(*rules().space, builder_.Either(space, kReturnPc));
  }
  return builder_.Call(*rules().space, next);
}

Pc JsonGrammar::String(Pc next, std::uint32_t min, std::uint32_t max) {
  const Pc end = builder_.Literal("\"", kReturnPc);
  if (min == 0 && max == kNoLimit) {
    if (!rules().string) {
      rules().string = builder_.AddRule();
      const Pc split = builder_.OpenSplit(end);
      builder_.Close(split, Pattern(kStringChar, split));
      builder_.SetEntry(*rules().string, builder_.Literal("\"", split));
    }
    return builder_.Call(*rules().string, next);
  }
  const Pc body = Pattern(kStringChar, kReturnPc);
  return builder_.Literal("\"", builder_.Loop(body, min, max, builder_.Literal("\"", next)));
}

Pc JsonGrammar::Integer(Pc next) {
  return Pattern(kInteger, next);
}

Pc JsonGrammar::Number(Pc next) {
  return Pattern(kNumberPattern, next);
}

Pc JsonGrammar::Boolean(Pc next) {
  return builder_.Either(builder_.Literal("true", next), builder_.Literal("false", next));
}

RuleId JsonGrammar::ValueRule() {
  if (rules().value) return *rules().value;
  rules().value = builder_.AddRule();
  Pc entry = builder_.Either(Boolean(kReturnPc), Null(kReturnPc));
  entry = builder_.Either(Number(kReturnPc), entry);
  entry = builder_.Either(String(kReturnPc), entry);
  entry = builder_.Either(Array(kReturnPc), entry);
  builder_.SetEntry(*rules().value, builder_.Either(Object(kReturnPc), entry));
  return *rules().value;
}

Pc JsonGrammar::Object(Pc next) {
  const auto pair = [this](Pc after) { return String(Colon(Value(after))); };
  const Pc more = CommaRepeat(pair, Space(builder_.Literal("}", next)));
  return builder_.Literal("{", Space(builder_.Either(pair(more), builder_.Literal("}", next))));
}

Pc JsonGrammar::Array(Pc next) {
  const auto item = [this](Pc after) { return Value(after); };
  const Pc more = CommaRepeat(item, Space(builder_.Literal("]", next)));
  return builder_.Literal("[", Space(builder_.Either(item(more), builder_.Literal("]", next))));
}

/// The texts share their first `from` bytes, which have been read.
Pc JsonGrammar::OneOf(std::span<const std::string> texts, std::size_t from, Pc next) {
  if (texts.empty()) return builder_.Nothing();
  const std::string& first = texts.front();
  const std::string& last = texts.back();
  std::size_t shared = from;
  while (shared < first.size() && shared < last.size() && first[shared] == last[shared]) ++shared;
  const std::string_view prefix = std::string_view(first).substr(from, shared - from);
  if (texts.size() == 1) return builder_.Literal(prefix, next);
  std::optional<Pc> entry;
  const auto add = [&](Pc way) { entry = entry ? builder_.Either(*entry, way) : way; };
  if (first.size() == shared) {
    add(next);
    texts = texts.subspan(1);
  }
  while (!texts.empty()) {
    const char byte = texts.front()[shared];
    const auto end = std::find_if(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return text[shared] != byte; });
    const auto count = static_cast<std::size_t>(end - texts.begin());
    add(OneOf(texts.first(count), shared, next));
    texts = texts.subspan(count);
  }
  return builder_.Literal(prefix, *entry);
}

Pc JsonGrammar::Key(std::span<const KeyName> names, Pc next) {
  if (!rules().escape) {
    rules().escape = builder_.AddRule();
    builder_.SetEntry(*rules().escape,
                      AddChars(builder_, JsonEscaped(), TextForm::kJsonString, kReturnPc));
  }
  const Pc tail = builder_.OpenSplit(builder_.Literal("\"", next));
  const CharSet plain = CharSet::All().Without(JsonEscaped());
  builder_.Close(tail, builder_.Either(builder_.Call(*rules().escape, tail),
                                       AddChars(builder_, plain, TextForm::kPlain, tail)));
  return builder_.Literal("\"", Key(names, 0, tail, next));
}

/// The names share their first `from` characters, which have been read.
Pc JsonGrammar::Key(std::span<const KeyName> names, std::size_t from, Pc tail, Pc next) {
  const bool is_name = !names.empty() && names.front().name.size() == from;
  Pc entry = builder_.Literal("\"", is_name ? names.front().next : next);
  if (is_name) names = names.subspan(1);
  CharSet taken;
  while (!names.empty()) {
    const char32_t c = names.front().name[from];
    const auto end = std::find_if(names.begin(), names.end(),
                                  [&](const KeyName& name) { return name.name[from] != c; });
    const auto count = static_cast<std::size_t>(end - names.begin());
    const Pc deeper = Key(names.first(count), from + 1, tail, next);
    entry = builder_.Either(builder_.Literal(Written(c, TextForm::kJsonString), deeper), entry);
    taken.Add(c, c);
    names = names.subspan(count);
  }
  const bool escapes_taken = !taken.Within(JsonEscaped()).empty();
  const CharSet others = taken.Complement();
  if (escapes_taken) {
    return builder_.Either(AddChars(builder_, others, TextForm::kJsonString, tail), entry);
  }
  entry = builder_.Either(builder_.Call(*rules().escape, tail), entry);
  return builder_.Either(AddChars(builder_, others.Without(JsonEscaped()), TextForm::kPlain, tail),
                         entry);
}

}  // namespace kv8
