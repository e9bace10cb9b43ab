"""The endpoints of a server that really runs, with nothing but the standard library."""

import json
import unittest

from clients import MODEL_NAME, RECIPE_QUESTION, RECIPE_TOOL, is_recipe, shared_api

STORY = "Once upon a time"


class Endpoints(unittest.TestCase):
    def setUp(self):
        self.api = shared_api()

    def refused(self, path, status, param, body):
        got, answer = self.api.request("POST", path, body)
        error = json.loads(answer)["error"]
        self.assertEqual((got, error["param"]), (status, param), error)
        self.assertTrue(error["message"])
        return error

    def test_models(self):
        _, body = self.api.request("GET", "/v1/models")
        self.assertEqual([card["id"] for card in json.loads(body)["data"]], [MODEL_NAME])
        status, _ = self.api.request("GET", "/v1/models/other")
        self.assertEqual(status, 404)

    def test_streams_and_whole_answers_agree(self):
        fields = {"max_tokens": 30, "seed": 3, "n": 2}
        whole = self.api.post("/v1/completions", prompt=STORY, **fields)
        texts = ["", ""]
        for _, event in self.api.stream("/v1/completions", prompt=STORY, **fields):
            texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
        self.assertEqual(texts, [choice["text"] for choice in whole["choices"]])

        messages = [{"role": "user", "content": "Tell me a story about a lantern."}]
        whole = self.api.post("/v1/chat/completions", messages=messages, **fields)
        texts = ["", ""]
        for _, event in self.api.stream("/v1/chat/completions", messages=messages, **fields):
            choice = event["choices"][0]
            texts[choice["index"]] += choice["delta"].get("content", "")
        self.assertEqual(texts, [choice["message"]["content"] for choice in whole["choices"]])

    def test_seeds(self):
        def text(**fields):
            answer = self.api.post("/v1/completions", prompt=STORY, max_tokens=30, **fields)
            return answer["choices"][0]["text"]

        self.assertEqual(text(seed=1), text(seed=1))
        self.assertNotEqual(text(seed=1), text(seed=2))
        self.assertNotEqual(text(), text())
        self.assertEqual(text(temperature=0), text(temperature=0))

    def test_errors(self):
        self.refused("/v1/completions", 404, "model", {"model": "gpt-4", "prompt": "a"})
        self.refused("/v1/completions", 400, "model", {"prompt": "a"})
        for field in ("temperature", "max_tokens", "logprobs", "echo", "n", "stop", "seed"):
            body = {"model": MODEL_NAME, "prompt": "a", field: {"wrong": "type"}}
            self.refused("/v1/completions", 400, field, body)
        for bad in (b"", b"{", b"[]", b'{"a": "\xff"}', b"[" * 100000, b'{"a":1,"a":2}'):
            self.refused("/v1/chat/completions", 400, None, bad)
        self.refused(
            "/v1/responses",
            400,
            "previous_response_id",
            {"model": MODEL_NAME, "input": "a", "previous_response_id": "resp_1"},
        )
        image = [{"type": "image_url", "image_url": {"url": "data:,"}}]
        self.refused(
            "/v1/chat/completions",
            400,
            "messages[0].content[0].type",
            {"model": MODEL_NAME, "messages": [{"role": "user", "content": image}]},
        )

    def test_echo_with_logprobs(self):
        answer = self.api.post(
            "/v1/completions", prompt="The barrel is", max_tokens=1, echo=True, logprobs=1
        )
        logprobs = answer["choices"][0]["logprobs"]
        lengths = {len(values) for values in logprobs.values()}
        self.assertEqual(len(lengths), 1)
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertTrue(all(value <= 0 for value in logprobs["token_logprobs"][1:]))
        text = answer["choices"][0]["text"]
        self.assertTrue(text.startswith("The barrel is"))
        for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
            self.assertEqual(text[offset : offset + len(token)], token)

    def test_tokenize(self):
        tokens = self.api.post("/tokenize", prompt="The barrel é")["tokens"]
        self.assertEqual(self.api.post("/detokenize", tokens=tokens)["prompt"], "The barrel é")

    def test_responses(self):
        tool = {"type": "function", **RECIPE_TOOL["function"]}
        fields = {"input": RECIPE_QUESTION, "tools": [tool], "temperature": 0}
        answer = self.api.post("/v1/responses", **fields)
        self.assertEqual(answer["status"], "completed")
        (call,) = answer["output"]
        self.assertEqual((call["type"], call["name"]), ("function_call", "find_recipe"))
        self.assertTrue(is_recipe(call["arguments"]))

        events = self.api.stream("/v1/responses", **fields)
        names = [name for name, _ in events]
        self.assertEqual(names[:2], ["response.created", "response.in_progress"])
        self.assertEqual(names[2], "response.output_item.added")
        self.assertEqual(names[-1], "response.completed")
        numbers = [event["sequence_number"] for _, event in events]
        self.assertEqual(numbers, list(range(len(events))))
        kind = "response.function_call_arguments.delta"
        deltas = [event["delta"] for name, event in events if name == kind]
        self.assertEqual("".join(deltas), call["arguments"])

    def test_structured_output(self):
        schema = {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 12},
                "size": {"enum": ["small", "large"]},
                "parts": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            },
            "required": ["name", "size", "parts"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
        messages = [{"role": "user", "content": "Describe a barrel."}]
        for seed in range(4):
            answer = self.api.post(
                "/v1/chat/completions",
                messages=messages,
                response_format=form,
                seed=seed,
                max_tokens=400,
            )
            thing = json.loads(answer["choices"][0]["message"]["content"])
            self.assertEqual(list(thing), ["name", "size", "parts"])
            self.assertIn(thing["size"], ("small", "large"))
            self.assertTrue(all(isinstance(part, int) for part in thing["parts"]))


if __name__ == "__main__":
    unittest.main()
