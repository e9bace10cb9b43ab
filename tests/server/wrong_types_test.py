"""Every documented field of every endpoint with wrong types: 400, and the name of the field."""

import json
import unittest

from kv8_server import MODEL, ServerTestCase, request

VALUES = ("x", 1, 1.5, True, ["x"], [], {"a": 1}, {}, [None], [[1.5]])
# The Python types of a field's values. A bool is no int here.
STRING, INTEGER, NUMBER, BOOL = (str,), (int,), (int, float), (bool,)
ARRAY, OBJECT = (list,), (dict,)
HERE = "here"  # the place of the wrong value


def tool(**members):
    return {"tools": [{"type": "function", "function": {"name": "f", **members}}]}


def message(**members):
    return {"messages": [{"role": "user", "content": "a", **members}]}


def call(**members):
    function = {"name": "f", "arguments": "{}", **members}
    calls = [{"id": "c", "type": "function", "function": function}]
    return {"messages": [*message()["messages"], {"role": "assistant", "tool_calls": calls}]}


def item(**members):
    return {"input": [members]}


def options(**members):
    return {"stream": True, "stream_options": members}


FUNCTION_CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}

# A field by itself, or its path and the members of the body around it; then the types it may have.
SAMPLING = [
    *((name, NUMBER) for name in ("temperature", "top_p", "min_p")),
    *((f"{name}_penalty", NUMBER) for name in ("presence", "frequency", "repetition")),
    *((name, INTEGER) for name in ("top_k", "seed")),
    ("ignore_eos", BOOL),
    ("logit_bias", OBJECT),
    ("logit_bias.5", {"logit_bias": {"5": HERE}}, NUMBER),
    ("stop_token_ids", ARRAY),
    ("stop_token_ids", {"stop_token_ids": [3, HERE]}, INTEGER),
    ("stop", STRING, ARRAY),
    ("stop", {"stop": ["a", HERE]}, STRING),
    ("stream", BOOL),
]
FORMS = [
    ("response_format", OBJECT),
    ("response_format.type", {"response_format": {"type": HERE}}, STRING),
    (
        "response_format.json_schema",
        {"response_format": {"type": "json_schema", "json_schema": HERE}},
        OBJECT,
    ),
    ("guided_regex", STRING),
    ("guided_choice", ARRAY),
    ("structured_outputs", OBJECT),
    ("structured_outputs.regex", {"structured_outputs": {"regex": HERE}}, STRING),
]
STREAMS = [
    ("stream_options", {"stream": True, "stream_options": HERE}, OBJECT),
    ("stream_options.include_usage", options(include_usage=HERE), BOOL),
    ("n", INTEGER),
]
TOOLS = [
    ("tools", ARRAY),
    ("tools[0]", {"tools": [HERE]}, OBJECT),
    ("tools[0].type", {"tools": [{"type": HERE, "function": {"name": "f"}}]}, STRING),
    ("tool_choice", {**tool(), "tool_choice": HERE}, STRING, OBJECT),
    ("tool_choice.type", {**tool(), "tool_choice": {"type": HERE}}, STRING),
    ("parallel_tool_calls", {**tool(), "parallel_tool_calls": HERE}, BOOL),
]
ENDPOINTS = {
    "/v1/completions": (
        {"prompt": "a", "max_tokens": 1},
        [
            *SAMPLING,
            *FORMS,
            *STREAMS,
            ("model", STRING),
            ("prompt", STRING, ARRAY),
            ("prompt", {"prompt": ["a", HERE]}, STRING),
            ("prompt", {"prompt": [3, HERE]}, INTEGER),
            ("prompt", {"prompt": [[3], HERE]}, ARRAY),
            ("prompt", {"prompt": [[3, HERE]]}, INTEGER),
            ("max_tokens", INTEGER),
            ("logprobs", INTEGER),
            ("best_of", INTEGER),
            ("echo", BOOL),
        ],
    ),
    "/v1/chat/completions": (
        {**message(), "max_tokens": 1},
        [
            *SAMPLING,
            *FORMS,
            *STREAMS,
            *TOOLS,
            ("model", STRING),
            ("messages", ARRAY),
            ("messages[0]", {"messages": [HERE]}, OBJECT),
            ("messages[0].role", message(role=HERE), STRING),
            ("messages[0].content", message(content=HERE), STRING, ARRAY),
            ("messages[0].content[0]", message(content=[HERE]), OBJECT),
            ("messages[0].content[0].type", message(content=[{"type": HERE}]), STRING),
            (
                "messages[0].content[0].text",
                message(content=[{"type": "text", "text": HERE}]),
                STRING,
            ),
            ("messages[0].name", message(name=HERE), STRING),
            ("messages[0].tool_call_id", message(tool_call_id=HERE), STRING),
            ("messages[0].reasoning_content", message(reasoning_content=HERE), STRING),
            ("messages[0].tool_calls", message(role="assistant", tool_calls=HERE), ARRAY),
            ("messages[1].tool_calls[0].function.name", call(name=HERE), STRING),
            (
                "messages[1].tool_calls[0].function.arguments",
                call(arguments=HERE),
                STRING,
                OBJECT,
            ),
            ("tools[0].function", {"tools": [{"type": "function", "function": HERE}]}, OBJECT),
            ("tools[0].function.name", tool(name=HERE), STRING),
            ("tools[0].function.description", tool(description=HERE), STRING),
            ("tools[0].function.parameters", tool(parameters=HERE), OBJECT),
            ("max_tokens", INTEGER),
            (
                "max_completion_tokens",
                {"max_tokens": None, "max_completion_tokens": HERE},
                INTEGER,
            ),
            ("logprobs", BOOL),
            ("top_logprobs", {"logprobs": True, "top_logprobs": HERE}, INTEGER),
            ("chat_template_kwargs", OBJECT),
            ("add_generation_prompt", BOOL),
        ],
    ),
    "/v1/responses": (
        {"input": "a", "max_output_tokens": 1},
        [
            *SAMPLING,
            *TOOLS,
            ("model", STRING),
            ("input", STRING, ARRAY),
            ("input[0]", {"input": [HERE]}, OBJECT),
            ("input[0].type", item(type=HERE), STRING),
            ("input[0].role", item(role=HERE, content="a"), STRING),
            ("input[0].content", item(role="user", content=HERE), STRING, ARRAY),
            *(
                (f"input[0].{field}", item(**{**FUNCTION_CALL, field: HERE}), STRING)
                for field in ("call_id", "name", "arguments")
            ),
            (
                "input[0].output",
                item(type="function_call_output", call_id="c", output=HERE),
                STRING,
                ARRAY,
            ),
            ("instructions", STRING),
            ("text", OBJECT),
            ("text.format", {"text": {"format": HERE}}, OBJECT),
            ("text.format.type", {"text": {"format": {"type": HERE}}}, STRING),
            ("max_output_tokens", INTEGER),
            ("background", BOOL),
            ("store", BOOL),
            ("metadata", OBJECT),
            ("reasoning", OBJECT),
        ],
    ),
    "/tokenize": (
        {},
        [
            ("model", STRING),
            ("prompt", STRING),
            ("messages", ARRAY),
            ("add_generation_prompt", {**message(), "add_generation_prompt": HERE}, BOOL),
            ("chat_template_kwargs", {**message(), "chat_template_kwargs": HERE}, OBJECT),
            ("return_token_strs", {"prompt": "a", "return_token_strs": HERE}, BOOL),
        ],
    ),
    "/detokenize": (
        {},
        [("model", STRING), ("tokens", ARRAY), ("tokens", {"tokens": [3, HERE]}, INTEGER)],
    ),
}


