#include "jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "jinja/operators.h"

namespace kv8::jinja {
namespace {

/// From this many entries on a dict keeps an index.
constexpr std::size_t kIndexedEntries = 16;

std::uint64_t Mix(std::uint64_t hash, std::uint64_t next) {
  return (hash ^ next) * 0x9E3779B97F4A7C15u + (hash >> 29);
}

Result<void> CheckExtent(const Extent& extent) {
  if (extent.depth > kMaxValueDepth) {
    return Error{Code::kResourceExhausted,
                 fmt::format("a value is nested deeper than {} levels", kMaxValueDepth), "", ""};
  }
  if (extent.weight > kMaxValueWeight) {
    return Error{Code::kResourceExhausted,
                 fmt::format("a value has more than {} parts", kMaxValueWeight), "", ""};
  }
  return {};
}

}  // namespace

void Extent::Add(const Extent& inner) {
  depth = std::max(depth, inner.depth + 1);
  // Every extent is at most a little above kMaxValueWeight, so this cannot overflow.
  weight = std::min(weight + inner.weight, kMaxValueWeight + 1);
}

Value Value::PartOf(const Value& whole, std::string_view part) {
  MarkedText out;
  out.AppendPart(whole.marked(), part);
  return Value(std::move(out));
}

Value Value::LargeInt(std::string_view digits) {
  Value value(digits);
  value.kind_ = Kind::kLargeInt;
  return value;
}

Value Value::Undefined(std::string why) {
  Value value(std::move(why));
  value.kind_ = Kind::kUndefined;
  return value;
}

std::optional<std::int64_t> Value::AsInt() const {
  if (Is(Kind::kInt)) return std::get<std::int64_t>(data_);
  if (Is(Kind::kBool)) return boolean() ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::AsReal() const {
  if (Is(Kind::kFloat)) return real();
  if (Is(Kind::kLargeInt)) return std::strtod(digits().c_str(), nullptr);
  const auto number = AsInt();
  return number ? std::optional<double>(static_cast<double>(*number)) : std::nullopt;
}

bool Value::Truthy() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return *AsInt() != 0;
    case Kind::kLargeInt:
      return true;
    case Kind::kFloat:
      return real() != 0;
    case Kind::kString:
      return !text().empty();
    case Kind::kIterator:
    case Kind::kObject:
      return true;
    case Kind::kDict:
      return !dict().entries().empty();
    default:
      return !sequence().items.empty();
  }
}

std::optional<std::int64_t> Value::Length() const {
  switch (kind_) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return characters().length();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return static_cast<std::int64_t>(sequence().items.size());
    case Kind::kDict:
      return static_cast<std::int64_t>(dict().entries().size());
    default:
      return std::nullopt;
  }
}

std::string_view Value::TypeName() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kLargeInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kRange:
      return "range";
    case Kind::kView:
    case Kind::kIterator:
      return sequence().label;
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return object()->type_name();
  }
  return "";
}

Extent Value::extent() const {
  if (IsSequence()) return sequence().extent;
  if (Is(Kind::kDict)) return dict().extent();
  if (Is(Kind::kObject)) return object()->extent();
  Extent extent;
  if (Is(Kind::kString) || Is(Kind::kLargeInt)) extent.weight += text().size() / kBytesPerWeight;
  return extent;
}

bool Value::IsSame(const Value& other) const {
  return kind_ == other.kind_ && data_ == other.data_;
}

Result<void> Dict::Set(Value key, Value value) {
  const auto hash = HashOf(key);
  if (!hash) return Failure(fmt::format("unhashable type: '{}'", key.TypeName()));
  extent_.Add(value.extent());
  if (const auto at = IndexOf(key, *hash)) {
    entries_[*at].second = std::move(value);
    return {};
  }
  extent_.Add(key.extent());
  entries_.emplace_back(std::move(key), std::move(value));
  memory_.Grow(sizeof(Entry));
  if (entries_.size() == kIndexedEntries) {
    for (std::size_t i = 0; i < entries_.size(); ++i) Index(i);
  } else if (entries_.size() > kIndexedEntries) {
    Index(entries_.size() - 1);
  }
  return {};
}

