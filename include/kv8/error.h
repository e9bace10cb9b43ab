// How kv8 reports failure: a value, never an exception, an exit or a print.
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace kv8 {

/// What kind of failure it is. Use the most specific one.
enum class Code {
  kInvalidArgument,    // the caller asked for something that makes no sense
  kTooLong,            // prompt and output exceed the context
  kNotFound,           // a file, tensor or key that must exist does not
  kAlreadyExists,      // an output that must not exist does
  kCorrupt,            // a file violates its own format
  kMismatch,           // two inputs contradict each other
  kUnsupported,        // valid, but not something this build can run
  kResourceExhausted,  // memory, disk or a stated limit
  kIo,                 // the operating system refused
  kCancelled,          // the caller stopped the work
};

std::string_view CodeName(Code code);

/// One failure, told so that the reader can act on it.
struct Error {
  Code code;
  std::string what;    // what is wrong, with the names and both numbers
  std::string where;   // file, tensor, field or flag
  std::string remedy;  // what to do about it; empty when nothing sensible can be said

  /// "<where>: <what>\n  try: <remedy>"
  std::string ToString() const;
};

/// Either a value or an Error. Reading the absent one is a programmer error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() & { return *Get(); }
  const T& value() const& { return *const_cast<Result*>(this)->Get(); }
  T&& value() && { return std::move(*Get()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return Get(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    assert(!ok());
    return std::get<Error>(state_);
  }
  Error&& error() && {
    assert(!ok());
    return std::get<Error>(std::move(state_));
  }

 private:
  T* Get() {
    assert(ok());
    return &std::get<T>(state_);
  }

  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit by design

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& {
    assert(!ok_);
    return error_;
  }
  Error&& error() && {
    assert(!ok_);
    return std::move(error_);
  }

 private:
  Error error_{};
  bool ok_ = true;
};

#define KV8_CONCAT_INNER(a, b) a##b
#define KV8_CONCAT(a, b) KV8_CONCAT_INNER(a, b)

/// Returns the error of `expr` from the enclosing function, if it has one.
#define KV8_RETURN_IF_ERROR(expr)                     \
  do {                                                \
    if (auto kv8_status = (expr); !kv8_status.ok()) { \
      return std::move(kv8_status).error();           \
    }                                                 \
  } while (false)

/// `KV8_ASSIGN_OR_RETURN(auto x, F());`: the value of F(), or its error from the enclosing
/// function.
#define KV8_ASSIGN_OR_RETURN(lhs, expr) \
  KV8_ASSIGN_OR_RETURN_INNER(KV8_CONCAT(kv8_result_, __LINE__), lhs, expr)
#define KV8_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).error();    \
  lhs = std::move(tmp).value()

}  // namespace kv8
