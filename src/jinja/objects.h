// Values with a state of their own, which live for one rendering: namespaces and what goes round.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/natives.h"
#include "jinja/value.h"

namespace kv8::jinja {

/// `namespace(...)`: the one thing a template can change.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> Attribute(std::string_view name) const override;
  /// Errors: a name with an underscore in front.
  Result<void> Set(std::string_view name, Value value);
  /// Breaks what may be a circle of references.
  void Clear() { values_.clear(); }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

/// `loop` inside of a loop.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  /// Renders the loop's body over other items, `depth` levels down.
  using Recurse = std::function<Result<Value>(const Value& items, int depth)>;

  Loop(std::vector<Value> items, int depth, Recurse recurse)
      : items_(std::move(items)),
        length_(items_.size()),
        depth_(depth),
        recurse_(std::move(recurse)) {}

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<Value> Attribute(std::string_view name) const override;
  bool callable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override;

  std::size_t size() const { return items_.size(); }
  const Value& Enter(std::size_t index) { return items_[index_ = index]; }
  /// The loop is over: it lets go of its items, which may hold on to it.
  void End();

  Result<Value> Cycle(const Arguments& arguments) const;
  Result<Value> Changed(const Arguments& arguments);

 private:
  std::vector<Value> items_;
  std::size_t length_;
  std::size_t index_ = 0;
  int depth_;  // 0 for the outermost
  Recurse recurse_;
  bool ended_ = false;
  std::optional<std::vector<Value>> last_changed_;
};

/// `cycler(...)`: next() goes round its items.
class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  /// `items`: a tuple of at least one.
  explicit Cycler(Value items) : Object(Extent::Around(items.extent())), items_(std::move(items)) {}

  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> Attribute(std::string_view name) const override;
  Value Next();
  void Reset() { at_ = 0; }

 private:
  Value items_;
  std::size_t at_ = 0;
};

/// `joiner(separator)`: empty when called first, then the separator.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator)
      : Object(Extent::Around(separator.extent())), separator_(std::move(separator)) {}

  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override;

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace kv8::jinja