void Dict::Index(std::size_t at) {
  const Value& key = entries_[at].first;
  constexpr std::size_t kNodeBytes = 64;
  memory_.Grow(kNodeBytes);
  if (key.Is(Kind::kString)) {
    names_.emplace(key.text(), at);
  } else {
    others_.emplace(*HashOf(key), at);
  }
}

std::optional<std::size_t> Dict::IndexOf(const Value& key, std::uint64_t hash) const {
  if (entries_.size() < kIndexedEntries) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (Equal(entries_[i].first, key)) return i;
    }
    return std::nullopt;
  }
  if (key.Is(Kind::kString)) {
    const auto it = names_.find(key.text());
    return it == names_.end() ? std::nullopt : std::optional(it->second);
  }
  const auto [first, last] = others_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (Equal(entries_[it->second].first, key)) return it->second;
  }
  return std::nullopt;
}

const Value* Dict::Find(const Value& key) const {
  const auto hash = HashOf(key);
  if (!hash) return nullptr;
  const auto at = IndexOf(key, *hash);
  return at ? &entries_[*at].second : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  if (entries_.size() >= kIndexedEntries) {
    const auto it = names_.find(key);
    return it == names_.end() ? nullptr : &entries_[it->second].second;
  }
  for (const Entry& entry : entries_) {
    if (entry.first.Is(Kind::kString) && entry.first.text() == key) return &entry.second;
  }
  return nullptr;
}

std::optional<Value> Object::Attribute(std::string_view /*name*/) const {
  return std::nullopt;
}

Result<Value> Object::Call(Runtime& /*runtime*/, const Arguments& /*arguments*/) {
  return Failure(fmt::format("'{}' object is not callable", type_name()));
}

Result<Value> MakeSequence(Kind kind, std::vector<Value> items, std::string label) {
  Extent extent;
  for (const Value& item : items) extent.Add(item.extent());
  KV8_RETURN_IF_ERROR(CheckExtent(extent));
  const std::size_t bytes = items.capacity() * sizeof(Value);
  Value value;
  value.kind_ = kind;
  value.data_ = std::make_shared<const Sequence>(Sequence{.items = std::move(items),
                                                          .label = std::move(label),
                                                          .extent = extent,
                                                          .memory = MemoryShare(bytes)});
  return value;
}

Result<Value> MakeDict(Dict dict) {
  KV8_RETURN_IF_ERROR(CheckExtent(dict.extent()));
  Value value;
  value.kind_ = Kind::kDict;
  value.data_ = std::make_shared<const Dict>(std::move(dict));
  return value;
}

std::optional<std::uint64_t> HashOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return std::hash<std::string>()(value.text());
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kLargeInt:
    case Kind::kFloat:
      // 1, 1.0 and True are the same key.
      return std::hash<double>()(*value.AsReal());
    case Kind::kTuple: {
      std::uint64_t hash = 1;
      for (const Value& item : value.sequence().items) {
        const auto inner = HashOf(item);
        if (!inner) return std::nullopt;
        hash = Mix(hash, *inner);
      }
      return hash;
    }
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      return std::nullopt;
    case Kind::kObject:
      return std::hash<const Object*>()(value.object().get());
    case Kind::kRange:
      return value.sequence().items.size();
    case Kind::kIterator:
      return std::hash<const Sequence*>()(&value.sequence());
    default:
      return static_cast<std::uint64_t>(value.kind());
  }
}

Error Failure(std::string what) {
  return Error{Code::kInvalidArgument, std::move(what), "", ""};
}

Error UndefinedError(const Value& value) {
  return Failure(value.why_undefined());
}

}  // namespace kv8::jinja
