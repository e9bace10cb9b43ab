"""kv8 generate with --json-schema and --regex."""

import json
import re
import unittest

from kv8_cli import MODEL, Kv8TestCase

GENERATE = ("generate", "--model", MODEL, "--prompt", "The harbour has")
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 10},
        "depth": {"type": "integer", "minimum": 1, "maximum": 40},
    },
    "required": ["name", "depth"],
}


class StructuredTest(Kv8TestCase):
    def test_the_text_satisfies_the_schema_with_and_without_speculation(self):
        schema = self.file("schema.json", json.dumps(SCHEMA))
        flags = (*GENERATE, "--json", "--json-schema", schema, "--max-tokens", 200)
        texts = set()
        for drafts in (0, 3):
            out = self.succeed(*flags, "--speculative-tokens", drafts).json()
            self.assertEqual(out["finish_reason"], "stop")
            texts.add(out["text"])
        self.assertEqual(len(texts), 1)
        value = json.loads(texts.pop())
        self.assertEqual(set(value), {"name", "depth"})
        self.assertLessEqual(len(value["name"]), 10)
        self.assertIn(value["depth"], range(1, 41))

    def test_the_text_matches_the_expression(self):
        pattern = "[0-9]{2} (?:boats|ships)\\."
        out = self.succeed(*GENERATE, "--json", "--regex", pattern, "--temperature", 2).json()
        self.assertTrue(re.fullmatch(pattern, out["text"]), out["text"])

    def test_what_cannot_be_honoured_is_refused_by_its_place(self):
        schema = self.file("schema.json", '{"properties":{"a":{"minProperties":3}}}')
        self.refuse(*GENERATE, "--json-schema", schema, naming=("#/properties/a", "minProperties"))
        self.refuse(*GENERATE, "--regex", "(a", naming=("a group is not closed",))
        missing = ("--json-schema", "no-such-file.json")
        self.refuse(*GENERATE, *missing, naming=("no-such-file.json",))

    def test_one_of_the_two_is_enough(self):
        schema = self.file("schema.json", "{}")
        self.usage_error(*GENERATE, "--regex", "a", "--json-schema", schema)


if __name__ == "__main__":
    unittest.main()
