#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "jinja/filters.h"
#include "jinja/indexing.h"
#include "jinja/methods.h"
#include "jinja/python_format.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

using TextFunction = std::string (*)(std::string_view);

template <TextFunction kFunction>
Result<Value> Mapped(Runtime&, const Bound& args) {
  return Value(MarkedText(kFunction(args[0]->text()), args[0]->marked().worst()));
}

template <Property kProperty>
Result<Value> HasProperty(Runtime&, const Bound& args) {
  return Value(AllHave(args[0]->text(), kProperty));
}

Result<Value> IsLowerMethod(Runtime&, const Bound& args) {
  return Value(IsLower(args[0]->text()));
}
Result<Value> IsUpperMethod(Runtime&, const Bound& args) {
  return Value(IsUpper(args[0]->text()));
}

template <Side kSide>
Result<Value> StripMethod(Runtime&, const Bound& args) {
  std::optional<std::string_view> characters;
  if (args[1] != nullptr && !args[1]->Is(Kind::kNone)) {
    KV8_ASSIGN_OR_RETURN(characters, TextOf(args[1], "", "strip arg"));
  }
  return Value::PartOf(*args[0], Strip(args[0]->text(), kSide, characters));
}

/// The part of the text that `start` and `end` leave, and how many characters precede it.
struct Part {
  Value value;
  std::int64_t before;

  std::string_view text() const { return value.text(); }
};
Result<std::optional<Part>> PartOf(const Value& text, const Value* start, const Value* end) {
  if (start == nullptr && end == nullptr) return std::optional<Part>({text, 0});
  const auto or_none = [](const Value* bound) { return bound == nullptr ? Value() : *bound; };
  const std::int64_t length = *text.Length();
  KV8_ASSIGN_OR_RETURN(const auto part, Slice(text, {or_none(start), or_none(end), Value()}));
  if (!part) return Failure("slice indices must be integers or None");
  std::int64_t before = start == nullptr ? 0 : start->AsInt().value_or(0);
  if (before < 0) before = std::max<std::int64_t>(0, before + length);
  if (before > length) return std::optional<Part>();
  return std::optional<Part>({*part, before});
}

template <bool kAtEnd>
Result<Value> StartsOrEndsWith(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto part, PartOf(*args[0], args[2], args[3]));
  if (!part) return Value(false);
  std::vector<Value> affixes = {*args[1]};
  if (args[1]->Is(Kind::kTuple)) {
    KV8_ASSIGN_OR_RETURN(affixes, runtime.Items(*args[1]));
  }
  bool found = false;
  for (const Value& affix : affixes) {
    KV8_ASSIGN_OR_RETURN(const auto text, TextOf(&affix, "",
                                                 "the first argument of "
                                                 "startswith and endswith"));
    found = found || (kAtEnd ? part->text().ends_with(text) : part->text().starts_with(text));
  }
  return Value(found);
}

/// Index of the first or last occurrence, in characters; -1 for none.
Result<std::int64_t> FindIn(const Bound& args, bool from_right) {
  KV8_ASSIGN_OR_RETURN(const auto wanted, TextOf(args[1], "", "what is looked for"));
  KV8_ASSIGN_OR_RETURN(const auto part, PartOf(*args[0], args[2], args[3]));
  if (!part) return std::int64_t{-1};
  const std::size_t at = from_right ? FindLast(part->text(), wanted) : Find(part->text(), wanted);
  if (at == std::string::npos) return std::int64_t{-1};
  return part->before + part->value.characters().IndexOf(at);
}

template <bool kFromRight>
Result<Value> FindMethodOfText(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::int64_t at, FindIn(args, kFromRight));
  return Value(at);
}

template <bool kFromRight>
Result<Value> IndexMethod(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::int64_t at, FindIn(args, kFromRight));
  if (at < 0) return Failure("substring not found");
  return Value(at);
}

Result<Value> CountMethod(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto wanted, TextOf(args[1], "", "what is counted"));
  KV8_ASSIGN_OR_RETURN(const auto part, PartOf(*args[0], args[2], args[3]));
  return Value(part ? Count(part->text(), wanted) : std::int64_t{0});
}

