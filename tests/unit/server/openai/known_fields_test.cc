// Every row of the table of fields: what it says is what happens, and what the guide says.
#include "server/openai/known_fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "served_model.h"

namespace kv8::openai {
namespace {

struct EndpointUnderTest {
  EndpointBit bit;
  const char* path;
  const char* name;                         // as the guide calls it
  std::map<std::string, std::string> base;  // a request that is answered: field -> JSON
};

const std::vector<EndpointUnderTest>& AllEndpoints() {
  static const std::string messages = R"([{"role": "user", "content": "Who?"}])";
  static const std::map<std::string, std::string> greedy = {
      {"model", R"("tiny-qwen4exp")"}, {"temperature", "0"}, {"max_tokens", "2"}};
  static const auto with = [](std::map<std::string, std::string> more) {
    more.insert(greedy.begin(), greedy.end());
    return more;
  };
  static const std::vector<EndpointUnderTest> all = {
      {kChat, "/v1/chat/completions", "chat", with({{"messages", messages}})},
      {kCompletions, "/v1/completions", "completions", with({{"prompt", R"("a")"}})},
      {kResponses,
       "/v1/responses",
       "responses",
       {{"model", R"("tiny-qwen4exp")"},
        {"temperature", "0"},
        {"max_output_tokens", "2"},
        {"input", R"("a")"}}},
      {kTokenize, "/tokenize", "tokenize", {{"messages", messages}}},
      {kDetokenize, "/detokenize", "detokenize", {{"tokens", "[3]"}}}};
  return all;
}

/// Fields without which a row's value would contradict something, or would not be looked at.
std::map<std::string, std::string> Around(const KnownField& field, EndpointBit endpoint) {
  const std::string name = std::string(field.name.substr(0, field.name.find('.')));
  if (name == "stream_options" && endpoint != kResponses) return {{"stream", "true"}};
  if (name == "top_logprobs" && field.use == FieldUse::kRead) return {{"logprobs", "true"}};
  if (name == "tool_choice" && field.use == FieldUse::kRead) {
    return {{"tools", R"([{"type": "function", "function": {"name": "f"}}])"}};
  }
  return {};
}

/// The body of `endpoint` with the row's field set to `value`.
std::string Body(const EndpointUnderTest& endpoint, const KnownField& field,
                 std::string_view value) {
  std::map<std::string, std::string> fields = endpoint.base;
  for (const auto& [name, around] : Around(field, endpoint.bit)) fields[name] = around;
  const std::string name(field.name);
  const std::size_t dot = name.find('.');
  // One prompt, one limit.
  if (name == "prompt" && endpoint.bit == kTokenize) fields.erase("messages");
  if (name == "max_completion_tokens" && field.use == FieldUse::kRead) fields.erase("max_tokens");
  if (dot == std::string::npos) {
    fields[name] = value;
  } else {
    fields[name.substr(0, dot)] = fmt::format(R"({{"{}": {}}})", name.substr(dot + 1), value);
  }
  std::string body;
  for (const auto& [key, json] : fields) {
    body += fmt::format(R"({}"{}": {})", body.empty() ? "{" : ", ", key, json);
  }
  return body + "}";
}

using Rows = std::vector<std::pair<const EndpointUnderTest*, const KnownField*>>;

/// Each row at each of its endpoints.
Rows RowsOf(FieldUse use) {
  Rows rows;
  for (const EndpointUnderTest& endpoint : AllEndpoints()) {
    for (const KnownField& field : KnownFields()) {
      if (field.use == use && (field.endpoints & endpoint.bit) != 0) {
        rows.emplace_back(&endpoint, &field);
      }
    }
  }
  return rows;
}

class FieldTable : public ServedModel {
 protected:
  static std::shared_ptr<FakeResponder> Ask(const EndpointUnderTest& endpoint,
                                            const std::string& body) {
    const auto responder = Start("POST", endpoint.path, body);
    responder->WaitUntilComplete();
    return responder;
  }

  static void ExpectRefused(const EndpointUnderTest& endpoint, const KnownField& field) {
    const std::string body = Body(endpoint, field, field.bad);
    const auto answer = Ask(endpoint, body);
    ASSERT_EQ(answer->status(), 400) << endpoint.path << " " << body;
    const OrderedJson error = answer->json()["error"];
    // The name, or a place inside of the field.
    EXPECT_EQ(error["param"].get<std::string>().substr(0, field.name.size()), field.name) << body;
    EXPECT_NE(error["message"].get<std::string>().find(field.name), std::string::npos) << body;
  }