def put(value, body):
    """`body` with `value` at its place."""
    if body == HERE:
        return value
    if isinstance(body, dict):
        return {key: put(value, member) for key, member in body.items()}
    return [put(value, element) for element in body] if isinstance(body, list) else body


def cases():
    """(path, field, body) of every request that must be refused."""
    for path, (base, rows) in ENDPOINTS.items():
        for field, *rest in rows:
            around = rest.pop(0) if isinstance(rest[0], dict) else {field: HERE}
            right = sum(rest, ())
            for value in VALUES:
                if type(value) not in right:
                    yield path, field, {"model": MODEL.name, **base, **put(value, around)}


class WrongTypes(ServerTestCase):
    def test_each_is_refused_by_name(self):
        client = self.client()
        for path, field, body in cases():
            with self.subTest(path=path, field=field, body=body):
                status, _, answer = client.send(request("POST", path, body)).answer()
                self.assertEqual(status, 400, answer)
                error = json.loads(answer)["error"]
                self.assertEqual(error["param"], field, error)
                self.assertIn(field, error["message"])
        client.close()
        self.assert_idle_and_well()

    def test_null_means_not_set(self):
        for path, (base, rows) in ENDPOINTS.items():
            nulls = {row[0]: None for row in rows if row[0].isidentifier() and row[0] not in base}
            nulls.pop("model", None)
            base = base or {"prompt": "a", "tokens": [3]}
            body = {"model": MODEL.name, **nulls, **base}
            with self.subTest(path):
                status, _, answer = self.ask(request("POST", path, body))
                self.assertEqual(status, 200, answer)


if __name__ == "__main__":
    unittest.main()
