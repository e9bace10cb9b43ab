"""The `openai` package against a running server. scripts/setup.sh --python installs it."""

import json
import unittest
from decimal import Decimal
from typing import Literal

from clients import LAMP_TOOL, MODEL_NAME, RECIPE_QUESTION, RECIPE_TOOL, is_recipe, shared_api

try:
    import openai
    import pydantic  # openai needs it
except ImportError:
    openai = None

QUESTION = {"role": "user", "content": RECIPE_QUESTION}


@unittest.skipUnless(openai, "the openai package is not installed")
class OpenAiClient(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=shared_api().url + "/v1", api_key="none")

    def chat(self, **fields):
        return self.client.chat.completions.create(model=MODEL_NAME, **fields)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL_NAME])
        self.assertEqual(self.client.models.retrieve(MODEL_NAME).id, MODEL_NAME)

    def test_tool_round_trip(self):
        messages = [QUESTION]
        first = self.chat(messages=messages, tools=[RECIPE_TOOL], temperature=0)
        answer = first.choices[0]
        self.assertEqual(answer.finish_reason, "tool_calls")
        (call,) = answer.message.tool_calls
        self.assertEqual(call.function.name, "find_recipe")
        self.assertTrue(is_recipe(call.function.arguments))

        recipe = json.dumps({"steps": ["cut onions", "boil them"], "minutes": 40})
        messages += [
            answer.message,
            {"role": "tool", "tool_call_id": call.id, "content": recipe},
        ]
        final = self.chat(messages=messages, tools=[RECIPE_TOOL], seed=1, max_tokens=20)
        self.assertIn(final.choices[0].finish_reason, ("stop", "length", "tool_calls"))
        self.assertGreater(final.usage.prompt_tokens, first.usage.prompt_tokens)

    def test_streamed_tool_call(self):
        name = ""
        arguments = ""
        reasons = []
        stream = self.chat(messages=[QUESTION], tools=[RECIPE_TOOL], temperature=0, stream=True)
        for chunk in stream:
            choice = chunk.choices[0]
            for news in choice.delta.tool_calls or []:
                name += news.function.name or ""
                arguments += news.function.arguments or ""
            reasons.append(choice.finish_reason)
        self.assertEqual(name, "find_recipe")
        self.assertTrue(is_recipe(arguments))
        self.assertEqual(reasons[-1], "tool_calls")

    def test_tool_choice(self):
        named = {"type": "function", "function": {"name": "set_lamp"}}
        for choice, tools in (("required", [LAMP_TOOL]), (named, [RECIPE_TOOL, LAMP_TOOL])):
            answer = self.chat(
                messages=[{"role": "user", "content": "Tell me a story."}],
                tools=tools,
                tool_choice=choice,
                max_tokens=300,
                seed=1,
            )
            call = answer.choices[0].message.tool_calls[0]
            self.assertEqual(call.function.name, "set_lamp")
            arguments = json.loads(call.function.arguments)
            self.assertIn(arguments["colour"], ("red", "blue"))
            self.assertIsInstance(arguments["bright"], bool)

    def test_stream_with_usage(self):
        stream = self.chat(
            messages=[{"role": "user", "content": "Hello."}],
            stream=True,
            stream_options={"include_usage": True},
            max_tokens=10,
        )
        *chunks, last = stream
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(last.choices, [])
        self.assertGreater(last.usage.completion_tokens, 0)

    def test_logprobs(self):
        answer = self.chat(
            messages=[QUESTION], max_tokens=5, temperature=0, logprobs=True, top_logprobs=3
        )
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), answer.usage.completion_tokens)
        for token in content:
            self.assertEqual(token.logprob, token.top_logprobs[0].logprob)  # greedy
            self.assertEqual(len(token.top_logprobs), 3)

    def test_parse_into_a_schema(self):
        schema = {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 10}, "far": {"type": "boolean"}},
            "required": ["city", "far"],
            "additionalProperties": False,
        }
        answer = self.chat(
            messages=[{"role": "user", "content": "Name a city."}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "city", "schema": schema, "strict": True},
            },
            max_tokens=300,
        )
        self.assertEqual(set(json.loads(answer.choices[0].message.content)), {"city", "far"})

    def test_parse_into_pydantics_types(self):
        class Inner(pydantic.BaseModel):
            k: pydantic.Json[Literal["x\n", 1]]

        class Order(pydantic.BaseModel):
            count: int = pydantic.Field(multiple_of=12, gt=0, le=600)
            price: Decimal = pydantic.Field(multiple_of=Decimal("0.01"), ge=0, le=1000)
            rating: float = pydantic.Field(multiple_of=0.5, ge=0, le=5)
            tag: pydantic.Json[tuple[Literal["a\"b"], bool]]
            inner: pydantic.Json[Inner]

        schema = Order.model_json_schema()
        # Not the other way to write it, a string of any length.
        schema["properties"]["price"] = schema["properties"]["price"]["anyOf"][0]
        for seed in range(6):
            answer = self.client.chat.completions.create(
                model=MODEL_NAME,
                messages=[{"role": "user", "content": "An order."}],
                max_tokens=300,
                temperature=1.5,
                seed=seed,
                response_format={"type": "json_schema", "json_schema": {"name": "order", "schema": schema}},
            )
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            Order.model_validate_json(answer.choices[0].message.content)

    def test_completions(self):
        answer = self.client.completions.create(
            model=MODEL_NAME,
            prompt=["The barrel", "The boat"],
            max_tokens=4,
            n=2,
            logprobs=1,
            extra_body={"ignore_eos": True},  # or a draw may end an answer early
        )
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 4)

    def test_responses(self):
        fields = {"model": MODEL_NAME, "input": "Hello.", "instructions": "Be short."}
        fields |= {"temperature": 0, "max_output_tokens": 8}
        answer = self.client.responses.create(**fields)
        self.assertLessEqual(answer.usage.output_tokens, 8)
        text = ""
        with self.client.responses.stream(**fields) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    text += event.delta
        self.assertEqual(answer.output_text, text)

    def test_responses_tool_round_trip(self):
        tool = {"type": "function", **RECIPE_TOOL["function"]}
        items = [QUESTION]
        answer = self.client.responses.create(
            model=MODEL_NAME, input=items, tools=[tool], temperature=0
        )
        (call,) = answer.output
        self.assertTrue(is_recipe(call.arguments))
        items += [
            call.model_dump(),
            {"type": "function_call_output", "call_id": call.call_id, "output": "Boil onions."},
        ]
        final = self.client.responses.create(
            model=MODEL_NAME, input=items, tools=[tool], temperature=0, max_output_tokens=20
        )
        self.assertGreater(final.usage.input_tokens, answer.usage.input_tokens)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.completions.create(model="gpt-4", prompt="a")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(messages=[QUESTION], temperature=-1)
        self.assertEqual(raised.exception.param, "temperature")


if __name__ == "__main__":
    unittest.main()
