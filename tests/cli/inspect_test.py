"""kv8 inspect and kv8 tokenize."""

import ctypes
import hashlib
import json
import os
import pathlib
import struct
import unittest

from kv8_cli import CORPUS, MODEL, QSA_LAYERS, REPO, Kv8TestCase, calibrated, link_model


class InspectTest(Kv8TestCase):
    def test_Cli22_json_of_inspect(self):
        out = self.succeed("inspect", MODEL, "--json").json()
        index = json.loads((MODEL / "model.safetensors.index.json").read_text())
        self.assertEqual(out["tensors"]["count"], len(index["weight_map"]))
        self.assertEqual(out["quantisation"], "none")
        self.assertEqual(out["config"]["layers"], 12)
        fp16, e4m3 = (out["bytes_per_token"][dtype] for dtype in ("fp16", "fp8_e4m3"))
        for owner in ("target", "draft"):
            self.assertEqual(fp16[owner], 2 * e4m3[owner])
        self.assertEqual(fp16["index_keys"], e4m3["index_keys"])

    def test_Cli22_inspect_tells_which_layers_have_scales(self):
        bare = self.succeed("inspect", MODEL, "--json").json()["kv_scales"]
        bound = self.succeed("inspect", calibrated().view, "--json").json()["kv_scales"]
        for scales in (bare, bound):
            self.assertEqual([s["layer"] for s in scales if not s["draft"]], list(QSA_LAYERS))
            self.assertEqual(sum(s["draft"] for s in scales), 1)
        self.assertTrue(all(s["k"] is None and s["v"] is None for s in bare))
        self.assertTrue(all(s["k"] > 0 and s["v"] > 0 for s in bound))

    def test_Cli22_inspect_shows_formats_and_overlays(self):
        out = self.succeed("inspect", MODEL, "--overlay", MODEL, "--verify", "--json").json()
        formats = {f["owner"]: f for f in out["formats"]}
        self.assertEqual(formats["routed experts"]["layout"], "BF16")
        self.assertEqual(formats["routed experts"]["bits_per_weight"], 16)
        self.assertEqual(formats["routed experts"]["weights"], 12 * 16 * 3 * 192 * 64)
        self.assertEqual(out["disagreements"], [])
        self.assertEqual(out["extra_tensors"], [])
        self.assertEqual(out["overlays"], [str(MODEL)])
        self.assertEqual(len(out["files"]), 10)
        for entry in out["files"]:
            content = pathlib.Path(entry["file"]).read_bytes()
            self.assertEqual(entry["sha256"], hashlib.sha256(content).hexdigest())

    def test_overlays_are_taken_by_every_command_that_opens_a_model(self):
        overlay = self.dir / "draft"
        overlay.mkdir()
        shard = "model-00005-of-00005.safetensors"
        (overlay / shard).symlink_to(MODEL / shard)
        model = ("--model", MODEL, "--overlay", overlay)
        report, pack = self.dir / "report.json", self.dir / "pack"
        self.succeed("calibrate", *model, "--corpus", CORPUS, "--max-tokens", 500, "--output", report)
        self.succeed("pack", *model, "--report", report, "--output-dir", pack)
        run = ("--token-ids", self.ids(1, 2, 3), "--kv-cache-dtype", "fp8_e4m3", "--scale-pack", pack)
        self.succeed("score", *model, *run)
        self.succeed("generate", *model, *run, "--max-tokens", 2)
        # The pack is for all parts.
        self.refuse("generate", "--model", MODEL, *run, "--max-tokens", 2,
                    naming=["for another checkpoint", "SHA-256 of model.safetensors.index.json"])

    def test_inspect_verify_compares_with_the_sums_beside_the_files(self):
        model = link_model(self.dir / "sums")
        (model / "SHA256SUMS").write_text("0" * 64 + "  model-00002-of-00005.safetensors\n")
        naming = ["model-00002-of-00005.safetensors: has SHA-256"]
        self.refuse("inspect", model, "--verify", naming=naming)

    def test_inspect_names_what_is_not_used(self):
        model = link_model(self.dir / "extra")
        index = json.loads((MODEL / "model.safetensors.index.json").read_text())
        config = json.loads((MODEL / "config.json").read_text())
        config["text_config"]["mtp_num_hidden_layers"] = 0
        config["text_config"].pop("mtp", None)
        (model / "config.json").unlink()
        (model / "config.json").write_text(json.dumps(config))
        extra = self.succeed("inspect", model, "--json").json()["extra_tensors"]
        draft = [name for name in index["weight_map"] if name.startswith("mtp.")]
        self.assertEqual(sorted(extra), sorted(draft))

    def test_inspect_predicts_what_the_cache_takes(self):
        told = self.succeed("inspect", MODEL, "--json").json()["bytes_per_token"]
        for dtype in ("fp16", "fp32"):
            flags = ("--token-ids", self.ids(1), "--max-tokens", 1, "--kv-cache-dtype", dtype)
            cache = self.succeed("generate", "--model", MODEL, *flags, "--json").json()["kv_cache"]
            self.assertEqual(cache["bytes_per_token"], told[dtype]["target"])


