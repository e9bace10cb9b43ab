"""Clients that break the protocol, hang up or do not read: right answers, no harm to others."""

import json
import re
import resource
import threading
import time
import unittest

from kv8_server import MODEL, PATIENCE, Client, Server, ServerTestCase, completion, request, text_of

POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

MALFORMED = {
    "a line without sense": (b"hello\r\n\r\n", 400),
    "binary": (bytes(range(128, 256)) * 4 + b"\r\n\r\n", 400),
    "a TLS greeting": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "no Host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "a target without slash": (b"GET health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "NUL in a header": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n", 400),
    "huge headers": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000, 431),
    "many headers": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 1000 + b"\r\n", 431),
    "a huge target": (b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
    "a huge body": (POST + b"Content-Length: 99999999\r\n\r\n", 413),
    "a length that is none": (POST + b"Content-Length: x\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    "a length beside chunks": (
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunks that are none": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "a huge chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n", 413),
    "an endless trailer": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 200_000,
        431,
    ),
    "a coding of the transfer": (POST + b"Transfer-Encoding: br\r\n\r\n", 501),
    "a coding of the body": (POST + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415),
    "a form": (
        b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\n{}",
        415,
    ),
    "another site's name": (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
    "another site's page": (request("GET", "/v1/models", headers=["Origin: http://x.test"]), 403),
    "no such path": (request("GET", "/v2/models"), 404),
    "no such method": (request("PATCH", "/v1/models"), 405),
}

BODIES = {
    "nothing": b"",
    "half an object": b'{"model": ',
    "an array": b"[]",
    "two objects": b"{}{}",
    "a name twice": b'{"a": 1, "a": 2}',
    "bytes that are no UTF-8": b'{"prompt": "\xff\xfe"}',
    "an overlong form": b'{"prompt": "\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"prompt": "\xed\xa0\x80"}',
    "half a pair of surrogates": rb'{"prompt": "\ud800"}',
    "half a character at the end": b'{"prompt": "\xe2\x82"}',
    "no UTF-8 in a name": b'{"\xff": 1}',
    "a control character": b'{"prompt": "\x01"}',
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "depth in a field that nobody reads": b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "NaN": b'{"temperature": NaN}',
    "a number beyond all": b'{"temperature": 1e999}',
}
ENDPOINTS = (
    *("/v1/completions", "/v1/chat/completions", "/v1/responses"),
    *("/tokenize", "/detokenize"),
)


class Malformed(ServerTestCase):
    def test_bodies_that_are_no_json_object(self):
        client = self.client()
        for path in ENDPOINTS:
            for name, body in BODIES.items():
                with self.subTest(name, path=path):
                    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                    status, _, answer = client.send(head.encode() + body).answer()
                    self.assertEqual(status, 400, answer)
                    self.assertEqual(json.loads(answer)["error"]["type"], "invalid_request_error")
        client.close()
        self.assert_idle_and_well()

    def test_right_status_in_the_shape_of_openai(self):
        for name, (data, expected) in MALFORMED.items():
            with self.subTest(name):
                status, headers, body = self.ask(data)
                self.assertEqual(status, expected, body)
                self.assertIn("x-request-id", headers)
                error = json.loads(body)["error"]
                self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assert_idle_and_well()

    def test_garbage_behind_a_good_request_does_not_spoil_it(self):
        client = self.client()
        client.send(request("GET", "/health") + b"\0\0garbage\r\n\r\n" + request("GET", "/health"))
        self.assertEqual(client.answer()[0], 200)
        self.assertEqual(client.answer()[0], 400)
        self.assertEqual(client.to_end(), b"")

    def test_pipelined_requests_are_answered_in_order(self):
        client = self.client()
        client.send(completion(3) + request("GET", "/health"))
        client.send(request("GET", "/no") + completion(1))
        answers = [client.answer() for _ in range(4)]
        self.assertEqual([status for status, _, _ in answers], [200, 200, 404, 200])
        self.assertEqual(json.loads(answers[0][2])["usage"]["completion_tokens"], 3)
        self.assertEqual(json.loads(answers[3][2])["usage"]["completion_tokens"], 1)


class HangUps(ServerTestCase):
    flags = ("--header-timeout", "1", "--body-timeout", "1")

    def test_while_sending(self):
        data = completion(50, stream=True)
        for length in range(0, len(data), 7):
            Client(self.server.port).send(data[:length]).close()
        self.assert_idle_and_well()

    def test_while_receiving(self):
        for length in (1, 50, 200, 700, 1500, 4000):
            client = self.client().send(completion(2000, stream=True))
            client.bytes(length)
            client.close()
        for _ in range(3):
            self.client().send(completion(2000)).close()
        self.assert_idle_and_well()
        self.assertGreaterEqual(self.metric("kv8:http_hung_up_total"), 6)

    def test_half_sent_requests_time_out(self):
        head = self.client().send(b"GET /health HTTP/1.1\r\nHo")
        body = self.client().send(completion(5)[:-3])
        silent = self.client()
        self.assertEqual(head.answer()[0], 408)
        self.assertEqual(body.answer()[0], 408)
        self.assertEqual(silent.to_end(), b"")
        self.assert_idle_and_well()

    def test_drop_by_drop(self):
        client = self.client()
        stop = threading.Event()

        def drip():
            while not stop.wait(0.1):
                client.send(b"X")

        client.send(b"GET /health HTTP/1.1\r\nX: ")
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            self.assertEqual(client.answer()[0], 408)
        finally:
            stop.set()
            thread.join()


class Neighbours(ServerTestCase):
    flags = ("--write-timeout", "1", "--max-stream-buffer", "65536", "--max-connections", "40")

    def test_a_stream_is_the_same_whatever_others_do(self):
        _, _, body = self.ask(completion(200, stream=True))
        alone = text_of(body)
        good = self.client().send(completion(200, stream=True))
        for data, _ in MALFORMED.values():
            Client(self.server.port).send(data).close()
        data = completion(300, stream=True)
        for length in range(0, len(data), 20):
            Client(self.server.port).send(data[:length]).close()
        for length in (10, 300):
            other = Client(self.server.port).send(data)
            other.bytes(length)
            other.close()
        status, _, body = good.answer()
        good.close()
        self.assertEqual(status, 200)
        self.assertEqual(text_of(body), alone)
        self.assert_idle_and_well()

    def test_readers_that_stop_are_cut_off(self):
        # The kernel keeps some megabytes for a client, so many long answers are asked for.
        slow = self.client(receive_buffer=2048)
        slow.send(request("GET", "/metrics") * 2000)
        self.wait_until(lambda: self.metric("kv8:http_cut_off_total") >= 1, "it was not cut off")
        slow.close()
        self.assert_idle_and_well()

    def test_connections_beyond_the_limit_wait(self):
        silent = [self.client() for _ in range(60)]
        # Those that say nothing make room for one that does.
        self.assertEqual(self.ask(request("GET", "/health"))[0], 200)
        for client in silent:
            client.close()
        self.assert_idle_and_well()


class ManyStreams(unittest.TestCase):
    STREAMS = 500

    def setUp(self):
        self.server = Server("--log-level", "warning", "--kv-memory", 64 << 20)
        self.addCleanup(self.server.kill)

    def requests_held(self):
        with Client(self.server.port) as probe:
            text = probe.send(request("GET", "/metrics")).answer()[2].decode()
        counts = re.findall(r"^vllm:num_requests_(?:running|waiting){.*} (\d+)$", text, re.M)
        return sum(map(int, counts))

    def wait_for_requests(self, count):
        end = time.monotonic() + PATIENCE
        while (held := self.requests_held()) != count:
            self.assertLess(time.monotonic(), end, f"{held} requests, not {count}")
            time.sleep(0.05)

    def held(self):
        """Opens many streams, waits until the engine has them all, and returns the memory then."""
        data = completion(3000, stream=True)
        clients = [Client(self.server.port).send(data) for _ in range(self.STREAMS)]
        self.wait_for_requests(self.STREAMS)
        rss = self.server.rss()
        for client in clients:
            client.close()
        self.wait_for_requests(0)
        return rss

    def test_memory_stays_flat(self):
        first = self.held()
        peaks = [self.held() for _ in range(3)]
        # A leak of one request (some kilobytes) per stream would add megabytes every time.
        self.assertLess(max(peaks) - first, 16 << 20, peaks)
        with Client(self.server.port) as client:
            status, _, body = client.send(completion(4)).answer()
        self.assertEqual(status, 200, body)
        self.assertEqual(self.server.stop(), 0)


class LittleMemory(ServerTestCase):
    """A server whose address space may grow by a little only."""

    def setUp(self):
        self.assertEqual(self.ask(completion(2))[0], 200)  # what the first request takes is taken

    def allow(self, more):
        """Lets the address space grow by `more` bytes; None: without a limit."""
        limit = resource.RLIM_INFINITY
        if more is not None:
            limit = self.server.memory("VmSize") + more
        pid = self.server.process.pid
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

    def test_Cli68_a_request_beyond_the_memory_fails_alone(self):
        text = "the lighthouse keeper wrote " * (8_000_000 // 28)
        bodies = {
            "text": ("/v1/completions", {"prompt": text}),
            "ids": ("/v1/completions", {"prompt": [1] * 4_000_000}),
            "messages": ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}),
            "tokenize": ("/tokenize", {"prompt": text}),
            "detokenize": ("/detokenize", {"tokens": [1] * 4_000_000}),
            "pieces": ("/v1/completions", {"x": [[0]] * 1_500_000}),
        }
        data = {
            name: request("POST", path, {"model": MODEL.name, "max_tokens": 1, **body})
            for name, (path, body) in bodies.items()
        }
        seen = set()
        for room in (1, 2, 4, 8, 12, 17, 24, 34, 50, 70, 100, 150):
            for name, bytes_of_it in data.items():
                with self.subTest(name, room=room):
                    self.allow(room << 20)
                    status, _, answer = self.ask(bytes_of_it)
                    seen.add(status)
                    self.assertIn(status, (200, 400, 503), answer)
                    self.assertEqual(self.ask(completion(2))[0], 200)
                    self.allow(None)
        self.assertIn(503, seen)
        self.assert_idle_and_well()

    def test_Cli68_unfinished_bodies_have_a_common_limit(self):
        before = self.server.rss()
        refused = self.metric("kv8:http_refused_total")
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n"
        part = head + b"Content-Type: application/json\r\n\r\n" + b" " * 15_900_000
        clients = [self.client() for _ in range(60)]
        for client in clients:
            client.send(part)
        self.assertLess(self.server.rss() - before, (256 + 80) << 20)
        # 16 of them fit. Who still sends when the refusal's time to be read is over may miss it.
        self.wait_until(
            lambda: self.metric("kv8:http_refused_total") - refused >= 44, "too many were taken"
        )
        self.assertIn(clients[-1].answer()[0], (0, 503))
        self.assertEqual(self.ask(request("GET", "/health"))[0], 200)
        for client in clients:
            client.close()
        self.assert_idle_and_well()


if __name__ == "__main__":
    unittest.main()
