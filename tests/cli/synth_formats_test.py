"""Every format that kv8 synth writes: it opens, verifies and generates."""

import itertools
import json
import unittest

from kv8_cli import MODEL, Kv8TestCase
from outputs_test import tree

# By flag, what inspect calls the format, and its group.
WEIGHTS = {
    "bf16": ("BF16", 0),
    "fp16": ("F16", 0),
    "fp8": ("FP8 in blocks of 128 x 128", 128),
    "nvfp4": ("ModelOpt NVFP4", 16),
    "int4-g32": ("compressed-tensors INT4", 32),
    "int4-g128": ("compressed-tensors INT4", 128),
    "int4-sym-g32": ("compressed-tensors INT4", 32),
    "int4-sym-g128": ("compressed-tensors INT4", 128),
}
TABLES = {"bf16": ("BF16", 0), "fp8": ("FP8 with one scale", 0), "nvfp4": ("ModelOpt NVFP4", 16)}
DRAFTS = ("bf16", "fp8")


class SynthFormatsTest(Kv8TestCase):
    def dimensions(self):
        """A config.json whose matrices every group divides."""
        config = json.loads((MODEL / "config.json").read_text())
        config["text_config"].update(
            hidden_size=128, moe_intermediate_size=128, num_experts=4, num_experts_per_tok=2, vocab_size=400,
            linear_key_head_dim=16, linear_value_head_dim=16, ple_embed_dim=128, ple_layer_ids=[2],
            ngram_vocab_size_base=300,
        )  # fmt: skip
        path = self.dir / "config.json"
        path.write_text(json.dumps(config))
        return path

    def check(self, weights, table, draft, *flags):
        made, again = (self.dir / f"{weights}-{table}-{draft}-{name}" for name in ("made", "again"))
        flags += ("--weights", weights, "--table-weights", table, "--draft-weights", draft)
        self.succeed("synth", *flags, "--threads", 1, "--output-dir", made)
        self.succeed("synth", *flags, "--threads", 3, "--output-dir", again)
        self.assertEqual(tree(made), tree(again))
        found = self.succeed("inspect", made, "--verify", "--check-finite", "--json").json()
        formats = {f["owner"]: (f["layout"], f["group"]) for f in found["formats"]}
        self.assertEqual(formats["routed experts"], WEIGHTS[weights])
        self.assertEqual(formats["n-gram table"], TABLES[table])
        self.assertEqual(formats["draft experts"], WEIGHTS[draft])
        self.assertEqual(found["extra_tensors"], [])
        ask = ("--token-ids", self.ids(5, 70, 300, 70, 300, 9), "--max-tokens", 4, "--ignore-eos")
        done = self.succeed("generate", "--model", made, *ask, "--speculative-tokens", 2, "--json").json()
        self.assertEqual(len(done["token_ids"]), 4)

    def test_Cli71_every_combination_opens_verifies_and_generates(self):
        flags = ("--dims", self.dimensions(), "--layers", 4, "--seed", 11)
        for weights, table, draft in itertools.product(WEIGHTS, TABLES, DRAFTS):
            if draft == "fp8" and weights not in ("fp8", "nvfp4"):
                continue  # no published configuration says that
            with self.subTest(weights=weights, table=table, draft=draft):
                self.check(weights, table, draft, *flags)


if __name__ == "__main__":
    unittest.main()
