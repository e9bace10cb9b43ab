"""What the tests of clients share: one running server, and plain requests to it.

The binary is $KV8_BINARY, by default build/release/kv8. Standard library only.
"""

import atexit
import functools
import http.client
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from kv8_server import MODEL, PATIENCE, Server  # noqa: E402

MODEL_NAME = MODEL.name

RECIPE_TOOL = {
    "type": "function",
    "function": {
        "name": "find_recipe",
        "description": "Find a recipe for a dish.",
        "parameters": {
            "type": "object",
            "properties": {"dish": {"type": "string"}, "servings": {"type": "integer"}},
            "required": ["dish", "servings"],
        },
    },
}
# Its calls come to an end whatever the model would like to say.
LAMP_TOOL = {
    "type": "function",
    "function": {
        "name": "set_lamp",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "blue"]}, "bright": {"type": "boolean"}},
            "required": ["colour", "bright"],
        },
    },
}
RECIPE_QUESTION = "Find a recipe for onion soup for 7 people."


def is_recipe(arguments):
    """Whether the text is arguments of RECIPE_TOOL. The small model fills them with anything."""
    value = json.loads(arguments)
    return isinstance(value["dish"], str) and isinstance(value["servings"], int)


class Api:
    """A server by its endpoints."""

    def __init__(self, server):
        self.port = server.port
        self.url = f"http://127.0.0.1:{server.port}"

    def request(self, method, path, body=None):
        """One request and its answer: status and body. A body that is no bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def succeed(self, path, fields):
        status, body = self.request("POST", path, {"model": MODEL_NAME, **fields})
        if status != 200:
            raise AssertionError(f"{path}: {status} {body.decode()}")
        return body

    def post(self, path, **fields):
        """The answer to a request that must succeed."""
        return json.loads(self.succeed(path, fields))

    def stream(self, path, **fields):
        """The events of a stream, as (name, object); the name is None where there is none."""
        events = []
        for chunk in self.succeed(path, {"stream": True, **fields}).decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in chunk.splitlines())
            if "data" in lines and lines["data"] != "[DONE]":
                events.append((lines.get("event"), json.loads(lines["data"])))
        return events


@functools.cache
def shared_api():
    """The API of a server that lasts as long as the test run."""
    server = Server("--max-num-seqs", 8, "--speculative-tokens", 2, "--log-level", "warning")
    atexit.register(server.kill)
    return Api(server)
