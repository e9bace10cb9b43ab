"""kv8 bench, on small cells."""

import json
import re
import unittest

from kv8_cli import MODEL, REPO, Kv8TestCase, calibrated

SMALL = ("--concurrency", "2", "--output-tokens", "4", "--threads", 2, "--quiet")


class BenchTest(Kv8TestCase):
    def bench(self, *flags, contexts="96"):
        run = ("bench", "--model", MODEL, "--contexts", contexts, *SMALL, *flags, "--json")
        return self.succeed(*run).json()

    def pair(self, *flags):
        return self.bench("--b", "fp8_e4m3", "--scale-pack", calibrated().pack, *flags)

    def test_Bench2_a_and_b_in_turn_with_every_value(self):
        out = self.pair("--repeats", 4)
        (cell,) = out["cells"]
        for arm in "ab":
            for figure in ("prefill_tokens_per_second", "decode_tokens_per_second"):
                spread = cell[arm][figure]
                self.assertEqual(len(spread["values"]), 4)
                self.assertLessEqual(spread["low"], spread["median"])
                self.assertLessEqual(spread["median"], spread["high"])
        self.assertTrue(out["comparable"])
        self.assertEqual(len(cell["decode_b_over_a"]["values"]), 4)

    def test_Bench3_drafts_stand_beside_decode(self):
        (plain,) = self.bench()["cells"]
        self.assertIsNone(plain["a"]["acceptance"])
        self.assertEqual(plain["a"]["tokens_per_step"]["median"], 1)
        corpus = REPO / "examples" / "corpus" / "evaluation.jsonl"
        (cell,) = self.bench("--speculative-tokens", 2, "--corpus", corpus)["cells"]
        self.assertTrue(0 < cell["a"]["acceptance"] <= 1)
        self.assertGreater(cell["a"]["tokens_per_step"]["median"], 1)

    def test_Bench5_cells_without_room_are_skipped_with_the_reason(self):
        out = self.bench("--memory", "40MB", contexts="96,16000,300000")
        self.assertEqual([cell["context"] for cell in out["cells"]], [96])
        long, longer = out["skipped"]
        self.assertIn("bytes, 40000000 are there", long["reason"])
        self.assertIn("the checkpoint was made for", longer["reason"])

    def test_Bench6_conversations_and_structured_output(self):
        talk = ("--workload", "conversations,structured", "--conversations", 2, "--turns", 2)
        out = self.bench(*talk, "--turn-tokens", 200, "--speculative-tokens", 2)
        self.assertEqual(out["cells"], [])
        first, second = out["conversations"]
        self.assertEqual(first["reused"], 0)
        self.assertGreater(second["reused"], 0.3)
        self.assertEqual(len(second["first_token_seconds"]["values"]), 2)
        (row,) = out["structured"]
        self.assertEqual((row["complete"], row["outputs"]), (6, 6))

    def test_Bench7_the_page_and_the_file_beside_it(self):
        out = self.bench("--output-dir", self.dir / "speed")
        self.assertEqual(out, json.loads((self.dir / "speed" / "bench.json").read_text()))
        page = (self.dir / "speed" / "bench.html").read_text()
        self.assertNotIn("<script", page)
        self.assertNotRegex(page, r'(src|href)=')
        self.assertIn("sparse_attention", page)

    def test_Bench8_memory_and_routes(self):
        arm = self.bench()["arms"]["a"]
        owners = {k: v for k, v in arm["memory"].items() if k not in ("total", "pages")}
        self.assertEqual(sum(owners.values()), arm["memory"]["total"])
        self.assertTrue(all(re.match(r"simd \w+", code) for code in arm["routes"].values()))
        reference = self.bench("--backend", "reference", contexts="8")["arms"]["a"]["routes"]
        self.assertEqual(set(reference.values()), {"reference"})

    def test_wrong_flags_are_refused(self):
        for flag, value in (
            ("--contexts", "0"), ("--contexts", "1,x"), ("--concurrency", "0"), ("--repeats", "2"),
            ("--output-tokens", "1"), ("--workload", "sprint"), ("--memory", "24Gb"), ("--b", "int8"),
        ):  # fmt: skip
            done = self.usage_error("bench", "--model", MODEL, flag, value)
            self.assertIn(flag, done.err)
        self.refuse("bench", "--model", self.dir, *SMALL, naming=["tokenizer.json"])
        self.refuse("bench", "--model", MODEL, *SMALL, "--b", "fp8_e4m3", naming=["scale"])
        empty = self.file("empty.jsonl", "")
        self.refuse("bench", "--model", MODEL, *SMALL, "--corpus", empty, naming=["empty.jsonl"])


if __name__ == "__main__":
    unittest.main()
