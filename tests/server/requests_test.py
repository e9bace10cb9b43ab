"""What the log says of requests, and the flags that decide what they mean."""

import json
import os
import pathlib
import tempfile
import unittest

from kv8_server import MODEL, Client, Server, completion, request


class Requests(unittest.TestCase):
    def start(self, *flags, **options):
        server = Server("--log-format", "json", *flags, **options)
        self.addCleanup(server.kill)
        return server

    def ask(self, server, data):
        with Client(server.port) as client:
            status, _, body = client.send(data).answer()
        return status, json.loads(body)

    def lines(self, server):
        """Every line of the log, once the server has ended."""
        server.stop()
        return [json.loads(line) for line in server.log().splitlines()]

    def test_Api1_the_ids_of_an_output(self):
        server = self.start()
        body = {"model": MODEL.name, "prompt": "The lamp", "temperature": 0, "return_token_ids": True}
        _, answer = self.ask(server, request("POST", "/v1/completions", body))
        choice = answer["choices"][0]
        self.assertEqual(len(choice["token_ids"]), answer["usage"]["completion_tokens"])
        ids = {"tokens": choice["token_ids"]}
        _, back = self.ask(server, request("POST", "/detokenize", ids))
        self.assertEqual(back["prompt"], choice["text"])
        body["stream"] = True
        status, answer = self.ask(server, request("POST", "/v1/completions", body))
        self.assertEqual((status, answer["error"]["param"]), (400, "return_token_ids"))

    def test_Api7_the_log_says_why_a_request_was_refused(self):
        server = self.start()
        body = {"model": MODEL.name, "prompt": "a", "max_tokens": 2, "functions": [{"name": "f"}]}
        status, answer = self.ask(server, request("POST", "/v1/completions", body))
        self.assertEqual((status, answer["error"]["param"]), (400, "functions"))
        body = {"model": MODEL.name, "prompt": "a", "max_tokens": 2, "n": 99}
        self.ask(server, request("POST", "/v1/completions", body))
        del body["n"]
        unknown = {**body, "unheard_of": 1, "x" * 1000: 2, "y": None}
        self.assertEqual(self.ask(server, request("POST", "/v1/completions", unknown))[0], 200)
        self.ask(server, request("POST", "/v1/completions", body))
        self.ask(server, request("GET", "/nowhere"))
        answers = [line for line in self.lines(server) if line["event"] == "answered"]
        self.assertIn('"functions" is not supported', answers[0]["reason"])
        self.assertEqual(answers[1]["status"], 400)
        self.assertTrue(answers[1]["reason"])
        self.assertTrue(answers[2]["ignored"].startswith("unheard_of,xxx"))
        self.assertLess(len(answers[2]["ignored"]), 301)
        self.assertNotIn("reason", answers[2])
        self.assertFalse({"reason", "ignored"} & set(answers[3]))
        self.assertIn("/nowhere", answers[4]["reason"])

    def test_Api4_generation_config_none_turns_it_off(self):
        body = {"model": MODEL.name, "prompt": "a", "max_tokens": 1}
        asked = request("POST", "/v1/completions", body)
        _, on = self.ask(self.start(), asked)
        self.assertEqual(on["usage"]["generation_config"]["top_k"], 20)
        _, off = self.ask(self.start("--generation-config", "none"), asked)
        self.assertNotIn("generation_config", off["usage"])

    def model_with(self, **generation_config):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        model = pathlib.Path(scratch.name) / MODEL.name
        model.mkdir()
        for path in MODEL.iterdir():
            if path.name != "generation_config.json":
                os.symlink(path, model / path.name)
        (model / "generation_config.json").write_text(json.dumps(generation_config))
        return model

    def test_Api4_what_kv8_does_not_have_is_logged_at_the_start(self):
        model = self.model_with(eos_token_id=2, num_beams=4, typical_p=0.9, max_new_tokens=3)
        server = self.start(model=model)
        messages = [{"role": "user", "content": "Tell me a story about a lantern."}]
        body = {"model": MODEL.name, "messages": messages, "ignore_eos": True}
        _, answer = self.ask(server, request("POST", "/v1/chat/completions", body))
        self.assertEqual(answer["usage"]["completion_tokens"], 3)
        self.assertEqual(answer["usage"]["generation_config"], {"max_new_tokens": 3})
        body["max_tokens"] = 5
        _, answer = self.ask(server, request("POST", "/v1/chat/completions", body))
        self.assertEqual(answer["usage"]["completion_tokens"], 5)
        warnings = [line for line in self.lines(server) if line["level"] == "warning"]
        self.assertEqual([line["fields"] for line in warnings], ["num_beams,typical_p"])

    def test_Api8_names_are_flags(self):
        names = ("--served-model-name", "org/name", "--served-model-name", "short")
        server = self.start(*names)
        self.assertEqual(server.about["model"], "org/name")
        status, card = self.ask(server, request("GET", "/v1/models/org%2Fname"))
        self.assertEqual((status, card["id"]), (200, "org/name"))
        status, answer = self.ask(server, completion(1, model="short"))
        self.assertEqual((status, answer["model"]), (200, "short"))


if __name__ == "__main__":
    unittest.main()
