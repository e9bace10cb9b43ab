// Functions of the language that are written in C++: filters, tests, methods, globals.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace kv8::jinja {

/// One function. Filters, tests and methods get what they are applied to as first argument.
class Native {
 public:
  using Placed = Result<Value> (*)(Runtime& runtime, const Bound& arguments);
  using Free = Result<Value> (*)(Runtime& runtime, const Arguments& arguments);

  /// `parameters` as Bind takes them.
  Native(std::string_view name, std::string_view parameters, Placed call)
      : name_(name), parameters_(parameters), placed_(call) {}
  /// One that takes any arguments.
  Native(std::string_view name, Free call) : name_(name), free_(call) {}

  std::string_view name() const { return name_; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) const;

 private:
  std::string_view name_;
  std::string_view parameters_;
  Placed placed_ = nullptr;
  Free free_ = nullptr;
};

/// Natives by name.
class NativeTable {
 public:
  explicit NativeTable(const std::vector<std::vector<Native>>& parts);
  const Native* Find(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, Native> natives_;
};

const Native* FindFilter(std::string_view name);
const Native* FindTest(std::string_view name);
const Native* FindGlobal(std::string_view name);
/// A method of a value's type.
const Native* FindMethod(const Value& value, std::string_view name);
/// True for methods that would change a list or a dict, which templates may not.
bool IsMutation(const Value& value, std::string_view name);

/// A native as a value. `self`, if there is one, goes before the arguments.
Value NativeFunction(const Native& native);
Value BoundMethod(const Native& native, const Value& self);

/// Reads attribute "a.b.0" of items, as filters with an `attribute` argument do.
class AttributeGetter {
 public:
  /// `path` null: the item itself.
  AttributeGetter(Runtime& runtime, const Value* path, const Value* fallback = nullptr);
  Result<Value> operator()(const Value& item) const;

 private:
  Runtime& runtime_;
  std::vector<Value> steps_;
  const Value* fallback_;  // for what is undefined; may be null
};

}  // namespace kv8::jinja
