"""kv8 bench over a running server, its own and one that misbehaves."""

import http.server
import json
import pathlib
import sys
import threading
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "cli"))
from kv8_cli import MODEL, Kv8TestCase  # noqa: E402
from kv8_server import Server  # noqa: E402

SMALL = ("--contexts", "96", "--concurrency", "2", "--output-tokens", "4", "--quiet", "--json")


class BrokenServer(http.server.BaseHTTPRequestHandler):
    """Lists a model; answers with what the test put into `body`."""

    body = b""

    def do_GET(self):
        self.answer(b'{"data": [{"id": "m"}]}', "application/json")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(self.body, "text/event-stream")

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class BenchServerTest(Kv8TestCase):
    def setUp(self):
        super().setUp()
        self.server = Server("--max-num-seqs", "2")
        self.addCleanup(self.server.kill)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def bench(self, *flags):
        return self.succeed("bench", "--model", MODEL, "--server", self.url, *SMALL, *flags).json()

    def test_Bench9_the_same_workload_over_http(self):
        talk = ("--workload", "matrix,conversations,structured", "--conversations", 1, "--turns", 2)
        for _ in range(2):  # the second run's prompts are others: the server remembers none of them
            out = self.bench(*talk, "--turn-tokens", 100)
            (cell,) = out["cells"]
            self.assertEqual(len(cell["a"]["decode_tokens_per_second"]["values"]), 3)
            self.assertIsNone(cell["a"]["acceptance"])
            self.assertEqual([turn["turn"] for turn in out["conversations"]], [1, 2])
            (row,) = out["structured"]
            self.assertEqual(row["complete"], row["outputs"])
        self.assertEqual(out["arms"]["a"]["server"], self.url)
        self.assertNotIn("routes", out["arms"]["a"])

    def test_Bench9_what_a_server_does_not_say_cannot_be_compared(self):
        out = self.bench("--server", self.url, "--output-dir", self.dir / "speed")
        self.assertFalse(out["comparable"])
        self.assertIn("routes: not said and not said", out["differences"])
        self.assertNotIn("decode_b_over_a", out["cells"][0])
        self.assertIn(self.url, (self.dir / "speed" / "bench.html").read_text())

    def test_Bench9_a_server_that_fails_is_told_with_its_url(self):
        run = ("bench", "--model", MODEL, *SMALL, "--server")
        self.refuse(*run, "http://127.0.0.1:1", naming=["127.0.0.1:1", "refused"])
        self.refuse(*run, "ftp://127.0.0.1", naming=["ftp"])
        self.refuse(*run, self.url, "--served-model-name", "none", naming=["none"])
        self.refuse(*run, self.url, "--contexts", "9999", naming=[self.url])
        broken = http.server.ThreadingHTTPServer(("127.0.0.1", 0), BrokenServer)
        threading.Thread(target=broken.serve_forever, daemon=True).start()
        self.addCleanup(broken.server_close)
        self.addCleanup(broken.shutdown)
        event = json.dumps({"choices": [{"text": "a"}]}).encode()
        for body, said in (
            (b"data: [DONE]\n\n", "no text"),
            (b"data: " + event + b"\n\ndata: [DONE]\n\n", "no usage"),
            (b"data: {\n\n", "JSON"),
            (b"data: " + event + b"\n\n", "[DONE]"),
            (b'data: {"choices": 5, "usage": [1]}\n\ndata: [DONE]\n\n', "no text"),
        ):
            BrokenServer.body = body
            self.refuse(*run, f"http://127.0.0.1:{broken.server_port}", naming=[said])


if __name__ == "__main__":
    unittest.main()
