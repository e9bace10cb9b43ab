"""Forced and strict calls of a server that really runs: their arguments satisfy the schema."""

import json
import unittest

from clients import MODEL_NAME, shared_api

QUESTION = [{"role": "user", "content": "Tell me a story."}]
TEXT = {"type": "string", "maxLength": 20}


def function(schema, required=("v",), **members):
    """A tool "f" with one parameter "v", or with `schema` as its parameters."""
    if required:
        schema = {"properties": {"v": schema}, "required": list(required)}
        schema["additionalProperties"] = False
    parameters = {"type": "object", **schema}
    return {"type": "function", "function": {"name": "f", "parameters": parameters, **members}}


class ForcedCalls(unittest.TestCase):
    def setUp(self):
        self.api = shared_api()

    def choice(self, tool, **fields):
        fields = {"tool_choice": "required", "max_tokens": 300, "messages": QUESTION, **fields}
        answer = self.api.post("/v1/chat/completions", tools=[tool], **fields)
        return answer["choices"][0]

    def arguments(self, tool, **fields):
        choice = self.choice(tool, parallel_tool_calls=False, **fields)
        self.assertEqual(choice["finish_reason"], "tool_calls", choice)
        (call,) = choice["message"]["tool_calls"]
        self.assertEqual(call["function"]["name"], "f")
        return json.loads(call["function"]["arguments"])

    def values(self, schema, **defs):
        tool = function(schema)
        tool["function"]["parameters"].update(defs)
        return [self.arguments(tool, seed=seed, temperature=1.5)["v"] for seed in range(4)]

    def test_listed_values(self):
        for schema in (
            {"type": "integer", "enum": [1, 2, 3]},
            {"$ref": "#/$defs/E"},
            {"anyOf": [{"$ref": "#/$defs/E"}, {"const": 3}]},
        ):
            for value in self.values(schema, **{"$defs": {"E": {"enum": [1, 2]}}}):
                self.assertIn(value, (1, 2, 3), schema)
        for value in self.values({"const": "Quito"}):
            self.assertEqual(value, "Quito")

    def test_types(self):
        for value in self.values({"type": "array", "items": {"type": "integer"}, "maxItems": 3}):
            self.assertIsInstance(value, list)
            self.assertTrue(all(isinstance(item, int) for item in value) and len(value) <= 3)
        for value in self.values({"type": ["integer", "null"], "minimum": 5, "maximum": 12}):
            self.assertTrue(value is None or 5 <= value <= 12, value)
        nested = {"properties": {"k": TEXT}, "required": ["k"], "additionalProperties": False}
        for value in self.values({"type": "object", **nested}):
            self.assertEqual(list(value), ["k"])
            self.assertLessEqual(len(value["k"]), 20)
        for value in self.values({"anyOf": [TEXT, {"type": "null"}]}):
            self.assertTrue(value is None or len(value) <= 20, value)

    def test_multiples(self):
        for value in self.values({"type": "integer", "multipleOf": 15, "minimum": -30, "maximum": 90}):
            self.assertIn(value, range(-30, 91, 15))
        for value in self.values({"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 9}):
            self.assertTrue(0 <= value <= 9 and value * 4 == int(value * 4), value)

    def test_json_in_strings(self):
        pair = {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}
        quoted = {"type": "string", "contentMediaType": "application/json", "contentSchema": pair}
        for value in self.values(quoted):
            self.assertEqual(len(json.loads(value)), 2, value)
        nested = {"properties": {"q": quoted}, "required": ["q"], "additionalProperties": False}
        for value in self.values({"type": "object", **nested}):
            self.assertEqual(len(json.loads(value["q"])), 2, value)

    def test_strings(self):
        for value in self.values({"type": "string", "pattern": "^[a-z]{3}-\\d{2}$"}):
            self.assertRegex(value, r"^[a-z]{3}-\d{2}$")
        for value in self.values({"type": "string", "minLength": 4, "maxLength": 9}):
            self.assertTrue(4 <= len(value) <= 9, value)
        for value in self.values({"type": "string", "format": "date"}):
            self.assertRegex(value, r"^\d{4}-\d\d-\d\d$")

    def test_nothing_is_invented(self):
        for schema in (
            {"additionalProperties": False},
            {"properties": {}, "additionalProperties": False},
            {"properties": {}},
        ):
            self.assertEqual(self.arguments(function(schema, required=())), {})

    def test_later_calls_follow_too(self):
        # A bias makes the model call again and again.
        opener = self.api.request("POST", "/tokenize", {"prompt": "<tool_call>", "model": MODEL_NAME})
        (token,) = json.loads(opener[1])["tokens"]
        tool = function({"type": "integer", "enum": [1, 2, 3]})
        choice = self.choice(tool, logit_bias={token: 100}, temperature=1.5, seed=1)
        calls = choice["message"]["tool_calls"]
        self.assertGreater(len(calls), 2, choice)
        for call in calls:
            self.assertIn(json.loads(call["function"]["arguments"])["v"], (1, 2, 3))

    def test_strict_binds_a_call_that_the_model_makes(self):
        opener = self.api.request("POST", "/tokenize", {"prompt": "<tool_call>", "model": MODEL_NAME})
        (token,) = json.loads(opener[1])["tokens"]
        tool = function({"type": "integer", "enum": [1, 2, 3]}, strict=True)
        fields = {"tool_choice": "auto", "logit_bias": {token: 100}, "temperature": 1.5}
        for seed in range(3):
            self.assertIn(self.arguments(tool, seed=seed, **fields)["v"], (1, 2, 3))

    def test_what_cannot_hold_is_refused_by_name(self):
        bodies = (
            ("tools", function({"not": {}})),
            ("tools[0].function.parameters.properties.a>b",
             function({"properties": {"a>b": TEXT}}, required=())),
        )
        for param, tool in bodies:
            body = {"model": MODEL_NAME, "messages": QUESTION, "tools": [tool]}
            status, answer = self.api.request(
                "POST", "/v1/chat/completions", {**body, "tool_choice": "required"}
            )
            self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, param), answer)