/// Parts of the text of `whole` as a list.
Result<Value> ToList(const Value& whole, const std::vector<std::string_view>& texts) {
  if (texts.size() > kMaxValueWeight) return StringTooLong();
  std::vector<Value> items;
  items.reserve(texts.size());
  for (const std::string_view text : texts) items.push_back(Value::PartOf(whole, text));
  return MakeList(std::move(items));
}

template <bool kFromRight>
Result<Value> SplitMethod(Runtime& runtime, const Bound& args) {
  const std::string& text = args[0]->text();
  KV8_RETURN_IF_ERROR(runtime.Charge(text.size()));
  KV8_ASSIGN_OR_RETURN(const std::int64_t most, IntOf(args[2], -1, "maxsplit"));
  if (args[1] == nullptr || args[1]->Is(Kind::kNone)) {
    return ToList(*args[0], SplitSpace(text, most, kFromRight));
  }
  KV8_ASSIGN_OR_RETURN(const auto separator, TextOf(args[1], "", "the separator"));
  if (separator.empty()) return Failure("empty separator");
  return ToList(*args[0], SplitAt(text, separator, most, kFromRight));
}

Result<Value> SplitLinesMethod(Runtime& runtime, const Bound& args) {
  KV8_RETURN_IF_ERROR(runtime.Charge(args[0]->text().size()));
  return ToList(*args[0], SplitLines(args[0]->text(), FlagOf(args[1], false)));
}

template <bool kFromRight>
Result<Value> Partition(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto separator, TextOf(args[1], "", "the separator"));
  if (separator.empty()) return Failure("empty separator");
  const std::string_view text = args[0]->text();
  const std::size_t at = kFromRight ? FindLast(text, separator) : Find(text, separator);
  if (at == text.npos) {
    if (kFromRight) return MakeTuple({Value(""), Value(""), *args[0]});
    return MakeTuple({*args[0], Value(""), Value("")});
  }
  return MakeTuple({Value::PartOf(*args[0], text.substr(0, at)),
                    Value::PartOf(*args[0], text.substr(at, separator.size())),
                    Value::PartOf(*args[0], text.substr(at + separator.size()))});
}

Result<Value> JoinMethod(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto items, runtime.Items(*args[1]));
  MarkedText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].Is(Kind::kString)) {
      return Failure(
          fmt::format("sequence item {}: expected str instance, {} found", i, items[i].TypeName()));
    }
    if (i > 0) out.Append(args[0]->marked());
    out.Append(items[i].marked());
    if (out.size() > kMaxStringBytes) return StringTooLong();
  }
  return Value(std::move(out));
}

Result<Value> ReplaceMethod(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto from, TextOf(args[1], "", "what is replaced"));
  KV8_RETURN_IF_ERROR(TextOf(args[2], "", "the replacement"));
  KV8_ASSIGN_OR_RETURN(const std::int64_t most, IntOf(args[3], -1, "the count"));
  return BoundedReplace(runtime, args[0]->marked(), from, args[2]->marked(), most);
}

template <bool kSuffix>
Result<Value> RemoveAffix(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const auto affix, TextOf(args[1], "", "what is removed"));
  const std::string_view text = args[0]->text();
  if (!(kSuffix ? text.ends_with(affix) : text.starts_with(affix))) return *args[0];
  return Value::PartOf(
      *args[0], kSuffix ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

template <Side kPadded>
Result<Value> PadMethod(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::int64_t width, IntOf(args[1], 0, "the width"));
  KV8_ASSIGN_OR_RETURN(const auto fill, TextOf(args[2], " ", "the fill character"));
  if (CodePoints(fill) != 1) return Failure("the fill character must be one character");
  return PadText(*args[0], width, args[2] == nullptr ? Value(" ") : *args[2], kPadded);
}

Result<Value> ZFillMethod(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::int64_t width, IntOf(args[1], 0, "the width"));
  const std::string_view text = args[0]->text();
  const std::size_t sign = text.starts_with('-') || text.starts_with('+');
  const std::int64_t room = std::max<std::int64_t>(width, 1) - static_cast<std::int64_t>(sign);
  const Value unsigned_text = Value::PartOf(*args[0], text.substr(sign));
  KV8_ASSIGN_OR_RETURN(const Value digits, PadText(unsigned_text, room, Value("0"), Side::kLeft));
  MarkedText out;
  out.AppendPart(args[0]->marked(), text.substr(0, sign));
  out.Append(digits.marked());
  return Value(std::move(out));
}

