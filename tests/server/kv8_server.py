"""Starts `kv8 serve` for the server's tests, and speaks HTTP to it byte by byte.

The binary is $KV8_BINARY, by default build/release/kv8. Standard library only.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

REPO = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("KV8_BINARY", str(REPO / "build" / "release" / "kv8"))
MODEL = REPO / "models" / "tiny-qwen4exp"

PATIENCE = 60  # seconds until something that should have happened counts as a failure
PROMPT = "The lighthouse keeper wrote in the log that"


class Server:
    """A running server. Its log goes to a file, or to `stderr`."""

    def __init__(self, *flags, env=None, model=MODEL, stderr=None):
        self.log_file = tempfile.TemporaryFile()
        command = [BINARY, "serve", "--model", model, "--port", "0", "--json"]
        # One thread: the clients, or a browser, need the other core.
        command += ["--max-model-len", "4096", "--threads", "1", *flags]
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log_file if stderr is None else stderr,
            env={**os.environ, **(env or {})},
        )
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError("kv8 serve did not start: " + self.log())
        self.about = json.loads(line)
        self.port = self.about["port"]

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read().decode()

    def memory(self, name):
        """Bytes: VmRSS (resident), VmSize (address space)."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+)", status)[1]) * 1024

    def rss(self):
        """Resident bytes."""
        return self.memory("VmRSS")

    def stop(self):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        code = self.process.wait(timeout=PATIENCE)
        self.rest_of_output = self.process.stdout.read()
        self.process.stdout.close()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log_file.close()


class Client:
    """One connection."""

    def __init__(self, port, wrap=None, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        if wrap:
            self.socket = wrap(self.socket)
        self.waiting = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        """Sends what the server still takes."""
        try:
            self.socket.sendall(data if isinstance(data, bytes) else data.encode())
        except OSError:
            pass
        return self

    def receive(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.waiting += data
        return bool(data)

    def until(self, mark):
        """Reads up to and with `mark`, or to the end."""
        while mark not in self.waiting and self.receive():
            pass
        head, found, self.waiting = self.waiting.partition(mark)
        return head + found

    def to_end(self):
        while self.receive():
            pass
        data, self.waiting = self.waiting, b""
        return data

    def answer(self):
        """(status, headers, body) of one answer; status 0 when the connection ended instead."""
        head = self.until(b"\r\n\r\n").decode("latin-1")
        if not head:
            return 0, {}, b""
        lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.until(b"\r\n") or b"0", 16):
                body += self.bytes(size)
                self.bytes(2)
            self.bytes(2)
        else:
            body = self.bytes(int(headers.get("content-length", 0)))
        return int(lines[0].split()[1]), headers, body

    def bytes(self, count):
        while len(self.waiting) < count and self.receive():
            pass
        data, self.waiting = self.waiting[:count], self.waiting[count:]
        return data


def request(method, path, body=None, headers=(), version="1.1"):
    """The bytes of a request; `body` is JSON."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def completion(max_tokens, stream=False, headers=(), model=MODEL.name, prompt=PROMPT):
    """The bytes of a request for a completion of exactly `max_tokens` tokens."""
    body = {"model": model, "prompt": prompt, "max_tokens": max_tokens}
    body |= {"temperature": 0, "stream": stream}
    return request("POST", "/v1/completions", {**body, "ignore_eos": True}, headers)


def events(body):
    """The JSON of each event of a stream that ended as it should."""
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    if not lines or lines[-1] != "[DONE]":
        raise AssertionError(f"the stream did not end: {body[-200:]!r}")
    return [json.loads(line) for line in lines[:-1]]


def text_of(body):
    """The text of a streamed completion."""
    return "".join(c["text"] for event in events(body) for c in event["choices"])


class ServerTestCase(unittest.TestCase):
    """One server for all tests of a class, with `flags`; each test leaves it idle."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--log-level", "warning", *cls.flags)
        cls.addClassCleanup(cls.server.kill)

    def client(self, **options):
        client = Client(self.server.port, **options)
        self.addCleanup(client.close)
        return client

    def ask(self, data):
        """The answer to one request on a connection of its own."""
        with Client(self.server.port) as client:
            return client.send(data).answer()

    def metric(self, name):
        """The first sample of a metric."""
        status, _, body = self.ask(request("GET", "/metrics"))
        self.assertEqual(status, 200)
        return float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", body.decode(), re.M)[1])

    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def assert_idle_and_well(self):
        """Nothing of the clients that went is left, and the next request is answered."""
        self.assertIsNone(self.server.process.poll(), self.server.log())
        self.wait_until(lambda: self.metric("vllm:num_requests_running") == 0, "requests run on")
        self.wait_until(lambda: self.metric("kv8:http_connections") == 1, "connections stay open")
        status, _, body = self.ask(completion(2))
        self.assertEqual(status, 200, body)
