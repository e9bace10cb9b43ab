"""A folder of K/V units hands conversations over from server to server, and never changes a token."""

import json
import pathlib
import random
import re
import signal
import tempfile
import time
import unittest

from kv8_server import Client, Server, completion, request

HOST = ("--kv-host-memory", 64 << 20)
QUOTA = 64 << 20
DISK_FULL_OF = 20  # bytes that fit nothing
TURNS = [" ".join(f"Entry {i}: the {w} was dark and the lamp was lit again." for i in range(n))
         for n, w in ((18, "sea"), (14, "road"), (16, "hill"))]


class Tiers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "kv"

    def start(self, *flags, drafts=3):
        server = Server("--max-num-seqs", 1, "--speculative-tokens", drafts, *flags)
        self.addCleanup(server.kill)
        return server

    def with_disk(self, **options):
        return self.start(*HOST, "--kv-disk", self.folder, "--kv-disk-quota", QUOTA, **options)

    def ask(self, server, prompt):
        """(text, cached tokens, seconds)"""
        begin = time.monotonic()
        with Client(server.port) as client:
            status, _, body = client.send(completion(8, prompt=prompt)).answer()
        self.assertEqual(status, 200, body)
        answer = json.loads(body)
        details = answer["usage"].get("prompt_tokens_details") or {}
        seconds = time.monotonic() - begin
        return answer["choices"][0]["text"], details.get("cached_tokens", 0), seconds

    def metric(self, server, name):
        with Client(server.port) as client:
            text = client.send(request("GET", "/metrics")).answer()[2].decode()
        return float(re.search(rf"^kv8:{name}\{{[^}}]*\}} (\S+)$", text, re.M)[1])

    def cold(self):
        """Answers to all second turns from a server that never saw the first."""
        server = self.start("--prefix-cache-memory", 0)
        answers = [self.ask(server, turn + " Go on.")[0] for turn in TURNS]
        server.stop()
        return answers

    def test_Kvtier6_ARestartedServerGoesOnWithItsConversations(self):
        cold = self.cold()
        first = self.with_disk()
        for turn in TURNS:
            self.ask(first, turn)
        self.assertEqual(first.stop(), 0)
        self.assertTrue(list(self.folder.glob("*.kv8unit")))
        second = self.with_disk()
        for turn, expected in zip(TURNS, cold):
            text, cached, _ = self.ask(second, turn + " Go on.")
            self.assertEqual(text, expected)
            self.assertGreater(cached, 64)
        self.assertGreater(self.metric(second, "kv_disk_read_units_total"), 0)
        other = self.with_disk(drafts=0)  # another cache: nothing of it fits
        self.assertEqual(self.ask(other, TURNS[0] + " Go on.")[:2], (cold[0], 0))

    def test_Kvtier7_KilledAtAnyMomentItCostsTimeAlone(self):
        cold = self.cold()
        chance = random.Random(3)
        for _ in range(4):
            server = self.with_disk()
            client = Client(server.port)
            self.addCleanup(client.close)
            client.send(completion(40, prompt=chance.choice(TURNS)))
            time.sleep(chance.uniform(0.1, 1.0))
            server.process.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
            time.sleep(chance.uniform(0, 0.3))
            server.kill()
            again = self.with_disk()
            self.assertEqual(self.metric(again, "kv_disk_writer"), 1)
            at = chance.randrange(len(TURNS))
            self.assertEqual(self.ask(again, TURNS[at] + " Go on.")[0], cold[at])
            again.stop()

    def test_Kvtier7_ChangedFilesChangeNoAnswer(self):
        cold = self.cold()
        first = self.with_disk()
        self.ask(first, TURNS[0])
        first.stop()
        for path in self.folder.glob("*.kv8unit"):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        second = self.with_disk()
        self.assertEqual(self.ask(second, TURNS[0] + " Go on.")[:2], (cold[0], 0))
        self.assertGreater(self.metric(second, "kv_disk_refused_total"), 0)

    def test_Kvtier8_TwoServersShareAFolder(self):
        cold = self.cold()
        writer = self.with_disk()
        self.ask(writer, TURNS[1])
        reader = self.with_disk()
        self.assertEqual(self.metric(writer, "kv_disk_writer"), 1)
        self.assertEqual(self.metric(reader, "kv_disk_writer"), 0)
        writer.stop()  # what it held is on disk now
        text, cached, _ = self.ask(reader, TURNS[1] + " Go on.")
        self.assertEqual(text, cold[1])
        self.assertGreater(cached, 64)

    def test_Kvtier9_RefusesWhatCannotBe(self):
        file = pathlib.Path(self.folder.parent, "file")
        file.write_text("")
        for flags in (
            (*HOST, "--kv-disk", file / "kv", "--kv-disk-quota", QUOTA),
            (*HOST, "--kv-disk", self.folder, "--kv-disk-quota", DISK_FULL_OF),
            (*HOST, "--kv-disk", self.folder),
            ("--kv-disk", self.folder, "--kv-disk-quota", QUOTA),
            (*HOST, "--kv-disk-quota", QUOTA),
        ):
            with self.assertRaisesRegex(RuntimeError, "--kv-disk"):
                self.start(*flags)


if __name__ == "__main__":
    unittest.main()
