// Values of the template language: Python's, as far as templates meet them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/marked_text.h"
#include "jinja/text.h"
#include "kv8/error.h"

namespace kv8::jinja {

class Runtime;
struct Arguments;
class Dict;
class Object;
struct Sequence;
class Value;

/// Most levels of containers inside containers, and most nodes of one value. Bounds every walk over
/// a value, its destruction included; shared parts count each time.
inline constexpr int kMaxValueDepth = 100;
inline constexpr std::uint64_t kMaxValueWeight = std::uint64_t{1} << 20;
/// Bytes of a string that weigh as much as a node.
inline constexpr std::size_t kBytesPerWeight = 32;

/// How far a value goes down and how much is in it.
struct Extent {
  int depth = 0;
  std::uint64_t weight = 1;

  void Add(const Extent& inner);
  /// Of something that holds a value of extent `inner`.
  static Extent Around(const Extent& inner) {
    Extent extent;
    extent.Add(inner);
    return extent;
  }
};

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kLargeInt,  // beyond 64 bits: digits that can be shown and compared, and no more
  kFloat,
  kString,
  kList,
  kTuple,
  kRange,
  kView,      // of the keys, values or items of a dict
  kIterator,  // can be gone through once
  kDict,
  kObject,  // has attributes or can be called
};

/// One value. Cheap to copy: what is large is shared and never changes.
class Value {
 public:
  Value() : kind_(Kind::kNone) {}
  explicit Value(bool value) : kind_(Kind::kBool), data_(value) {}
  explicit Value(std::int64_t value) : kind_(Kind::kInt), data_(value) {}
  explicit Value(double value) : kind_(Kind::kFloat), data_(value) {}
  explicit Value(MarkedText value)
      : kind_(Kind::kString), data_(std::make_shared<const Text>(std::move(value))) {}
  /// Text of the template's own.
  explicit Value(std::string value) : Value(MarkedText(std::move(value))) {}
  explicit Value(std::string_view value) : Value(std::string(value)) {}
  explicit Value(const char* value) : Value(std::string(value)) {}
  explicit Value(std::shared_ptr<Object> value) : kind_(Kind::kObject), data_(std::move(value)) {}

  /// `part`, a view into the text of `whole`, with the authors that it has there.
  static Value PartOf(const Value& whole, std::string_view part);
  /// An integer beyond 64 bits. `digits`: decimal, with a sign if it is negative.
  static Value LargeInt(std::string_view digits);
  /// What a missing name or attribute is; `why` becomes the error of who tries to use it.
  static Value Undefined(std::string why);

  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  bool IsSequence() const { return kind_ >= Kind::kList && kind_ <= Kind::kIterator; }

  // Each of these needs a value of its kind.
  const std::string& why_undefined() const { return characters().text(); }
  bool boolean() const { return std::get<bool>(data_); }
  const std::string& digits() const { return characters().text(); }
  double real() const { return std::get<double>(data_); }
  const std::string& text() const { return characters().text(); }
  const MarkedText& marked() const { return characters().marked(); }
  const Text& characters() const { return *std::get<TextPtr>(data_); }
  const Sequence& sequence() const { return *std::get<SequencePtr>(data_); }
  const Dict& dict() const { return *std::get<DictPtr>(data_); }
  const std::shared_ptr<Object>& object() const { return std::get<ObjectPtr>(data_); }

  /// An int or a bool as a number; bools are numbers in Python. Nullopt for kLargeInt.
  std::optional<std::int64_t> AsInt() const;
  /// Any number.
  std::optional<double> AsReal() const;

  /// Python's bool().
  bool Truthy() const;
  /// Number of items or characters; nullopt for what has no len().
  std::optional<std::int64_t> Length() const;
  std::string_view TypeName() const;
  Extent extent() const;
  /// Python's `is`.
  bool IsSame(const Value& other) const;

 private:
  using TextPtr = std::shared_ptr<const Text>;
  using SequencePtr = std::shared_ptr<const Sequence>;
  using DictPtr = std::shared_ptr<const Dict>;
  using ObjectPtr = std::shared_ptr<Object>;

  friend Result<Value> MakeSequence(Kind kind, std::vector<Value> items, std::string label);
  friend Result<Value> MakeDict(Dict dict);

  Kind kind_;
  std::variant<std::monostate, bool, std::int64_t, double, TextPtr, SequencePtr, DictPtr, ObjectPtr>
      data_;
};

/// Items of a list, tuple, range, view or iterator.
struct Sequence {
  std::vector<Value> items;
  std::string label;  // "range(0, 3)", "dict_keys", "generator": what it calls itself
  Extent extent;
  mutable std::size_t taken = 0;  // items of an iterator that are gone
  MemoryShare memory;
};

/// Keys and values in order of insertion.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  /// Replaces the value of a key that is there. Errors: a key that cannot be one (a list, a dict).
  Result<void> Set(Value key, Value value);
  /// Null when absent; also for what cannot be a key.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  const Extent& extent() const { return extent_; }

 private:
  std::optional<std::size_t> IndexOf(const Value& key, std::uint64_t hash) const;
  void Index(std::size_t at);

  std::vector<Entry> entries_;
  // Filled for larger ones. Names are in a tree, as they come from requests: no choice of them
  // makes it slow. Their texts are those of the entries, which copies of the dict share.
  std::map<std::string_view, std::size_t> names_;
  std::unordered_multimap<std::uint64_t, std::size_t> others_;
  Extent extent_;
  MemoryShare memory_;
};

/// Something with attributes or a call: a namespace, a macro, `loop`, a bound method.
class Object {
 public:
  /// `extent` counts the values that it holds on to, so that chains of objects have an end too.
  /// What is taken apart at the end of a rendering need not be counted.
  explicit Object(const Extent& extent = {}) : extent_(extent) {}
  virtual ~Object() = default;
  const Extent& extent() const { return extent_; }
  virtual std::string_view type_name() const = 0;
  virtual std::optional<Value> Attribute(std::string_view name) const;
  virtual bool callable() const { return false; }
  virtual Result<Value> Call(Runtime& runtime, const Arguments& arguments);

 private:
  Extent extent_;
};

/// Errors: kResourceExhausted above kMaxValueDepth and kMaxValueWeight.
Result<Value> MakeSequence(Kind kind, std::vector<Value> items, std::string label = "");
Result<Value> MakeDict(Dict dict);
inline Result<Value> MakeList(std::vector<Value> items) {
  return MakeSequence(Kind::kList, std::move(items));
}
inline Result<Value> MakeTuple(std::vector<Value> items) {
  return MakeSequence(Kind::kTuple, std::move(items));
}
inline Result<Value> MakeIterator(std::vector<Value> items) {
  return MakeSequence(Kind::kIterator, std::move(items), "generator");
}

/// Nullopt for what Python cannot hash. Equal values have equal hashes.
std::optional<std::uint64_t> HashOf(const Value& value);

/// A template's mistake or a caller's; the interpreter adds template and line.
Error Failure(std::string what);
/// The error of using an undefined value.
Error UndefinedError(const Value& value);

}  // namespace kv8::jinja
