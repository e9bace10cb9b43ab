#include "jinja/objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/operators.h"

namespace kv8::jinja {
namespace {

/// A method of one of the objects here.
class Method : public Object {
 public:
  using Body = std::function<Result<Value>(const Arguments&)>;
  Method(const Object& self, Body body)
      : Object(Extent::Around(self.extent())), body_(std::move(body)) {}

  std::string_view type_name() const override { return "method"; }
  bool callable() const override { return true; }
  Result<Value> Call(Runtime& /*runtime*/, const Arguments& arguments) override {
    return body_(arguments);
  }

 private:
  Body body_;
};

Value MakeMethod(const Object& self, Method::Body body) {
  return Value(std::shared_ptr<Object>(std::make_shared<Method>(self, std::move(body))));
}

}  // namespace

std::optional<Value> Namespace::Attribute(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

Result<void> Namespace::Set(std::string_view name, Value value) {
  if (name.starts_with('_')) {
    return Failure(fmt::format("a namespace cannot have the attribute '{}'", name));
  }
  values_.insert_or_assign(std::string(name), std::move(value));
  return {};
}

std::optional<Value> Loop::Attribute(std::string_view name) const {
  const auto index = static_cast<std::int64_t>(index_);
  const auto length = static_cast<std::int64_t>(length_);
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(length - index);
  if (name == "revindex0") return Value(length - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == length);
  if (name == "length") return Value(length);
  if (name == "depth") return Value(std::int64_t{depth_} + 1);
  if (name == "depth0") return Value(std::int64_t{depth_});
  if (name == "previtem") {
    return index == 0 || ended_ ? Value::Undefined("there is no previous item")
                                : items_[index_ - 1];
  }
  if (name == "nextitem") {
    return index + 1 == length || ended_ ? Value::Undefined("there is no next item")
                                         : items_[index_ + 1];
  }
  if (name != "cycle" && name != "changed") return std::nullopt;
  // A loop's methods change its state, whoever holds it.
  const auto self = std::const_pointer_cast<Loop>(shared_from_this());
  return MakeMethod(*this, [self, cycles = name == "cycle"](const Arguments& arguments) {
    return cycles ? self->Cycle(arguments) : self->Changed(arguments);
  });
}

Result<Value> Loop::Call(Runtime& /*runtime*/, const Arguments& arguments) {
  if (!recurse_)
    return Failure("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1) return Failure("loop() takes what to go over");
  return recurse_(arguments.positional[0], depth_ + 1);
}

Result<Value> Loop::Cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) return Failure("no items for cycling given");
  return arguments.positional[index_ % arguments.positional.size()];
}

void Loop::End() {
  ended_ = true;
  items_.clear();
  recurse_ = nullptr;
  last_changed_.reset();
}

Result<Value> Loop::Changed(const Arguments& arguments) {
  if (ended_) return Failure("loop.changed() is called after its loop");
  const std::vector<Value>& now = arguments.positional;
  const bool same = last_changed_ && std::equal(now.begin(), now.end(), last_changed_->begin(),
                                                last_changed_->end(), Equal);
  last_changed_ = now;
  return Value(!same);
}

std::optional<Value> Cycler::Attribute(std::string_view name) const {
  if (name == "current") return items_.sequence().items[at_];
  if (name != "next" && name != "reset") return std::nullopt;
  const auto self = std::const_pointer_cast<Cycler>(shared_from_this());
  return MakeMethod(*this, [self, resets = name == "reset"](const Arguments&) -> Result<Value> {
    if (!resets) return self->Next();
    self->Reset();
    return Value();
  });
}

Value Cycler::Next() {
  const std::vector<Value>& items = items_.sequence().items;
  const Value& value = items[at_];
  at_ = (at_ + 1) % items.size();
  return value;
}

Result<Value> Joiner::Call(Runtime& /*runtime*/, const Arguments& /*arguments*/) {
  if (std::exchange(used_, true)) return separator_;
  return Value("");
}

}  // namespace kv8::jinja
