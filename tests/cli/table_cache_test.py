"""N-gram rows that are read from the files: --table-cache."""

import ctypes
import json
import struct
import unittest

from kv8_cli import MODEL, Kv8TestCase

TEXT = "In Lagos there were seven boats. In Lagos there were seven boats, and then there were none."
MODES = (0, 1, 5000, 10**7)  # mapped; nothing is kept; rows make room for others; all are kept


def forbid_io_uring():
    """As sandboxes do: io_uring_setup(2), number 425 everywhere, fails with EPERM."""
    load, jump, back = 0x20, 0x15, 0x06
    steps = ((load, 0, 0, 0), (jump, 0, 1, 425), (back, 0, 0, 0x00050001), (back, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    assert libc.prctl(22, 2, program) == 0  # a filter of system calls


class TableCacheTest(Kv8TestCase):
    def model(self, table, *flags):
        """A model with an n-gram table in this format, whose heads have 16 columns."""
        config = json.loads((MODEL / "config.json").read_text())
        config["text_config"].update(ple_embed_dim=128)
        dims, out = self.dir / f"{table}.json", self.dir / table
        dims.write_text(json.dumps(config))
        flags += ("--dims", dims, "--layers", 6, "--table-weights", table)
        self.succeed("synth", *flags, "--output-dir", out)
        return out

    def generate(self, model, *flags):
        ask = ("--prompt", TEXT, "--max-tokens", 12, "--ignore-eos", "--speculative-tokens", 2, "--json")
        return self.succeed("generate", "--model", model, *ask, *flags).json()

    def test_Cli90_every_mode_gives_the_same_bits(self):
        ids = self.ids(*range(20, 150), *range(60, 100))
        for table in ("bf16", "fp8", "nvfp4"):
            model = self.model(table)
            scores, tokens = [], []
            for cache in MODES:
                for threads in (1, 3):
                    flags = ("--table-cache", cache, "--threads", threads)
                    ask = ("--model", model, "--token-ids", ids, "--json")
                    scores.append(self.succeed("score", *ask, *flags).json()["nll"])
                tokens.append(self.generate(model, *flags)["token_ids"])
            for score in scores[1:]:
                self.assertEqual(score, scores[0], table)
            for other in tokens[1:]:
                self.assertEqual(other, tokens[0], table)

    def test_Cli91_json_tells_where_rows_came_from(self):
        seen = [self.generate(MODEL, "--table-cache", cache) for cache in MODES]
        mapped, *fetched = (run["ngram_table"] for run in seen)
        self.assertEqual(mapped, {"access": "resident", "rows": 0, "cached_rows": 0, "read_rows": 0})
        self.assertEqual(self.generate(MODEL)["ngram_table"], mapped)  # the table is small
        for cache, run, table in zip(MODES[1:], seen[1:], fetched):
            self.assertIn(table["access"], ("io_uring", "pread"))
            self.assertGreater(table["read_rows"], 0)
            self.assertLessEqual(table["read_rows"] + table["cached_rows"], table["rows"])
            self.assertLessEqual(run["memory"]["tables"], cache)
        self.assertEqual(fetched[0]["cached_rows"], 0)
        self.assertLess(fetched[2]["read_rows"], fetched[1]["read_rows"])
        gpu = ("generate", "--model", MODEL, "--prompt", "a", "--device", "cuda", "--table-cache", 5)
        self.refuse(*gpu, naming=["--table-cache", "--device cpu"])
        self.usage_error("generate", "--model", MODEL, "--prompt", "a", "--table-cache", -1)

    def test_Cli91_a_table_larger_than_memory_is_read_row_by_row(self):
        model = self.model("bf16", "--sparse", "--table-rows", 2**30)
        run = self.generate(model)
        self.assertIn(run["ngram_table"]["access"], ("io_uring", "pread"))
        self.assertEqual(run["token_ids"], self.generate(model, "--table-cache", 0)["token_ids"])

    def test_Cli91_a_kernel_without_io_uring_is_told(self):
        ask = ("--model", MODEL, "--prompt", TEXT, "--max-tokens", 4, "--table-cache", 10**6, "--json")
        done = self.succeed("generate", *ask, preexec_fn=forbid_io_uring)
        self.assertEqual(done.json()["ngram_table"]["access"], "pread")
        self.assertIn("refuses io_uring", done.err)
        self.assertIn("pread", done.err)
        self.assertEqual(done.json()["token_ids"], self.succeed("generate", *ask).json()["token_ids"])

    def test_Cli81_plan_knows_the_rows_that_are_kept(self):
        shape = ("--model", MODEL, "--table-cache", 10**6, "--max-model-len", 200)
        planned = self.succeed("plan", *shape, "--kv-cache-dtype", "fp16", "--json").json()
        took = self.succeed("generate", *shape, "--prompt", "a", "--max-tokens", 1, "--json").json()["memory"]
        stage = planned["caches"][0]["stages"][0]
        self.assertEqual(stage["memory"]["tables"], took["tables"])
        self.assertEqual(stage["memory"]["activations"], took["activations"])
        self.assertGreater(took["tables"], 900_000)
        text = self.succeed("plan", *shape, "--kv-cache-dtype", "fp16").out
        self.assertRegex(text, r"n-gram rows that are kept +[\d,]+\n")
        small = self.succeed("plan", "--model", MODEL, "--table-memory", "disk", "--json").json()["caches"][0]["stages"][0]
        self.assertLess(small["memory"]["tables"], small["ngram_table"]["bytes"] // 4)


if __name__ == "__main__":
    unittest.main()
