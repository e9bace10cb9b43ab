"""kv8 synth."""

import json
import os
import unittest

from kv8_cli import MODEL, Kv8TestCase
from outputs_test import tree


class SynthTest(Kv8TestCase):
    def test_Cli70_a_checkpoint_as_it_was_gives_the_same_tokens(self):
        self.succeed("synth", "--from", MODEL, "--output-dir", self.dir / "out")
        ask = ("--prompt", "In Lagos there were", "--max-tokens", 24, "--speculative-tokens", 2, "--json")
        answers = [self.succeed("generate", "--model", m, *ask).json() for m in (MODEL, self.dir / "out")]
        self.assertEqual(*(answer["token_ids"] for answer in answers))
        self.assertEqual(answers[0]["speculative"]["accepted"], answers[1]["speculative"]["accepted"])

    def test_Cli70_random_weights_run_and_spread(self):
        out = self.dir / "out"
        for weights in ("bf16", "fp16"):
            self.succeed("synth", "--layers", 4, "--weights", weights, "--output-dir", out / weights)
            self.succeed("inspect", out / weights, "--check-finite")
            ask = ("--prompt", "In Lagos there were", "--max-tokens", 16, "--ignore-eos", "--json")
            ids = self.succeed("generate", "--model", out / weights, *ask).json()["token_ids"]
            self.assertGreater(len(set(ids)), 4)

    def test_Cli71_the_same_flags_give_the_same_bytes(self):
        def made(name, seed, *flags):
            flags = ("--layers", 3, "--weights", "fp8", "--seed", seed, *flags)
            self.succeed("synth", *flags, "--output-dir", self.dir / name)
            return tree(self.dir / name)

        first = made("a", 5, "--threads", 1)
        self.assertEqual(made("b", 5, "--threads", 5), first)
        self.assertNotEqual(made("c", 6), first)

    def test_Cli72_holes_take_no_place(self):
        flags = ("--layers", 2, "--sparse", "--table-rows", 10**8, "--weights", "nvfp4", "--json")
        done = self.succeed("synth", *flags, "--output-dir", self.dir / "out").json()
        files = [path.stat() for path in (self.dir / "out").glob("*.safetensors")]
        self.assertGreater(done["hole_bytes"], 2 * 10**9)
        self.assertGreater(sum(f.st_size for f in files), done["bytes"])
        self.assertLess(sum(f.st_blocks * 512 for f in files), done["bytes"] - done["hole_bytes"] + 10**6)

    def test_Cli73_json_tells_bytes_and_bits_of_each_part(self):
        flags = ("--layers", 4, "--weights", "nvfp4", "--shard-size", 10**6, "--json")
        done = self.succeed("synth", *flags, "--output-dir", self.dir / "out").json()
        index = json.loads((self.dir / "out" / "model.safetensors.index.json").read_text())
        self.assertEqual(done["tensors"], len(index["weight_map"]))
        self.assertEqual(done["files"], len(set(index["weight_map"].values())))
        self.assertEqual(done["bytes"], index["metadata"]["total_size"])
        self.assertEqual(done["bytes"], sum(m["bytes"] for m in done["modules"].values()))
        self.assertAlmostEqual(done["modules"]["routed experts"]["bits_per_weight"], 4.5, places=1)

    def test_Cli74_what_cannot_be_written_is_refused_before_a_byte_is(self):
        out = self.dir / "out"
        cases = {
            ("--weights", "int4-g128"): ["--weights", "192 columns", "128"],
            ("--table-weights", "nvfp4"): ["--table-weights", "24 columns"],
            ("--weights", "int4-g32", "--draft-weights", "fp8"): ["--draft-weights"],
            ("--table-rows", 4): ["--table-rows", "8 heads"],
            ("--from", MODEL, "--layers", 13): ["--layers", "12 layers"],
            ("--from", self.dir / "no"): ["no such directory"],
            ("--dims", self.dir / "no.json"): ["no.json"],
            ("--dims", MODEL / "tokenizer_config.json"): ["tokenizer_config.json"],
            ("--dims", "released", "--layers", 1024): ["bytes", "free"],
            ("--shard-size", 1, "--dims", "released", "--weights", "fp8", "--layers", 200): ["--shard-size", "99999"],
        }
        for flags, naming in cases.items():
            with self.subTest(flags):
                self.refuse("synth", *flags, "--output-dir", out, naming=naming)
                self.assertEqual(os.listdir(self.dir), [])
        self.usage_error("synth", "--output-dir", out, "--from", MODEL, "--sparse")
        self.usage_error("synth", "--output-dir", out, "--from", MODEL, "--dims", "tiny")
        self.usage_error("synth", "--output-dir", out, "--weights", "int3")

    def test_Cli54_no_checkpoint_gets_another_into_it(self):
        made = self.dir / "made"
        self.succeed("synth", "--layers", 1, "--output-dir", made)
        before = tree(self.dir)
        for flags in ((), ("--from", MODEL), ("--from", made)):
            self.refuse("synth", *flags, "--output-dir", made / "a" / "b", naming=["lies inside", str(made)])
        self.assertEqual(tree(self.dir), before)


if __name__ == "__main__":
    unittest.main()
