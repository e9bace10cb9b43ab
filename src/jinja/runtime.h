// What filters, tests, functions and the interpreter share: access to values, calls, and limits.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string_view>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/operators.h"
#include "jinja/value.h"

namespace kv8::jinja {

class Namespace;

/// Bounds of one rendering. Beyond them it ends with kResourceExhausted.
struct Limits {
  /// Expressions evaluated, items gone through, and pieces of kBytesPerWeight of text made, or
  /// given to a function. The default is a second or two.
  std::uint64_t work = 20'000'000;
  /// That values hold at a time; one operation may go beyond it, by a value of the greatest size.
  std::size_t memory_bytes = std::size_t{256} << 20;
  std::size_t output_bytes = kMaxStringBytes;
  /// Expressions and blocks inside one another, through macros and recursive loops too.
  int depth = 500;
  /// Ends it early, with kCancelled.
  std::stop_token stop = {};
};

class Runtime {
 public:
  explicit Runtime(const Limits& limits) : limits_(limits) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }

  /// Counts work. Errors: kResourceExhausted when it, or the memory in use, is too much; kCancelled
  /// after a request to stop.
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
  const MemoryAccount* memory_ = MemoryAccount::Current();
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace kv8::jinja
