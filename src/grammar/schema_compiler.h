// Turns one schema into rules; see json_schema.h for what it accepts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ordered_json.h"
#include "grammar/char_set.h"
#include "grammar/json_grammar.h"
#include "grammar/multiples.h"
#include "grammar/number_range.h"
#include "grammar/program.h"
#include "grammar/schema_merge.h"
#include "kv8/error.h"

namespace kv8 {

class SchemaCompiler {
 public:
  /// `root` is what `#` refers to. `strings`: how a string is written that is the value itself;
  /// kPlain: without quotes, and then values can be strings and null only.
  explicit SchemaCompiler(const OrderedJson& root, TextForm strings = TextForm::kJsonString)
      : merger_(root), text_(builder_), writing_{.strings = strings} {}

  Result<Program> Compile(const OrderedJson& schema, const std::string& path) &&;

  struct Property {
    std::string name;
    OrderedJson schema;
    bool required = false;
  };
  /// The declared properties in order, then those that are only required.
  static Result<std::vector<Property>> PropertiesOf(const OrderedJson& schema,
                                                    const std::string& path);

 private:
  /// How values are written.
  struct Writing {
    TextForm strings = TextForm::kJsonString;
    int quoting = 0;  // of ProgramBuilder
  };
  struct Pending {
    RuleId rule;
    OrderedJson schema;
    std::string path;
    Writing writing;
  };
  struct Limits {
    std::uint32_t min = 0;
    std::uint32_t max = kNoLimit;
  };
  struct Bound {
    OrderedJson value;  // a number
    bool included = true;
  };

  /// The rule of a schema, compiled later; the same for equal schemas.
  Result<RuleId> RuleOf(const OrderedJson& schema, const std::string& path) {
    return RuleOf(schema, path, writing_);
  }
  Result<RuleId> RuleOf(const OrderedJson& schema, const std::string& path, Writing writing);
  Result<Pc> CallOf(const OrderedJson& schema, const std::string& path, Pc next);

  // Each adds what reads a value of a flat schema, then returns.
  Result<Pc> Body(const OrderedJson& schema, const std::string& path);
  Result<Pc> Flat(const OrderedJson& schema, const std::string& path);
  Result<Pc> Branches(OrderedJson schema, const char* keyword, const std::string& path);
  Pc AnyValue();
  Result<Pc> Listed(const OrderedJson& schema, const std::string& path);
  Result<Pc> OfType(const std::string& type, const OrderedJson& schema, const std::string& path);
  Result<Pc> ObjectOf(const OrderedJson& schema, const std::string& path);
  Result<Pc> ArrayOf(const OrderedJson& schema, const std::string& path);
  Result<Pc> StringOf(const OrderedJson& schema, const std::string& path);
  Result<Pc> JsonStringOf(const OrderedJson& schema, const std::string& path);
  Result<Pc> IntegerOf(const OrderedJson& schema, const std::string& path);
  Result<Pc> NumberOf(const OrderedJson& schema, const std::string& path);

  // Objects.
  Result<Pc> Members(const std::vector<Property>& properties, const OrderedJson& additional,
                     const std::string& path);
  Result<Pc> Pair(const Property& property, const std::string& path, Pc next);
  Result<Pc> ExtraPair(const std::vector<Property>& properties, RuleId value,
                       const std::string& path, Pc next);
  static std::string PlaceOf(const Property& property, const std::string& path);

  // Arrays.
  Result<Pc> MoreItems(const OrderedJson& items, Limits limits, const std::string& path, Pc close);

  static Result<Limits> LimitsOf(const OrderedJson& schema, const char* min, const char* max,
                                 const std::string& path);
  static Result<std::optional<Bound>> BoundOf(const OrderedJson& schema, bool lower,
                                              const std::string& path);

  // Numbers.
  static Result<std::optional<DecimalLimit>> DecimalBoundOf(const OrderedJson& schema, bool lower,
                                                            const std::string& path);
  static Result<std::optional<DecimalStep>> StepOf(const OrderedJson& schema,
                                                   const std::string& path);
  Result<Pc> MultiplesOf(const DecimalStep& step, std::int64_t low, std::int64_t high,
                         const std::string& path, Pc next);
  Result<Pc> NumberMultiplesOf(const DecimalStep& step, const std::optional<DecimalLimit>& low,
                               std::optional<DecimalLimit> high, const std::string& path);
  static Result<bool> KeepsLimits(const OrderedJson& value, const OrderedJson& schema,
                                  const std::string& path);

  SchemaMerger merger_;
  ProgramBuilder builder_;
  JsonGrammar text_;
  Writing writing_;                                // of what is compiled now
  std::unordered_map<std::string, RuleId> rules_;  // by writing and the schema's text
  std::vector<Pending> pending_;
  std::size_t bytes_ = 0;  // of all schemas in rules_
};

}  // namespace kv8
