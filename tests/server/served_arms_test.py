"""kv8 verify with arms that servers run: kv8's own, and some that know little or behave badly."""

import html
import http.server
import itertools
import json
import pathlib
import sys
import threading
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

from kv8_cli import MODEL, REPO, Kv8TestCase, calibrated, run
from kv8_server import Server

EVALUATION = REPO / "examples" / "corpus" / "evaluation.jsonl"
NAME = MODEL.name


def documents():
    """Short ones: texts, facts to find, tools to call."""
    rows = [json.loads(line) for line in EVALUATION.read_text().splitlines()]
    by_length = sorted(rows, key=lambda row: len(row["text"]))
    texts = [{"category": "en", "text": f"Lamp {i} burned until the morning. " * 8} for i in range(4)]
    return texts + [row for row in by_length if "depth" in row][:2] + [
        row for row in by_length if "tool" in row][:2]  # fmt: skip


class Fake:
    """A server whose completions are `choice(request)`, or what `raw(handler)` sends instead."""

    def __init__(self, choice=None, raw=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def answer(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.answer({"data": [{"id": NAME}]})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if raw:
                    raw(self)
                else:
                    self.answer({"choices": [choice(json.loads(body))]})

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class ServedArms(Kv8TestCase):
    def setUp(self):
        super().setUp()
        lines = (json.dumps(row) + "\n" for row in documents())
        self.corpus = self.file("corpus.jsonl", "".join(lines))
        self.out = self.dir / "out"

    def verify(self, *more, out=None):
        return run("verify", "--model", MODEL, "--scale-pack", calibrated().pack, "--corpus",
                   self.corpus, "--output-dir", out or self.out, "--quiet", *more)  # fmt: skip

    def report(self, out=None):
        return json.loads(((out or self.out) / "report.json").read_text())

    def content(self, out, part):
        return json.loads((out / "parts" / f"{part}.json").read_text())["content"]

    def test_Verify16_servers_of_kv8_give_what_local_arms_give(self):
        local, served = self.dir / "local", self.dir / "served"
        a = Server()
        self.addCleanup(a.kill)
        b = Server("--kv-cache-dtype", "fp8_e4m3", "--scale-pack", calibrated().pack)
        self.addCleanup(b.kill)
        self.verify(out=local)
        urls = [f"http://127.0.0.1:{server.port}" for server in (a, b)]
        done = self.verify("--a-server", urls[0], "--server", urls[1] + "/v1", out=served)
        self.assertEqual(done.code, 0, done.err)
        for part in ("a.scores", "b.scores"):
            for one, two in zip(*(self.content(at, part)["texts"] for at in (local, served))):
                self.assertEqual(one["nll_bits"], two["nll_bits"])
        for part in ("a.outputs", "b.outputs"):
            for one, two in zip(*(self.content(at, part)["items"] for at in (local, served))):
                self.assertEqual(one, two | {"steps": one["steps"]})
        one, two = self.report(local), self.report(served)
        self.assertEqual(one["verdicts"], two["verdicts"])
        self.assertEqual(one["diagnostics"]["greedy"], two["diagnostics"]["greedy"])
        self.assertEqual(one["figures"]["noise.outputs_different"], 0)
        nll = two["verdicts"][0]
        self.assertNotEqual(nll["a"], nll["b"])  # two things were compared
        self.assertEqual(two["arms"]["b"]["model"], NAME)

    def test_Verify17_what_a_server_cannot_say_is_absent_with_its_reason(self):
        with Fake(lambda request: {"text": " the harbour"}) as fake:
            done = self.verify("--server", fake.url)
            self.assertEqual(done.code, 0, done.err)
        report = self.report()
        reasons = {row["measurement"]: row["reason"] for row in report["not_measured"]}
        self.assertEqual(
            set(reasons),
            {"scores", "token ids", "divergence", "acceptance", "clipped", "schedule", "attention"},
        )
        self.assertIn("token_logprobs", reasons["scores"])
        self.assertEqual({row["arm"] for row in report["not_measured"]}, {"b"})
        names = [verdict["name"] for verdict in report["verdicts"]]
        self.assertEqual(names, ["retrieval", "tool_names", "tool_calls"])
        for figure in report["figures"]:
            self.assertFalse(figure.startswith(("nll", "clipped.b", "schedule.b", "attention")))
        self.assertEqual(report["figures"]["schedule.a_different"], 0)
        self.assertIn(html.escape(reasons["scores"]), (self.out / "report.html").read_text())

    def test_Verify18_noise_of_a_server_is_shown_and_passes(self):
        numbers = itertools.count()
        with Fake(lambda request: {"token_ids": [next(numbers)], "text": ""}) as fake:
            done = self.verify("--a-server", fake.url, "--b", "fp16")
        self.assertEqual(done.code, 0, done.err)
        report = self.report()
        self.assertEqual(report["figures"]["noise.outputs_different"], report["documents"])
        gated = {gate["figure"] for gate in report["gates"]}
        self.assertNotIn("noise.outputs_different", gated)
        self.assertIn("schedule.b_different", gated)
        limit = {"name": "n", "figure": "noise.outputs_different", "at_most": 0}
        gates = self.file("gates.json", json.dumps({"gates": [limit]}))
        with Fake(lambda request: {"token_ids": [next(numbers)], "text": ""}) as fake:
            done = self.verify("--a-server", fake.url, "--b", "fp16", "--gates", gates, "--restart")
        self.assertEqual(done.code, 1)
        self.assertIn('gate "n"', done.err)

    def test_Verify19_a_server_that_fails_is_named_and_leaves_the_other_its_results(self):
        def says(status, type_, text):
            def raw(handler):
                handler.send_response(status)
                handler.send_header("Content-Type", type_)
                handler.end_headers()
                handler.wfile.write(text)

            return raw

        cases = {
            "500: no memory": says(500, "application/json", b'{"error": {"message": "no memory"}}'),
            "not JSON": says(200, "application/json", b'{"choices"'),
            "text/html": says(200, "text/html", b"<p>"),
            "no choice": says(200, "application/json", b"{}"),
            "without an answer": lambda handler: None,
            "within 1 s": lambda handler: time.sleep(3),
        }
        for part, raw in cases.items():
            with self.subTest(part), Fake(raw=raw) as fake:
                # A's results are found again.
                done = self.verify("--server", fake.url, "--server-timeout", 1)
                self.expect_failure_of_b(done, part, fake.url)
        done = self.verify("--server", fake.url)
        self.expect_failure_of_b(done, "refused", fake.url + "/v1/models")

    def expect_failure_of_b(self, done, part, url):
        self.assertEqual(done.code, 1)
        for text in ("outputs of b failed", part, url):
            self.assertIn(text, done.err)
        report = self.report()
        self.assertEqual({row["arm"] for row in report["failures"]}, {"b"})
        self.assertEqual(report["figures"]["noise.outputs_different"], 0)

    def test_Verify20_results_of_a_server_are_bound_to_its_url_and_model(self):
        with Fake(lambda request: {"token_ids": [1], "text": ""}) as fake:
            arm = ("--server", fake.url, "--server-model", "m")
            first = self.verify(*arm)
            self.assertEqual(first.code, 0, first.err)
            stamp = (self.out / "parts" / "b.outputs.json").stat().st_mtime_ns
            self.assertEqual(self.verify(*arm).code, 0)
            self.assertEqual((self.out / "parts" / "b.outputs.json").stat().st_mtime_ns, stamp)
            self.refuse_other("--server", fake.url, "--server-model", "n", naming='"model" differs')
        self.refuse_other("--server", "http://127.0.0.1:9", "--server-model", "m",
                          naming='"server" differs')  # fmt: skip

    def refuse_other(self, *arm, naming):
        done = self.verify(*arm)
        self.assertEqual(done.code, 1)
        self.assertIn(naming, done.err)


if __name__ == "__main__":
    unittest.main()