/// Tabs become spaces up to the next column that is a multiple of the tab size.
Result<Value> ExpandTabsMethod(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::int64_t size, IntOf(args[1], 8, "the tab size"));
  const std::string_view text = args[0]->text();
  MarkedText out;
  std::int64_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = ReadUtf8(text, at).length;
    if (text[at] == '\t') {
      const std::int64_t spaces = size > 0 ? size - column % size : 0;
      if (static_cast<std::uint64_t>(spaces) > kMaxStringBytes - out.size()) return StringTooLong();
      KV8_RETURN_IF_ERROR(runtime.Charge(static_cast<std::uint64_t>(spaces) / kBytesPerWeight));
      out.Append(std::string(static_cast<std::size_t>(spaces), ' '), args[0]->marked().worst());
      column += spaces;
    } else {
      out.AppendPart(args[0]->marked(), text.substr(at, length));
      column = text[at] == '\n' || text[at] == '\r' ? 0 : column + 1;
    }
    at += length;
  }
  return Value(std::move(out));
}

Result<Value> FormatMethod(Runtime& runtime, const Arguments& arguments) {
  Arguments values = arguments;
  values.positional.erase(values.positional.begin());
  return FormatBraces(runtime, arguments.positional[0], values);
}

}  // namespace

std::vector<Native> CaseMethods() {
  return {
      {"capitalize", "self", Mapped<Capitalize>},
      {"casefold", "self", Mapped<Lower>},
      {"isalnum", "self", HasProperty<Property::kAlnum>},
      {"isalpha", "self", HasProperty<Property::kAlpha>},
      {"isdecimal", "self", HasProperty<Property::kDecimal>},
      {"isdigit", "self", HasProperty<Property::kDigit>},
      {"islower", "self", IsLowerMethod},
      {"isnumeric", "self", HasProperty<Property::kNumeric>},
      {"isspace", "self", HasProperty<Property::kSpace>},
      {"isupper", "self", IsUpperMethod},
      {"lower", "self", Mapped<Lower>},
      {"title", "self", Mapped<Title>},
      {"upper", "self", Mapped<Upper>},
  };
}

std::vector<Native> SearchMethods() {
  return {
      {"count", "self sub start? end?", CountMethod},
      {"endswith", "self suffix start? end?", StartsOrEndsWith<true>},
      {"find", "self sub start? end?", FindMethodOfText<false>},
      {"index", "self sub start? end?", IndexMethod<false>},
      {"rfind", "self sub start? end?", FindMethodOfText<true>},
      {"rindex", "self sub start? end?", IndexMethod<true>},
      {"startswith", "self prefix start? end?", StartsOrEndsWith<false>},
  };
}

std::vector<Native> SplitMethods() {
  return {
      {"center", "self width fillchar?", PadMethod<Side::kBoth>},
      {"expandtabs", "self tabsize?", ExpandTabsMethod},
      {"format", FormatMethod},
      {"join", "self iterable", JoinMethod},
      {"ljust", "self width fillchar?", PadMethod<Side::kRight>},
      {"lstrip", "self chars?", StripMethod<Side::kLeft>},
      {"partition", "self sep", Partition<false>},
      {"removeprefix", "self prefix", RemoveAffix<false>},
      {"removesuffix", "self suffix", RemoveAffix<true>},
      {"replace", "self old new count?", ReplaceMethod},
      {"rjust", "self width fillchar?", PadMethod<Side::kLeft>},
      {"rpartition", "self sep", Partition<true>},
      {"rsplit", "self sep? maxsplit?", SplitMethod<true>},
      {"rstrip", "self chars?", StripMethod<Side::kRight>},
      {"split", "self sep? maxsplit?", SplitMethod<false>},
      {"splitlines", "self keepends?", SplitLinesMethod},
      {"strip", "self chars?", StripMethod<Side::kBoth>},
      {"zfill", "self width", ZFillMethod},
  };
}

}  // namespace kv8::jinja
