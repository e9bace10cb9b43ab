"""What whoever runs the server relies on: addresses, keys, TLS, logs, metrics, shutdown."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from kv8_server import BINARY, MODEL, Client, Server, ServerTestCase, completion, events, request


def refused(*flags):
    """Runs kv8 serve, which must fail, and returns its standard error."""
    port = () if "--port" in flags else ("--port", "0")
    command = [BINARY, "serve", "--model", MODEL, *port, *flags]
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=60)
    if done.returncode != 1 or done.stdout:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr.decode()}")
    return done.stderr.decode()


class Started(unittest.TestCase):
    def start(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(server.kill)
        return server

    def ask(self, server, data):
        with Client(server.port) as client:
            return client.send(data).answer()


class Addresses(Started):
    def test_Cli60_only_this_machine_unless_told_otherwise(self):
        self.assertIn("--insecure", refused("--host", "0.0.0.0"))
        for flags in (("--insecure",), ("--api-key", "k")):
            server = self.start("--host", "0.0.0.0", *flags)
            self.assertEqual(self.ask(server, request("GET", "/health"))[0], 200)
            server.kill()
        server = self.start()
        self.assertEqual(server.about["url"], f"http://127.0.0.1:{server.port}")

    def test_Cli61_json_tells_the_address_once_requests_are_taken(self):
        server = self.start("--served-model-name", "some/name")
        self.assertEqual(set(server.about), {"url", "port", "model"})
        self.assertEqual(server.about["model"], "some/name")
        self.assertEqual(self.ask(server, completion(1, model="some/name"))[0], 200)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.rest_of_output, b"")

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assertIn(f"port {port}", refused("--port", port))


class Shutdown(Started):
    def test_Cli62_finishes_streams_and_accepts_no_more(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start()
            client = Client(server.port)
            self.addCleanup(client.close)
            client.send(completion(300, stream=True)).until(b"data: ")
            server.process.send_signal(number)
            with self.assertRaises(OSError):
                end = time.monotonic() + 10
                while time.monotonic() < end:
                    Client(server.port).close()
            rest = client.to_end()
            self.assertIn(b"data: [DONE]", rest)
            self.assertTrue(rest.endswith(b"0\r\n\r\n"), rest[-100:])
            self.assertEqual(server.wait(), 0)

    def test_Cli62_cuts_off_what_does_not_finish(self):
        server = self.start("--shutdown-timeout", "0.3")
        client = Client(server.port)
        self.addCleanup(client.close)
        client.send(completion(4000, stream=True)).until(b"data: ")
        start = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - start, 10)
        self.assertNotIn(b"[DONE]", client.to_end())

    def test_Cli62_a_client_that_does_not_read_holds_nothing_up(self):
        server = self.start("--shutdown-timeout", "0.3")
        client = Client(server.port, receive_buffer=4096)
        self.addCleanup(client.close)
        client.send(completion(4000, stream=True)).until(b"data: ")
        start = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - start, 10)

    def test_Cli62_a_second_signal_ends_it_at_once(self):
        server = self.start("--shutdown-timeout", "600")
        client = Client(server.port)
        self.addCleanup(client.close)
        client.send(completion(4000, stream=True)).until(b"data: ")
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.assertEqual(server.stop(), 0)


class Queue(Started):
    def test_a_full_line_answers_429_and_when_to_come_back(self):
        server = self.start("--max-queued-requests", "2")
        streams = [Client(server.port).send(completion(3000, stream=True)) for _ in range(2)]
        for client in streams:
            self.addCleanup(client.close)
            client.until(b"data: ")
        status, headers, body = self.ask(server, completion(1))
        self.assertEqual(status, 429)
        self.assertGreater(int(headers["retry-after"]), 0)
        self.assertEqual(json.loads(body)["error"]["type"], "rate_limit_error")
        streams[0].close()
        end = time.monotonic() + 20
        while self.ask(server, completion(1))[0] == 429:
            self.assertLess(time.monotonic(), end, "the client that left still has its place")


class Keys(Started):
    def test_Cli63_every_path_but_the_probes_asks_for_a_key(self):
        keys = tempfile.NamedTemporaryFile("w", suffix=".keys")
        self.addCleanup(keys.close)
        keys.write("from-file\n\n")
        keys.flush()
        server = self.start(
            *("--api-key", "one", "--api-key", "two", "--api-key-file", keys.name)
        )
        for path in ("/v1/models", "/metrics", "/no", "/tokenize"):
            for headers in ((), ("Authorization: Bearer three",), ("Authorization: Basic one",)):
                status, answer, body = self.ask(server, request("GET", path, headers=headers))
                self.assertEqual(status, 401, path)
                self.assertEqual(answer["www-authenticate"], "bearer")
                self.assertEqual(json.loads(body)["error"]["code"], "invalid_api_key")
        for path in ("/health", "/ready", "/version"):
            self.assertEqual(self.ask(server, request("GET", path))[0], 200, path)
        for key in ("one", "two", "from-file"):
            header = (f"Authorization: Bearer {key}",)
            self.assertEqual(self.ask(server, request("GET", "/v1/models", headers=header))[0], 200)
            self.assertEqual(self.ask(server, completion(1, headers=header))[0], 200)

    def test_Cli63_the_environment_may_hold_the_key(self):
        server = self.start(env={"KV8_API_KEY": "hidden"})
        self.assertEqual(self.ask(server, request("GET", "/v1/models"))[0], 401)
        header = ("Authorization: Bearer hidden",)
        self.assertEqual(self.ask(server, request("GET", "/v1/models", headers=header))[0], 200)


class Sites(Started):
    """What pages of other sites can make a browser send."""

    def statuses(self, server):
        body = b'{"content": "a"}'
        head = f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        post = b"POST /tokenize HTTP/1.1\r\nHost: %s\r\n%s" + head
        data = b'Content-Type: application/json\r\n'
        requests = {
            "own": (b"localhost", b"Origin: http://localhost\r\n" + data),
            "host": (b"evil.example", data),
            "origin": (b"localhost", b"Origin: http://evil.example\r\n" + data),
            "text": (b"localhost", b"Content-Type: text/plain\r\n"),
        }
        return {name: self.ask(server, post % parts)[0] for name, parts in requests.items()}

    def test_Cli66_without_a_key_other_sites_are_refused(self):
        server = self.start()
        own = self.statuses(server)
        self.assertEqual((own["host"], own["origin"], own["text"]), (403, 403, 415))
        self.assertNotIn(own["own"], (403, 415))

    def test_Cli66_names_and_origins_can_be_allowed(self):
        flags = ("--allowed-host", "a", "--allowed-host", "Evil.Example")
        server = self.start(*flags, "--cors-origin", "http://evil.example")
        found = self.statuses(server)
        self.assertEqual(found.pop("text"), 415)
        self.assertEqual(len(set(found.values()) - {403}), 1, found)
        self.assertIn("--allowed-host", refused("--allowed-host", "http://a"))


class Prefixes(Started):
    def cached(self, server, key):
        headers = (f"Authorization: Bearer {key}",)
        prompt = "The harbour was quiet, and nobody came. " * 40
        status, _, body = self.ask(server, completion(1, headers=headers, prompt=prompt))
        self.assertEqual(status, 200, body)
        return json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_Cli67_a_key_learns_nothing_of_anothers_prompts(self):
        keys = ("--api-key", "a", "--api-key", "b")
        server = self.start(*keys)
        self.assertEqual(self.cached(server, "a"), 0)
        self.assertEqual(self.cached(server, "b"), 0)
        own = self.cached(server, "a")
        self.assertGreater(own, 0)
        self.assertEqual(self.cached(server, "b"), own)
        server.kill()
        server = self.start(*keys, "--share-prefixes")
        self.assertEqual(self.cached(server, "a"), 0)
        self.assertEqual(self.cached(server, "b"), own)


class Logs(Started):
    def test_Cli64_json_logs_have_a_line_for_every_request(self):
        server = self.start("--log-format", "json")
        self.ask(server, completion(2, headers=("X-Request-Id: mine-1",)))
        self.ask(server, request("GET", "/a%20\x7f\"b"))
        self.ask(server, b"nonsense\r\n\r\n")
        server.stop()
        lines = [json.loads(line) for line in server.log().splitlines()]
        self.assertEqual(lines[0]["event"], "listening")
        self.assertEqual(lines[-1]["event"], "stopped")
        mine = [line for line in lines if line.get("id") == "mine-1"]
        self.assertEqual(len(mine), 1)
        self.assertEqual((mine[0]["method"], mine[0]["path"]), ("POST", "/v1/completions"))
        self.assertEqual(mine[0]["status"], 200)
        self.assertLessEqual(mine[0]["first_byte_s"], mine[0]["seconds"])
        refused = [line for line in lines if line.get("status") == 400]
        self.assertEqual(len(refused), 2)
        self.assertNotIn("reason", mine[0])
        for line, reason in zip(refused, ("bad target", "not an HTTP request")):
            self.assertIn(reason, line["reason"])

    def test_Cli64_refusals_of_endpoints_tell_their_reason(self):
        server = self.start("--log-format", "json")
        self.ask(server, completion(2, model="none"))
        self.ask(server, request("POST", "/tokenize", {}))
        server.stop()
        lines = [json.loads(line) for line in server.log().splitlines()]
        self.assertIn('no model "none"', [line for line in lines if line.get("status") == 404][0]["reason"])
        self.assertTrue([line for line in lines if line.get("status") == 400][0]["reason"])

    def test_Cli64_a_standard_error_that_nobody_reads_stops_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            reader, writer = os.pipe()
            self.addCleanup(os.close, reader)
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            server = self.start(stderr=writer)
            os.close(writer)
            many = request("GET", "/" + "x" * 200) * 100  # a kilobyte of log each: more than waits
            for _ in range(100):
                with Client(server.port) as client:
                    client.send(many)
                    for _ in range(100):
                        self.assertEqual(client.answer()[0], 404)
            self.assertEqual(self.ask(server, completion(2))[0], 200)
            metrics = self.ask(server, request("GET", "/metrics"))[2].decode()
            lost = float(re.search(r"^kv8:log_lines_lost_total{.*} (\S+)$", metrics, re.M)[1])
            self.assertGreater(lost, 0)
            start = time.monotonic()
            server.process.send_signal(number)
            self.assertEqual(server.wait(), 0)
            self.assertLess(time.monotonic() - start, 20)

    def test_Cli64_a_reader_that_goes_away_stops_nothing(self):
        reader, writer = os.pipe()
        server = self.start(stderr=writer)
        os.close(writer)
        os.close(reader)
        for _ in range(100):
            self.assertEqual(self.ask(server, request("GET", "/health"))[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_Cli64_the_level_decides(self):
        for level, lines in (("off", 0), ("warning", 0)):
            server = self.start("--log-level", level)
            self.ask(server, request("GET", "/health"))
            server.stop()
            self.assertEqual(len(server.log().splitlines()), lines)


@unittest.skipUnless(shutil.which("openssl"), "needs the openssl command to make a certificate")
class Tls(Started):
    def test_Cli65_speaks_tls(self):
        directory = tempfile.mkdtemp(prefix="kv8-tls-")
        self.addCleanup(shutil.rmtree, directory)
        certificate, key = f"{directory}/cert.pem", f"{directory}/key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
            + ["-keyout", key, "-out", certificate, "-subj", "/CN=localhost"]
            + ["-addext", "subjectAltName=IP:127.0.0.1"],
            check=True,
            capture_output=True,
        )
        self.assertIn("both", refused("--tls-key", key))
        pair = ("--tls-key", certificate, "--tls-certificate", certificate)
        self.assertIn("cert.pem", refused(*pair))

        server = self.start("--tls-certificate", certificate, "--tls-key", key)
        self.assertTrue(server.about["url"].startswith("https://"))
        context = ssl.create_default_context(cafile=certificate)

        def wrap(plain):
            return context.wrap_socket(plain, server_hostname="127.0.0.1")

        with Client(server.port, wrap=wrap) as client:
            self.assertEqual(client.send(request("GET", "/health")).answer()[0], 200)
            status, _, body = client.send(completion(20, stream=True)).answer()
            self.assertEqual(status, 200)
            self.assertGreater(len(events(body)), 0)
            client.send(request("GET", "/health", headers=("Connection: close",)))
            self.assertEqual(client.answer()[0], 200)
            self.assertEqual(client.to_end(), b"")
        with Client(server.port) as plain:
            plain.send(request("GET", "/health"))
            self.assertNotIn(b"200 OK", plain.to_end())
        Client(server.port, wrap=wrap).send(completion(500, stream=True)).close()
        self.assertEqual(server.stop(), 0)


class Metrics(ServerTestCase):
    def test_every_line_is_well_formed_and_the_names_are_there(self):
        self.assertEqual(self.ask(completion(5))[0], 200)
        self.wait_until(lambda: self.metric("vllm:generation_tokens_total") == 5, "never counted")
        status, headers, body = self.ask(request("GET", "/metrics"))
        self.assertEqual(status, 200)
        self.assertTrue(headers["content-type"].startswith("text/plain; version=0.0.4"))
        sample = re.compile(r'[a-z0-9_:]+(\{([a-z_]+="[^"]*",?)*\})? (\S+)')
        names = set()
        for line in body.decode().splitlines():
            if line.startswith("#"):
                continue
            self.assertTrue(sample.fullmatch(line), line)
            names.add(line.split("{")[0])
            float(line.rsplit(" ", 1)[1])
        for name in (
            *("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
            *("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
            *("vllm:prompt_tokens_total", "vllm:request_success_total"),
            *("vllm:time_to_first_token_seconds_bucket", "vllm:e2e_request_latency_seconds_sum"),
            *("vllm:request_queue_time_seconds_count", "vllm:spec_decode_num_drafts_total"),
            *("kv8:kv_pages", "kv8:kv_bytes", "kv8:kv_scale", "kv8:kv_saturated_values_total"),
            *("kv8:scale_pack_info", "kv8:memory_bytes"),
        ):
            self.assertIn(name, names)

    def test_version_and_probes(self):
        version = subprocess.run([BINARY, "--version"], capture_output=True, text=True).stdout
        _, _, body = self.ask(request("GET", "/version"))
        self.assertEqual("kv8 " + json.loads(body)["version"], version.strip())
        for path in ("/health", "/ready"):
            client = self.client().send(request("HEAD", path, headers=("Connection: close",)))
            answer = client.to_end()
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n"))


if __name__ == "__main__":
    unittest.main()