class Stops(unittest.TestCase):
    def setUp(self):
        self.api = shared_api()

    def answer(self, **fields):
        fields = {"messages": QUESTION, "temperature": 0, "max_tokens": 60, **fields}
        answer = self.api.post("/v1/chat/completions", **fields)
        return answer["choices"][0]

    def test_stop_strings_leave_reasoning_alone(self):
        thinking = {"chat_template_kwargs": {"enable_thinking": True}}
        free = self.answer(**thinking)
        reasoning = free["message"]["reasoning_content"]
        word = reasoning.split()[1]
        stopped = self.answer(stop=[word], **thinking)
        self.assertTrue(stopped["message"]["reasoning_content"].startswith(reasoning))
        text = self.answer()["message"]["content"]
        word = text.split()[3]
        stopped = self.answer(stop=word)
        self.assertEqual(stopped["message"]["content"], text[: text.index(word)])
        self.assertEqual(stopped["finish_reason"], "stop")

    def test_one_call_only_does_not_end_prose(self):
        closer = self.api.request("POST", "/tokenize", {"prompt": "</tool_call>", "model": MODEL_NAME})
        (token,) = json.loads(closer[1])["tokens"]
        answer = self.answer(
            tools=[function(TEXT)],
            parallel_tool_calls=False,
            logit_bias={token: 100},
            max_tokens=5,
        )
        self.assertEqual(answer["finish_reason"], "length", answer)
        self.assertEqual(answer["message"]["content"], "</tool_call>" * 5)


class History(unittest.TestCase):
    def prompt(self, arguments):
        """What the model reads of an earlier call."""
        function = {"name": "f", "arguments": arguments}
        call = {"id": "1", "type": "function", "function": function}
        answer = {"role": "assistant", "content": None, "tool_calls": [call]}
        tokens = shared_api().post("/tokenize", messages=[*QUESTION, answer])["tokens"]
        return shared_api().post("/detokenize", tokens=tokens)["prompt"]

    def test_integers_keep_their_digits(self):
        for value in (2**53 + 1, 2**63 - 1, -(2**63)):
            self.assertIn(f"\n{value}\n", self.prompt(json.dumps({"a": value})))
            self.assertIn(f"\n[{value}]\n", self.prompt(json.dumps({"a": [value]})))

    def test_a_call_may_have_no_arguments(self):
        for arguments in ("", "null", None, "{}"):
            self.assertIn("<function=f>\n</function>", self.prompt(arguments))


if __name__ == "__main__":
    unittest.main()
