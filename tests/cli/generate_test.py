"""kv8 generate and kv8 score."""

import json
import math
import os
import signal
import subprocess
import unittest

from kv8_cli import BINARY, MODEL, REPO, Kv8TestCase, link_model, peak_memory, start

PROMPT = "The table shows 644 crates, 45 of which came from"
GENERATE = ("generate", "--model", MODEL)
SCORE = ("score", "--model", MODEL)


def needle():
    """The shortest needle prompt of the evaluation corpus."""
    with open(REPO / "examples" / "corpus" / "evaluation.jsonl", encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    return min((e for e in entries if e["category"] == "needle"), key=lambda e: len(e["text"]))


class GenerateTest(Kv8TestCase):
    def generate(self, *flags):
        return self.succeed(*GENERATE, "--json", *flags).json()

    def test_Cli10_json_of_generate(self):
        out = self.generate("--prompt", PROMPT, "--max-tokens", 12, "--ignore-eos")
        keys = "prompt_token_ids token_ids text finish_reason usage timings speculative kv_cache ngram_table memory"
        self.assertEqual(set(out), set(keys.split()))
        self.assertEqual(out["finish_reason"], "length")
        self.assertEqual(len(out["token_ids"]), 12)
        usage = out["usage"]
        self.assertEqual(usage["prompt_tokens"], len(out["prompt_token_ids"]))
        self.assertEqual(usage["completion_tokens"], 12)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 12)
        self.assertEqual(out["kv_cache"]["dtype"], "fp16")
        self.assertEqual(out["speculative"]["drafted"], 0)
        self.assertGreater(out["timings"]["decode_tokens_per_second"], 0)

    def test_memory_is_the_weights_once_and_a_cache_as_long_as_the_request(self):
        weights = sum(f.stat().st_size for f in MODEL.glob("*.safetensors"))
        peak, planned = {}, {}
        for tokens in (3 << 10, 12 << 10):
            ids = self.ids(*(100 + i * 31 % 5000 for i in range(tokens)))
            flags = ("--token-ids", ids, "--max-tokens", 2, "--ignore-eos")
            cache = self.generate(*flags)["kv_cache"]
            planned[tokens] = cache["bytes"] + cache["index_bytes"]
            peak[tokens] = peak_memory(*GENERATE, "--json", *flags)
        # 2 MiB: the ids as text and numbers. A byte for each pair of tokens would be 144.
        grown = peak[12 << 10] - peak[3 << 10]
        self.assertLess(abs(grown - (planned[12 << 10] - planned[3 << 10])), 2 << 20)
        # Activations, tokenizer and libraries take 37 MiB; the weights a second time another 35.
        self.assertLess(peak[12 << 10] - planned[12 << 10], weights + (50 << 20))

    def test_Cli11_prompt_comes_from_exactly_one_place(self):
        ids = self.generate("--prompt", PROMPT, "--max-tokens", 1)["prompt_token_ids"]
        by_file = self.generate("--prompt-file", self.file("p.txt", PROMPT), "--max-tokens", 1)
        by_ids = self.generate("--token-ids", self.ids(*ids), "--max-tokens", 1)
        self.assertEqual(by_file["prompt_token_ids"], ids)
        self.assertEqual(by_ids["prompt_token_ids"], ids)
        self.assertEqual(by_file["token_ids"], by_ids["token_ids"])
        self.usage_error(*GENERATE, "--prompt", PROMPT, "--token-ids", self.ids(1))
        self.usage_error(*GENERATE)

    def test_Cli11_prompt_text_is_used_as_it_is(self):
        for text in ("--help", "-5", " leading", "a\n\nb\n", "[1, 2]", "%d {}", "x=y", "'q'", '"q"'):
            with self.subTest(text):
                got = self.generate("--prompt", text, "--max-tokens", 1)["prompt_token_ids"]
                want = self.succeed("tokenize", MODEL, "--file", self.file("t", text), "--json")
                self.assertEqual(got, want.json()["token_ids"])

    def test_Cli12_bad_token_ids_are_refused(self):
        vocab = json.loads((MODEL / "config.json").read_text())["text_config"]["vocab_size"]
        for content, naming in (
            ("", ["ids.json", "JSON"]),
            ("[1, 2", ["ids.json", "JSON"]),
            ("{}", ["ids.json", "array"]),
            ("[]", []),
            ('["1"]', ["ids.json", "entry 0"]),
            ("[1, 2.5]", ["ids.json", "entry 1"]),
            ("[1, -1]", ["ids.json", "entry 1", "-1"]),
            ("[true]", ["ids.json", "entry 0", "true"]),
            ("[4294967296]", ["ids.json", "4294967296"]),
            (f"[{vocab}]", [str(vocab)]),
        ):
            for command in (GENERATE, SCORE):
                with self.subTest(content=content, command=command[0]):
                    path = self.file("ids.json", content)
                    self.refuse(*command, "--token-ids", path, "--json", naming=naming)

    def test_Cli12_bad_text_is_refused(self):
        empty, latin = self.file("empty", ""), self.file("latin", b"caf\xe9")
        self.refuse(*GENERATE, "--prompt-file", latin, naming=[str(latin), "UTF-8"])
        self.refuse(*GENERATE, "--prompt", "caf\udce9", naming=["--prompt", "UTF-8"])
        self.refuse(*GENERATE, "--prompt-file", empty)
        self.refuse(*GENERATE, "--prompt", "")

    def test_Cli13_a_request_longer_than_the_context_is_refused(self):
        config = json.loads((MODEL / "config.json").read_text())["text_config"]
        limit = config["max_position_embeddings"]
        path = self.ids(*[1] * (limit + 1))
        self.refuse(*GENERATE, "--token-ids", path, naming=[str(limit)])
        self.refuse(*SCORE, "--token-ids", path, naming=[str(limit)])
        short = (*GENERATE, "--prompt", PROMPT, "--max-tokens")
        self.refuse(*short, limit, naming=[str(limit)])
        self.refuse(*short, 100, "--max-model-len", 64, naming=["64"])
        self.refuse(*short, 100, "--kv-memory", 1000, naming=["--kv-memory", "1000"])

    def test_Cli14_greedy_runs_repeat(self):
        first = self.generate("--prompt", PROMPT, "--max-tokens", 24, "--threads", 1)
        again = self.generate("--prompt", PROMPT, "--max-tokens", 24, "--threads", 2)
        self.assertEqual(first["token_ids"], again["token_ids"])

    def test_Cli14_sampled_runs_repeat_with_their_seed(self):
        flags = ("--prompt", PROMPT, "--max-tokens", 24, "--ignore-eos", "--temperature", 1.5)
        first = self.generate(*flags, "--seed", 1)
        self.assertEqual(self.generate(*flags, "--seed", 1)["token_ids"], first["token_ids"])
        others = [self.generate(*flags, "--seed", seed)["token_ids"] for seed in (2, 3)]
        self.assertNotEqual(others, [first["token_ids"]] * 2)
        # One candidate leaves nothing to chance.
        greedy = self.generate("--prompt", PROMPT, "--max-tokens", 24, "--ignore-eos")
        self.assertEqual(self.generate(*flags, "--top-k", 1)["token_ids"], greedy["token_ids"])

    def test_Cli93_passes_of_any_size_give_the_same_tokens(self):
        flags = ("--prompt", "The barrel is in the harbour. " * 60, "--max-tokens", 8)
        first = self.generate(*flags)
        for size in (64, 4096):
            tokens = self.generate(*flags, "--max-num-batched-tokens", size)["token_ids"]
            self.assertEqual(tokens, first["token_ids"])
        size = "--max-num-batched-tokens"
        self.refuse(*GENERATE, *flags, size, 100, naming=[size, "100"])
        for outside in (32, 32832):
            self.usage_error(*GENERATE, *flags, size, outside)

    def test_Cli15_stops_at_the_stop_ids_unless_told_otherwise(self):
        model = link_model(self.dir / "model")
        free = self.generate("--prompt", PROMPT, "--max-tokens", 8, "--ignore-eos")["token_ids"]
        config = json.loads((MODEL / "generation_config.json").read_text())
        config["eos_token_id"] = [free[4]]
        (model / "generation_config.json").unlink()
        (model / "generation_config.json").write_text(json.dumps(config))
        flags = ("--model", model, "--prompt", PROMPT, "--max-tokens", 8, "--json")
        stopped = self.succeed("generate", *flags).json()
        self.assertEqual(stopped["finish_reason"], "stop")
        self.assertEqual(stopped["token_ids"], free[: free.index(free[4]) + 1])
        went_on = self.succeed("generate", *flags, "--ignore-eos").json()
        self.assertEqual(went_on["token_ids"], free)
        self.assertEqual(went_on["finish_reason"], "length")

    def test_Cli25_of_generation_config_only_the_stop_ids_count(self):
        model = link_model(self.dir / "model")
        config = json.loads((MODEL / "generation_config.json").read_text())
        config |= {"temperature": 5.0, "repetition_penalty": 9.0, "max_new_tokens": 2}
        (model / "generation_config.json").unlink()
        (model / "generation_config.json").write_text(json.dumps(config))
        flags = ("--prompt", PROMPT, "--max-tokens", 16, "--json")
        changed = self.succeed("generate", "--model", model, *flags).json()["token_ids"]
        self.assertEqual(changed, self.succeed(*GENERATE, *flags).json()["token_ids"])

    def test_Cli16_device_and_backend_are_never_replaced_silently(self):
        self.refuse(*GENERATE, "--prompt", "a", "--device", "cuda", naming=["use the CPU"])
        self.usage_error(*GENERATE, "--prompt", "a", "--backend", "fast")
        naming = ["'native'", "simd", "reference"]
        self.refuse(*GENERATE, "--prompt", "a", "--backend", "native", naming=naming)
        naming = ["--device-memory", "--device cuda"]
        self.refuse(*GENERATE, "--prompt", "a", "--device-memory", 1 << 30, naming=naming)

    def test_Cli17_fp8_is_another_name_of_fp8_e4m3(self):
        for name in ("fp8", "fp8_e4m3"):
            self.refuse(*GENERATE, "--prompt", "a", "--kv-cache-dtype", name, naming=["k_scale"])

    def test_Cli18_text_streams_in_whole_characters(self):
        # Sampled at a high temperature, so that characters are spread over several tokens.
        flags = ("--prompt", "王小明在北京的", "--max-tokens", 64, "--ignore-eos", "--temperature", 3)
        read_end, write_end = os.pipe()
        command = [BINARY, *map(str, (*GENERATE, *flags))]
        process = subprocess.Popen(command, stdout=write_end, stderr=subprocess.DEVNULL)
        os.close(write_end)
        text = ""
        while part := os.read(read_end, 1 << 16):
            text += part.decode("utf-8")  # fails on half a character
        os.close(read_end)
        self.assertEqual(process.wait(), 0)
        want = self.generate(*flags)["text"]
        self.assertEqual(text, want if want.endswith("\n") else want + "\n")

    def test_Cli18_text_comes_before_the_end(self):
        process = start(*GENERATE, "--prompt", PROMPT, "--ignore-eos", bufsize=0)
        self.assertNotEqual(process.stdout.read(1), b"")
        self.assertIsNone(process.poll())  # thousands of tokens are to come
        process.kill()
        process.communicate()

    def test_Cli19_a_signal_stops_the_run_and_keeps_what_came(self):
        flags = ("--prompt", PROMPT, "--ignore-eos")
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = start(*GENERATE, *flags, bufsize=0)
                first = process.stdout.read(1)
                process.send_signal(number)
                rest, err = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 1, err)
                self.assertIn(b"cancelled", err)
                self.assertIn(b"stopped by a signal", err)
                self.assertTrue((first + rest).decode().endswith("\n"))

    def test_needle_is_found(self):
        entry = needle()
        path = self.file("needle.txt", entry["text"])
        self.assertIn(entry["answer"], self.generate("--prompt-file", path, "--max-tokens", 8)["text"])