  /// What an answer says, without ids and times.
  static OrderedJson Said(const FakeResponder& answer) {
    const auto of = [](const OrderedJson& json) {
      if (json.contains("choices")) return json["choices"];
      return json.contains("output") ? json["output"][0]["content"] : json;
    };
    if (!answer.streamed()) return of(answer.json());
    OrderedJson said = OrderedJson::array();
    for (const OrderedJson& event : answer.events()) said.push_back(of(event));
    return said;
  }
};

TEST_F(FieldTable, Api1_EveryFieldThatIsReadTakesARightValueAndRefusesAWrongOne) {
  for (const auto& [endpoint, field] : RowsOf(FieldUse::kRead)) {
    const std::string body = Body(*endpoint, *field, field->good);
    const auto answer = Ask(*endpoint, body);
    EXPECT_EQ(answer->status(), 200) << endpoint->path << " " << body << answer->body();
    ExpectRefused(*endpoint, *field);
  }
}

TEST_F(FieldTable, Api1_EveryFieldThatIsRefusedIsNamedUnlessItAsksForNothing) {
  for (const auto& [endpoint, field] : RowsOf(FieldUse::kRefused)) {
    ExpectRefused(*endpoint, *field);
    for (const OrderedJson& harmless : OrderedJson::parse(field->good)) {
      const std::string body = Body(*endpoint, *field, harmless.dump());
      const auto answer = Ask(*endpoint, body);
      EXPECT_EQ(answer->status(), 200) << endpoint->path << " " << body << answer->body();
    }
  }
}

TEST_F(FieldTable, Api1_NoFieldThatIsIgnoredChangesTheAnswer) {
  for (const auto& [endpoint, field] : RowsOf(FieldUse::kIgnored)) {
    const auto without = Ask(*endpoint, Body(*endpoint, *field, "null"));
    const std::string body = Body(*endpoint, *field, field->good);
    const auto answer = Ask(*endpoint, body);
    ASSERT_EQ(answer->status(), 200) << body << answer->body();
    EXPECT_EQ(Said(*answer), Said(*without)) << body;
  }
}

TEST_F(FieldTable, WhatNobodyKnowsIsIgnoredAndNamedInTheLog) {
  for (const EndpointUnderTest& endpoint : AllEndpoints()) {
    const KnownField unheard_of{"unheard_of", 0, FieldUse::kIgnored, "1", "", ""};
    const auto answer = Ask(endpoint, Body(endpoint, unheard_of, "1"));
    EXPECT_EQ(answer->status(), 200) << answer->body();
    EXPECT_EQ(answer->note("ignored"), "unheard_of");
  }
}

TEST(KnownFields, OneRowForANameAtAnEndpoint) {
  std::set<std::pair<std::string_view, unsigned>> seen;
  for (const KnownField& field : KnownFields()) {
    for (unsigned bit = 1; bit <= kDetokenize; bit *= 2) {
      if ((field.endpoints & bit) == 0) continue;
      EXPECT_TRUE(seen.emplace(field.name, bit).second) << field.name;
    }
  }
}

TEST(KnownFields, ManyUnknownOnesAreCutOff) {
  OrderedJson body = OrderedJson::object();
  for (int i = 0; i < 1000; ++i) body[fmt::format("unknown_{}", i)] = 1;
  EXPECT_LT(UnknownFields(body, kChat).size(), 250U);
}

std::string EndpointNames(unsigned bits) {
  std::string names;
  for (const EndpointUnderTest& endpoint : AllEndpoints()) {
    if ((bits & endpoint.bit) == 0) continue;
    names += (names.empty() ? "" : ", ") + std::string(endpoint.name);
  }
  return names;
}

/// The values that ask for nothing, as code.
std::string HarmlessValues(const KnownField& field) {
  std::string values;
  for (const OrderedJson& value : OrderedJson::parse(field.good)) {
    values += fmt::format("{}`{}`", values.empty() ? "" : ", ", value.dump());
  }
  return values;
}

constexpr const char* kGuideHead = R"(# Fields of requests

What becomes of each field that clients of this and of other servers send. `null` means that a field is
not set. The endpoints are chat (`/v1/chat/completions`), completions (`/v1/completions`), responses
(`/v1/responses`), tokenize and detokenize. A field that is not in this file is ignored, and the request's
line in the log names it (`ignored=...`). The file is made from `src/server/openai/field_table.cc`:
`KV8_WRITE_GUIDE=1 build/release/tests/unit/server/openai/openai_test --gtest_filter='KnownFields.*'`
)";

std::string Guide() {
  std::string text = kGuideHead;
  text += "\n## Read\n\n| field | endpoints | |\n|---|---|---|\n";
  for (const KnownField& field : KnownFields()) {
    if (field.use != FieldUse::kRead) continue;
    text +=
        fmt::format("| `{}` | {} | {} |\n", field.name, EndpointNames(field.endpoints), field.note);
  }
  text +=
      "\n## Refused\n\nEach would change the answer and is not supported: 400, and `param` names "
      "it.\n\n| field | endpoints | let through | instead |\n|---|---|---|---|\n";
  for (const KnownField& field : KnownFields()) {
    if (field.use != FieldUse::kRefused) continue;
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.name, EndpointNames(field.endpoints),
                        HarmlessValues(field), field.note);
  }
  text += "\n## Ignored\n\nNone changes the answer.\n\n| field | endpoints | |\n|---|---|---|\n";
  for (const KnownField& field : KnownFields()) {
    if (field.use != FieldUse::kIgnored) continue;
    text +=
        fmt::format("| `{}` | {} | {} |\n", field.name, EndpointNames(field.endpoints), field.note);
  }
  return text;
}

TEST(KnownFields, TheGuideIsTheTable) {
  const std::string path = KV8_SOURCE_DIR "/docs/guide/api-fields.md";
  if (std::getenv("KV8_WRITE_GUIDE") != nullptr) std::ofstream(path) << Guide();
  std::ifstream file(path);
  const std::string guide{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(guide, Guide());
}

}  // namespace
}  // namespace kv8::openai