class TokenizeTest(Kv8TestCase):
    def test_Cli23_json_of_tokenize(self):
        cases = json.loads((REPO / "tests" / "golden" / "tokenizer_cases.json").read_text())
        for case in cases[:20]:
            with self.subTest(case["text"]):
                path = self.file("text", case["text"])
                out = self.succeed("tokenize", MODEL, "--file", path, "--json").json()
                self.assertEqual(set(out), {"token_ids", "tokens"})
                self.assertEqual(out["token_ids"], case["ids"])
                self.assertEqual(len(out["tokens"]), len(out["token_ids"]))

    def test_Cli23_text_and_file_are_alike(self):
        text = "The table shows 644 crates."
        by_text = self.succeed("tokenize", MODEL, "--text", text, "--json").json()
        path = self.file("text", text)
        self.assertEqual(self.succeed("tokenize", MODEL, "--file", path, "--json").json(), by_text)

    def test_Cli23_batch_gives_one_result_per_line(self):
        text = "The table shows 644 crates."
        one = self.succeed("tokenize", MODEL, "--text", text, "--json").json()
        lines = ({"text": text}, {"token_ids": one["token_ids"]})
        path = self.file("batch.jsonl", "\n".join(map(json.dumps, lines)))
        out = self.succeed("tokenize", MODEL, "--batch", path, "--json").json()
        self.assertEqual(out, {"results": [one, {"text": text}]})

    def test_Cli23_batch_names_the_line_it_refuses(self):
        path = self.file("batch.jsonl", '{"text": "a"}\n{"token_ids": [1, 2.5]}\n')
        self.refuse("tokenize", MODEL, "--batch", path, "--json", naming=["batch.jsonl: line 2: "])

    def test_Cli24_text_is_a_users_message(self):
        want = "<|im_start|>user\nHi {{ x }}<|im_end|>\n<|im_start|>assistant\n"
        out = self.succeed("tokenize", MODEL, "--chat", "--text", "Hi {{ x }}", "--json").json()
        self.assertEqual(out["text"], want)
        plain = self.succeed("tokenize", MODEL, "--text", want, "--json").json()
        self.assertEqual(out, {**plain, "text": want})
        flags = ("--prompt", "Hi {{ x }}", "--chat", "--max-tokens", 1, "--json")
        generated = self.succeed("generate", "--model", MODEL, *flags).json()
        self.assertEqual(generated["prompt_token_ids"], plain["token_ids"])
        self.usage_error("generate", "--model", MODEL, "--token-ids", self.ids(1), "--chat")

    def test_Cli26_control_tokens_in_messages_are_text(self):
        ask = ("tokenize", MODEL, "--chat", "--json", "--text", "a<|im_end|><think>")
        im_end, think = 2, 7
        ids = self.succeed(*ask).json()["token_ids"]
        self.assertEqual((ids.count(im_end), ids.count(think)), (1, 0))
        ids = self.succeed(*ask, "--allow-control-tokens").json()["token_ids"]
        self.assertEqual((ids.count(im_end), ids.count(think)), (2, 1))
        history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>r<|im_end|>"}]
        path = self.file("m.json", json.dumps(history))
        ids = self.succeed("tokenize", MODEL, "--chat", "--json", "--file", path).json()["token_ids"]
        self.assertEqual((ids.count(im_end), ids.count(think)), (2, 1))
        plain = self.succeed("tokenize", MODEL, "--json", "--text", "<|im_end|><think>").json()["token_ids"]
        self.assertEqual(plain, [im_end, think])

    def test_the_tokenizer_is_read_once(self):
        link_model(self.dir / "model")
        tokenizer = self.dir / "model" / "tokenizer.json"
        tokenizer.unlink()
        tokenizer.write_bytes((MODEL / "tokenizer.json").read_bytes())
        # generate wants it for the prompt, for the constraint and for the text of the answer.
        flags = ("--prompt", "a", "--regex", "[ab]", "--max-tokens", 1)
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_NONBLOCK)
        opened = 0x20
        self.assertGreaterEqual(libc.inotify_add_watch(watch, os.fsencode(tokenizer), opened), 0)
        self.succeed("generate", "--model", self.dir / "model", *flags)
        events = os.read(watch, 4096)
        os.close(watch)
        self.assertEqual(len(events) // struct.calcsize("iIII"), 1)

    def test_a_rendering_that_is_too_large_is_refused(self):
        link_model(self.dir / "model")
        template = self.dir / "model" / "chat_template.jinja"
        template.unlink()
        template.write_text("{{ 'a' * 60000000 }}")
        ask = ("tokenize", self.dir / "model", "--chat", "--json", "--text", "a")
        self.refuse(*ask, naming=["chat_template.jinja:1: ", "16777216 bytes"])

    def test_Cli24_conversations_come_from_files(self):
        messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
        request = {"messages": messages, "add_generation_prompt": False,
                   "tools": [{"function": {"name": "f"}}], "chat_template_kwargs": {"x": 1}}
        chat = ("tokenize", MODEL, "--chat", "--json")
        one = self.succeed(*chat, "--file", self.file("m.json", json.dumps(messages))).json()
        two = self.succeed(*chat, "--file", self.file("r.json", json.dumps(request))).json()
        self.assertTrue(one["text"].endswith("U<|im_end|>\n<|im_start|>assistant\n"))
        self.assertIn('<tools>\n{"function": {"name": "f"}}\n</tools>', two["text"])
        self.assertTrue(two["text"].endswith("U<|im_end|>\n"))
        lines = self.file("b.jsonl", json.dumps(messages) + "\n" + json.dumps(request))
        self.assertEqual(self.succeed(*chat, "--batch", lines).json(), {"results": [one, two]})

    def test_Cli24_arguments_of_earlier_calls_are_objects_as_for_the_server(self):
        chat = ("tokenize", MODEL, "--chat", "--json", "--file")
        texts = []
        for arguments in ('{"city": "Bern", "n": [1]}', {"city": "Bern", "n": [1]}, "", {}):
            call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
            messages = [{"role": "user", "content": "U"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
            path = self.file("m.json", json.dumps(messages))
            texts.append(self.succeed(*chat, path).json()["text"])
        self.assertIn("<parameter=city>\nBern\n</parameter>", texts[0])
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[2], texts[3])

    def test_Cli24_what_the_template_refuses_is_told_with_its_line(self):
        late = [{"role": "user", "content": "U"}, {"role": "system", "content": "S"}]
        path = self.file("m.json", json.dumps(late))
        naming = ["chat_template.jinja:25: A system message must be the first message."]
        self.refuse("tokenize", MODEL, "--chat", "--file", path, naming=naming)
        for bad in ("3", "[]", "{}", "[1]", '{"messages": 1}', '{"nonsense": 1}', "{"):
            with self.subTest(bad):
                self.refuse("tokenize", MODEL, "--chat", "--file", self.file("m.json", bad))


if __name__ == "__main__":
    unittest.main()
