// What filters, tests, functions and the interpreter share: access to values, calls, and limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/operators.h"
#include "jinja/value.h"

namespace kv8::jinja {

class Namespace;

/// Bounds of one rendering. Beyond them it ends with kResourceExhausted.
struct Limits {
  /// Expressions evaluated, items gone through, and pieces of kBytesPerWeight of text made. The
  /// default is a second or two.
  std::uint64_t work = 20'000'000;
  std::size_t output_bytes = kMaxStringBytes;
  /// Expressions and blocks inside one another, through macros and recursive loops too.
  int depth = 500;
};

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : limits_(limits) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }

  /// Counts work. Errors: kResourceExhausted when it is too much.
  Result<void> Charge(std::uint64_t work);

  /// What a loop over `value` goes over; an iterator is used up. Errors: what cannot be gone over.
  Result<std::vector<Value>> Items(const Value& value);

  /// `object.name`: attribute or method, else item. Undefined when there is neither.
  Result<Value> GetAttribute(const Value& object, std::string_view name);
  /// `object[key]`: item, else attribute or method.
  Result<Value> GetItem(const Value& object, const Value& key);

  Result<Value> Operate(Operator op, const Value& left, const Value& right);

  Result<Value> Call(const Value& callee, const Arguments& arguments);
  /// The subject is the first of the positional arguments.
  Result<Value> ApplyFilter(std::string_view name, const Arguments& arguments);
  Result<bool> ApplyTest(std::string_view name, const Arguments& arguments);

  /// A new namespace, emptied at the end: it may refer to itself.
  std::shared_ptr<Namespace> AddNamespace();

 private:
  Limits limits_;
  std::uint64_t work_ = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace kv8::jinja
