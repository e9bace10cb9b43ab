#include "jinja/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "jinja/operators.h"
#include "jinja/python_repr.h"

namespace kv8::jinja {
namespace {

Result<Value> FromJsonAt(const OrderedJson& json, Author author, int depth);

Value FromInteger(std::uint64_t number) {
  if (number <= INT64_MAX) return Value(static_cast<std::int64_t>(number));
  return Value::LargeInt(fmt::format("{}", number));
}

Result<Value> FromString(const std::string& text, Author author) {
  if (FirstInvalidUtf8(text)) return Failure("a string is not valid UTF-8");
  return Value(MarkedText(text, author));
}

Result<Value> FromArray(const OrderedJson& json, Author author, int depth) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (const OrderedJson& item : json) {
    KV8_ASSIGN_OR_RETURN(Value value, FromJsonAt(item, author, depth + 1));
    items.push_back(std::move(value));
  }
  return MakeList(std::move(items));
}

Result<Value> FromObject(const OrderedJson& json, Author author, int depth) {
  Dict dict;
  for (const auto& [name, item] : json.items()) {
    KV8_ASSIGN_OR_RETURN(Value key, FromString(name, author));
    KV8_ASSIGN_OR_RETURN(Value value, FromJsonAt(item, author, depth + 1));
    KV8_RETURN_IF_ERROR(dict.Set(std::move(key), std::move(value)));
  }
  return MakeDict(std::move(dict));
}

Result<Value> FromJsonAt(const OrderedJson& json, Author author, int depth) {
  if (depth > kMaxValueDepth) {
    return Failure(fmt::format("JSON is nested deeper than {} levels", kMaxValueDepth));
  }
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return Value(json.get<bool>());
    case OrderedJson::value_t::number_unsigned:
      return FromInteger(json.get<std::uint64_t>());
    case OrderedJson::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case OrderedJson::value_t::number_float:
      return Value(json.get<double>());
    case OrderedJson::value_t::string:
      return FromString(json.get_ref<const std::string&>(), author);
    case OrderedJson::value_t::array:
      return FromArray(json, author, depth);
    case OrderedJson::value_t::object:
      return FromObject(json, author, depth);
    case OrderedJson::value_t::binary:
      return Value::LargeInt(*LargeInteger(json));
    default:
      return Value();
  }
}

void AppendUnicodeEscape(char32_t code_point, std::string& out) {
  const auto unit = static_cast<unsigned>(code_point);
  if (unit < 0x10000) {
    out += fmt::format("\\u{:04x}", unit);
  } else {
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((unit - 0x10000) >> 10),
                       0xDC00 + ((unit - 0x10000) & 0x3FF));
  }
}

void AppendEscaped(std::string_view text, bool ensure_ascii, std::string& out) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
  static constexpr std::string_view kLetters = "\"\\nrtbf";
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    const std::size_t escaped = c.length == 1 ? kEscaped.find(text[at]) : std::string_view::npos;
    if (escaped != std::string_view::npos) {
      out += '\\';
      out += kLetters[escaped];
    } else if (c.code_point < 0x20 || (ensure_ascii && c.code_point >= 0x7F)) {
      AppendUnicodeEscape(c.code_point, out);
    } else {
      out.append(text, at, c.length);
    }
    at += c.length;
  }
}

void AppendJsonString(const MarkedText& text, bool ensure_ascii, MarkedText& out) {
  out += "\"";
  text.ForEachRun([&](std::string_view run, Author author) {
    std::string escaped;
    AppendEscaped(run, ensure_ascii, escaped);
    out.Append(escaped, author);
  });
  out += "\"";
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return ReprFloat(value);
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  Result<void> Write(const Value& value) {
    if (out_.size() > kMaxStringBytes) return StringTooLong();
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return {};
      case Kind::kBool:
        out_ += value.boolean() ? "true" : "false";
        return {};
      case Kind::kInt:
        out_ += fmt::format("{}", *value.AsInt());
        return {};
      case Kind::kLargeInt:
        out_ += value.digits();
        return {};
      case Kind::kFloat:
        out_ += FloatText(value.real());
        return {};
      case Kind::kString:
        AppendJsonString(value.marked(), style_.ensure_ascii, out_);
        return {};
      case Kind::kList:
      case Kind::kTuple:
        return WriteArray(value.sequence().items);
      case Kind::kDict:
        return WriteObject(value.dict().entries());
      default:
        return Failure(fmt::format("Object of type {} is not JSON serializable", value.TypeName()));
    }
  }

  MarkedText Take() { return std::move(out_); }

 private:
  void NewLine() {
    if (!style_.indent) return;
    out_ += "\n";
    for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
  }

  template <class Items, class WriteItem>
  Result<void> WriteItems(const Items& items, char open, char close, WriteItem&& write_item) {
    out_ += std::string_view(&open, 1);
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += style_.item_separator;
      first = false;
      NewLine();
      KV8_RETURN_IF_ERROR(write_item(item));
    }
    --depth_;
    if (!items.empty()) NewLine();
    out_ += std::string_view(&close, 1);
    return {};
  }

  Result<void> WriteArray(const std::vector<Value>& items) {
    return WriteItems(items, '[', ']', [this](const Value& item) { return Write(item); });
  }

  Result<void> WriteObject(const std::vector<Dict::Entry>& entries) {
    const auto write = [this](const Dict::Entry& entry) -> Result<void> {
      KV8_RETURN_IF_ERROR(WriteKey(entry.first));
      out_ += style_.key_separator;
      return Write(entry.second);
    };
    if (!style_.sort_keys) return WriteItems(entries, '{', '}', write);
    std::vector<Dict::Entry> sorted = entries;
    Result<void> status;
    std::stable_sort(sorted.begin(), sorted.end(), [&status](const auto& a, const auto& b) {
      const auto order = Order(a.first, b.first, Operator::kLess);
      if (!order.ok()) status = order.error();
      return order.ok() && std::is_lt(*order);
    });
    KV8_RETURN_IF_ERROR(status);
    return WriteItems(sorted, '{', '}', write);
  }

  Result<void> WriteKey(const Value& key) {
    if (key.Is(Kind::kString)) {
      AppendJsonString(key.marked(), style_.ensure_ascii, out_);
      return {};
    }
    if (!key.Is(Kind::kNone) && !key.AsReal()) {
      return Failure(
          fmt::format("keys must be str, int, float, bool or None, not {}", key.TypeName()));
    }
    out_ += "\"";
    KV8_RETURN_IF_ERROR(Write(key));
    out_ += "\"";
    return {};
  }

  const JsonStyle& style_;
  MarkedText out_;
  int depth_ = 0;
};

}  // namespace

Result<Value> FromJson(const OrderedJson& json, Author author) {
  return FromJsonAt(json, author, 0);
}

Result<MarkedText> ToJson(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  KV8_RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

}  // namespace kv8::jinja