class ScoreTest(Kv8TestCase):
    def test_Cli20_json_of_score(self):
        out = self.succeed(*SCORE, "--prompt", PROMPT, "--json").json()
        tokens = out["usage"]["prompt_tokens"]
        self.assertEqual(len(out["nll"]), tokens - 1)
        self.assertEqual(len(out["argmax"]), tokens)
        self.assertNotIn("top_logprobs", out)
        self.assertAlmostEqual(out["mean_nll"], sum(out["nll"]) / (tokens - 1), places=5)
        self.assertTrue(all(math.isfinite(value) and value >= 0 for value in out["nll"]))

    def test_Cli20_score_of_one_token_has_no_nll(self):
        out = self.succeed(*SCORE, "--token-ids", self.ids(7), "--json").json()
        self.assertEqual(out["nll"], [])
        self.assertEqual(len(out["argmax"]), 1)
        self.assertIsNone(out["mean_nll"])

    def test_Cli21_top_logprobs(self):
        ids = self.succeed("tokenize", MODEL, "--text", PROMPT, "--json").json()["token_ids"]
        out = self.succeed(*SCORE, "--prompt", PROMPT, "--top-logprobs", 5, "--json").json()
        self.assertEqual(len(out["top_logprobs"]), len(ids))
        for position, best in zip(out["top_logprobs"], out["argmax"]):
            self.assertEqual(len(position), 5)
            self.assertEqual(position[0]["token_id"], best)
            logprobs = [entry["logprob"] for entry in position]
            self.assertEqual(logprobs, sorted(logprobs, reverse=True))
        for i, token in enumerate(ids[1:]):
            for entry in out["top_logprobs"][i]:
                if entry["token_id"] == token:
                    self.assertAlmostEqual(entry["logprob"], -out["nll"][i], places=4)

    def test_score_and_generate_agree_on_the_next_token(self):
        scored = self.succeed(*SCORE, "--prompt", PROMPT, "--json").json()["argmax"][-1]
        flags = ("--prompt", PROMPT, "--max-tokens", 1, "--ignore-eos", "--json")
        self.assertEqual(self.succeed(*GENERATE, *flags).json()["token_ids"], [scored])


if __name__ == "__main__":
    unittest.main()
