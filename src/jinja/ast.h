// The syntax tree of a template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/operators.h"
#include "jinja/value.h"

namespace kv8::jinja::ast {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;  // null where an optional part is left out
using Expressions = std::vector<ExpressionPtr>;
using Block = std::vector<Statement>;

// --- expressions ---

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  Expressions items;
};
struct TupleLiteral {
  Expressions items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Not {
  ExpressionPtr operand;
};
struct Sign {
  bool negative;
  ExpressionPtr operand;
};
struct Binary {
  Operator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Logic {  // `and`, `or`
  bool is_and;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Comparison {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<Operator, ExpressionPtr>> rest;
};
struct Concatenation {  // a ~ b ~ c
  Expressions parts;
};
struct Conditional {
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  // may be null
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object;
  ExpressionPtr key;
};
struct SliceOf {
  ExpressionPtr object;
  ExpressionPtr start;  // each may be null
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct CallArguments {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keyword;
  ExpressionPtr all_positional;  // *expression; may be null
  ExpressionPtr all_keyword;     // **expression; may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExpressionPtr subject;  // null in a filter block and in `set x | filter`
  std::string name;
  CallArguments arguments;
};
struct Test {
  ExpressionPtr subject;
  std::string name;
  CallArguments arguments;
};

using ExpressionNode = std::variant<Literal, Name, ListLiteral, TupleLiteral, DictLiteral, Not,
                                    Sign, Binary, Logic, Comparison, Concatenation, Conditional,
                                    Attribute, Item, SliceOf, Call, Filter, Test>;

struct Expression {
  int line = 0;
  int depth = 1;  // levels of the tree from here down
  ExpressionNode node;
};

// --- statements ---

/// What an assignment assigns to: a name, an attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;       // empty: the name itself
  std::vector<Target> unpack;  // not empty: a tuple of targets
};

struct Text {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;  // `if` and every `elif`
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // may be null
  bool recursive = false;
  Block body;
  Block otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // a chain of filters; may be null
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Block body;
};
struct Signature {
  std::vector<std::string> parameters;
  Expressions defaults;  // of the last parameters
};
struct MacroDefinition {
  std::string name;
  Signature signature;
  Block body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};
struct CallBlock {
  ExpressionPtr call;
  std::shared_ptr<const MacroDefinition> caller;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
};
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<Text, Output, If, For, Set, SetBlock, With, std::shared_ptr<const MacroDefinition>,
               CallBlock, FilterBlock, Generation, Break, Continue>
      node;
};

}  // namespace kv8::jinja::ast
