"""kv8 plan."""

import json
import re
import time
import unittest

from kv8_cli import MODEL, REPO, Kv8TestCase, run

RELEASED = re.search(
    r'R"\((.*?)\)"', (REPO / "tests" / "support" / "released_config.h").read_text(), re.S
).group(1)
NVFP4 = ("--weights", "nvfp4", "--table-weights", "fp8")
V100S = ("--devices", "4xv100-32g", "--speculative-tokens", 3, "--max-num-seqs", 4)


class PlanTest(Kv8TestCase):
    def config(self, **changes):
        return self.file("config.json", json.dumps({**json.loads(RELEASED), **changes}))

    def few_experts(self):
        """Released dimensions with fewer experts and a small vocabulary, which change sizes alone."""
        return self.config(num_experts=16, vocab_size=4096, eos_token_id=0)

    def plan(self, *arguments):
        return self.succeed("plan", *arguments, "--json").json()

    def released(self, *arguments):
        return self.plan("--config", self.config(), *NVFP4, *arguments)

    def test_Cli80_json_of_a_plan_without_weights(self):
        out = self.released(*V100S)
        self.assertEqual([c["kv_cache_dtype"] for c in out["caches"]], ["fp16", "fp8_e4m3"])
        for cache in out["caches"]:
            self.assertTrue(cache["fits"])
            self.assertEqual(cache["tokens"], 64 * cache["pages"])
            for stage in cache["stages"]:
                self.assertLessEqual(stage["on_device"], stage["budget"])
                owners = {k: v for k, v in stage["memory"].items() if k not in ("pages", "total")}
                self.assertEqual(sum(owners.values()), stage["memory"]["total"])
        formats = {row["format"] for row in out["stages"][0]["weights"] if row["module"] == "experts"}
        self.assertEqual(formats, {"NVFP4"})

    def test_Cli81_the_engine_takes_what_the_plan_says(self):
        for flags in ((), ("--speculative-tokens", 2), ("--kv-memory", 20_000_000)):
            flags = (*flags, "--kv-cache-dtype", "fp16", "--max-model-len", 4096, "--threads", 2)
            planned = self.plan("--model", MODEL, *flags)["caches"][0]
            ids = self.ids(*range(20, 30))
            taken = self.succeed(
                "generate", "--model", MODEL, "--token-ids", ids, "--max-tokens", 1, *flags, "--json"
            ).json()
            self.assertEqual(planned["stages"][0]["memory"], taken["memory"])
            self.assertEqual(planned["pages"], taken["kv_cache"]["pages"])

    def test_Cli81_at_released_dimensions(self):
        made = {weights: self.dir / weights for weights in ("int4-g32", "nvfp4")}
        for weights, out in made.items():
            flags = ("--dims", self.few_experts(), "--layers", 4, "--table-rows", 10_000)
            self.succeed("synth", *flags, "--weights", weights, "--output-dir", out)
        flags = ("--kv-cache-dtype", "fp16", "--max-model-len", 2048, "--speculative-tokens", 2)
        flags += ("--table-cache", 1_000_000)
        for model in (
            ("--model", made["int4-g32"]),
            ("--model", made["int4-g32"], "--overlay", made["nvfp4"]),
        ):
            planned = self.plan(*model, *flags)
            ask = ("--token-ids", self.ids(*range(20, 30)), "--max-tokens", 2, "--json")
            taken = self.succeed("generate", *model, *flags, *ask).json()
            self.assertEqual(planned["caches"][0]["stages"][0]["memory"], taken["memory"])
            rows = planned["stages"][0]["weights"]
            experts = {row["format"] for row in rows if row["module"] == "experts" and not row["draft"]}
            self.assertEqual(experts, {"NVFP4" if "--overlay" in model else "INT4"})

    def test_Cli82_e4m3_holds_188_percent_of_fp16(self):
        fp16, e4m3 = self.released(*V100S)["caches"]
        self.assertGreaterEqual(e4m3["tokens"], 1.88 * fp16["tokens"])

    def test_Cli82_published_figures_of_vllm(self):
        mtp3 = (*V100S, "--prefix-cache-memory", "1GiB", "--max-model-len", 262144)
        mtp0 = ("--devices", "4xv100-32g", "--max-model-len", 131328)
        for flags, pool, dtype, ids, tokens in (
            (mtp3, 6553497600, "fp8_e4m3", 547, 775096),
            (mtp3, 6528870400, "fp16", 577, 433401),
            (mtp0, 6838788096, "fp8_e4m3", 631, 931100),
            (mtp0, 6837583872, "fp16", 668, 507093),
        ):
            vllm = ("--layout", "vllm", "--vllm-pool", pool, "--kv-cache-dtype", dtype)
            (row,) = self.released(*flags, *vllm)["vllm"]
            self.assertEqual((row["block_ids"], row["tokens"]), (ids, tokens))
            if dtype == "fp8_e4m3":
                self.assertGreater(row["kv8_tokens"], tokens)

    def test_Cli83_what_does_not_fit_is_refused_with_its_largest_owner(self):
        naming = ["--devices", "experts", "bytes", "try:"]
        self.refuse("plan", "--config", self.config(), "--devices", "24G", naming=naming)
        naming = ["--memory", "try: "]
        done = self.refuse("plan", "--model", MODEL, "--memory", "60MB", "--json", naming=naming)
        length = re.search(r"--max-model-len (\d+)", done.err).group(1)
        extra = ("--table-memory", "disk") if "--table-memory disk" in done.err else ()
        self.plan("--model", MODEL, "--memory", "60MB", "--max-model-len", length, *extra)

    def test_Cli84_flags_that_contradict_each_other(self):
        config = ("--config", self.config())
        for flags, named in (
            (("--model", MODEL, *config), "--config"),
            ((), "--model"),
            (("--model", MODEL, "--weights", "nvfp4"), "--weights"),
            ((*config, "--devices", "4x24G", "--tensor-parallel-size", 2), "--devices"),
            ((*config, "--tensor-parallel-size", 2), "--tensor-parallel-size"),
            ((*config, "--vllm-pool", "1G"), "--vllm-pool"),
            ((*config, "--overlay", self.dir), "--overlay"),
            ((*config, "--measure", "--rates", "read=1G"), "--measure"),
            ((*config, "--measure", "--devices", "h200"), "--measure"),
        ):
            done = self.usage_error("plan", *flags)
            self.assertIn(named, done.err)
            self.assertIn("try:", done.err)

    def test_Cli84_wrong_units_and_names(self):
        config = ("--config", self.config())
        for flag, value, named in (
            ("--memory", "24Gb", "24GiB"),
            ("--memory", "24 G", "24GiB"),
            ("--memory", "-1", "24GiB"),
            ("--devices", "4x24Q", "v100-32g"),
            ("--devices", "this,h200", "this"),
            ("--weights", "q4_0", "nvfp4"),
            ("--table-weights", "int4", "fp8"),
            ("--rates", "read=fast", "900G"),
            ("--layout", "sglang", "vllm"),
            ("--table-memory", "cloud", "host"),
        ):
            done = self.usage_error("plan", *config, flag, value)
            self.assertIn(flag, done.err)
            self.assertIn(named, done.err)

    def test_Cli84_a_model_that_cannot_be_planned_is_named(self):
        other = self.config(model_type="llama")
        self.refuse("plan", "--config", other, naming=["model_type", "llama"])
        self.refuse("plan", "--config", self.dir / "none.json", naming=["none.json"])
        self.refuse("plan", "--config", self.dir, naming=[str(self.dir)])
        small = self.config(mtp_num_hidden_layers=0)
        self.refuse(
            "plan", "--config", small, "--speculative-tokens", 2, naming=["--speculative-tokens"]
        )
        odd = ("plan", "--config", self.config(), "--devices", "7xh200")
        self.refuse(*odd, naming=["num_attention_heads", "24", "7"])
        long = ("plan", "--config", self.config(), "--max-model-len", 10**6)
        self.refuse(*long, naming=["max_position_embeddings"])

    def test_Cli85_what_this_kv8_does_not_run_yet_is_said(self):
        out = self.released("--devices", "2xh200")
        self.assertTrue(any("several devices" in reason for reason in out["not_run_yet"]))
        self.assertTrue(any("NVFP4" in reason for reason in out["not_run_yet"]))
        self.assertEqual(self.plan("--model", MODEL)["not_run_yet"], [])

    def test_Cli86_speed_from_given_rates(self):
        one, two = (
            self.plan("--model", MODEL, "--rates", f"read={rate}G,matrix=100G")["speed"]
            for rate in (10, 20)
        )
        for slow, fast in zip(one["estimates"], two["estimates"]):
            parts = sum(slow["seconds_by_part"].values())
            self.assertGreaterEqual(fast["tokens_per_second"], slow["tokens_per_second"])
            if slow["work"] == "decode":
                rate = slow["sequences"] / parts
                self.assertAlmostEqual(slow["tokens_per_second"] / rate, 1, places=3)
        self.assertIsNone(self.plan("--model", MODEL)["speed"])

    def test_Cli86_speed_from_measured_rates(self):
        begin = time.monotonic()
        speed = self.plan("--model", MODEL, "--measure")["speed"]
        self.assertLess(time.monotonic() - begin, 10)
        for rate in ("read", "copy", "matrix"):
            self.assertGreater(speed["rates"][rate], 0)

    def test_a_table_for_people(self):
        text = run("plan", "--config", self.config(), *NVFP4, *V100S).out
        for owner in ("experts", "K/V", "index keys", "recurrent states", "code and graphs"):
            self.assertIn(owner, text)
        self.assertIn("tokens in the cache", text)


if __name__ == "__main__":
    unittest.main()
