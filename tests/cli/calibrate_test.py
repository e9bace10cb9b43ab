"""kv8 calibrate."""

import json
import random
import resource
import signal
import time
import unittest

from kv8_cli import (
    BINARY,
    CORPUS,
    MODEL,
    QSA_LAYERS,
    REFUSAL_SECONDS,
    REPO,
    Kv8TestCase,
    link_model,
    peak_memory,
    start,
    wait_for_tokens,
)

DRAFT_LAYER = 12
HIDDEN = 192
EXPECTED = REPO / "tests" / "golden" / "calibration_expected.json"


def documents(count):
    """The beginnings of the first documents of the bundled corpus, as lines."""
    with open(CORPUS, encoding="utf-8") as lines:
        entries = [json.loads(next(lines)) for _ in range(count)]
    for entry in entries:
        entry["text"] = entry["text"][:600]
    return [json.dumps(entry) + "\n" for entry in entries]


def tensor(layer, side):
    return f"model.layers.{layer}.self_attn.{side}_scale"


def spoiled_model(directory, suffix, element):
    """The bundled model with one BF16 value of the tensor whose name ends so as NaN."""
    model = link_model(directory)
    index = json.loads((model / "model.safetensors.index.json").read_text())
    name = next(n for n in index["weight_map"] if n.endswith(suffix))
    shard = model / index["weight_map"][name]
    content = bytearray(shard.read_bytes())
    header = int.from_bytes(content[:8], "little")
    begin, _ = json.loads(content[8 : 8 + header])[name]["data_offsets"]
    at = 8 + header + begin + 2 * element
    content[at : at + 2] = b"\xc0\x7f"
    shard.unlink()
    shard.write_bytes(content)
    return model


class CalibrateTest(Kv8TestCase):
    def setUp(self):
        super().setUp()
        self.output = self.dir / "report.json"
        self.corpus = self.file("corpus.jsonl", "".join(documents(6)))

    def calibrate(self, *flags, corpus=None, output=None):
        measure = ("--model", MODEL, "--corpus", corpus or self.corpus)
        return ("calibrate", *measure, "--output", output or self.output, *flags)

    def report(self, path=None):
        return json.loads((path or self.output).read_text())

    def test_agrees_with_the_reference_on_the_whole_corpus(self):
        flags = ("--saturation-tokens", 20000)
        self.succeed(*self.calibrate(*flags, corpus=CORPUS), timeout=900)
        report = self.report()
        self.assertFalse(report["partial_corpus"])
        self.assertEqual(report["qsa_layer_ids"], [*QSA_LAYERS, DRAFT_LAYER])
        expected = json.loads(EXPECTED.read_text())["layers"]
        for layer in report["qsa_layer_ids"]:
            want = expected["mtp" if layer == DRAFT_LAYER else str(layer)]
            for side in ("k", "v"):
                got = report["tensors"][tensor(layer, side)]
                with self.subTest(layer=layer, side=side):
                    for value in ("max_abs", "scale"):
                        reference = want[f"{side}_{value}"]
                        self.assertLess(abs(got[value] - reference) / reference, 2e-3)

    def test_json_tells_the_ranges(self):
        out = self.succeed(*self.calibrate("--max-tokens", 500, "--json")).json()
        self.assertEqual(set(out), {"report", "documents", "tokens", "partial_corpus", "layers"})
        self.assertEqual(out["tokens"], 500)
        self.assertTrue(out["partial_corpus"])
        self.assertEqual([layer["layer"] for layer in out["layers"]], [*QSA_LAYERS, DRAFT_LAYER])
        k = out["layers"][0]["k"]
        self.assertEqual(k["scale"], self.report()["tensors"][tensor(3, "k")]["scale"])
        self.assertEqual(k["saturation_checked_count"], k["count"])

    def test_methods_are_judged_by_held_out_documents(self):
        flags = ("--saturation-tokens", 0, "--held-out", 50, "--json")
        rule = ("--method", "percentile", "--percentile", 99, "--margin", 1.05)
        corpus = self.file("held.jsonl", "".join(documents(8)))
        out = self.succeed(*self.calibrate(*flags, *rule, corpus=corpus)).json()
        self.assertEqual(out["scale_rule"], {"method": "percentile", "percentile": 99, "margin": 1.05})
        held_out = out["held_out"]
        self.assertEqual(out["documents"] + held_out["documents"], 8)
        rules = {entry["rule"]: entry for entry in held_out["rules"]}
        self.assertIn("percentile 99, margin 1.05", rules)
        clipped = [rules[name]["clipped_at_least"] for name in ("max, margin 1.1", "percentile 99.9")]
        self.assertLess(*clipped)
        # The same values by another rule, without measuring again.
        again = self.dir / "again.json"
        merge = ("calibrate", "--merge", self.output, "--output", again, "--method", "max", "--json")
        layers = self.succeed(*merge).json()["layers"]
        for before, after in zip(out["layers"], layers):
            self.assertEqual(before["k"]["max_abs"], after["k"]["max_abs"])
            self.assertLess(before["k"]["scale"], after["k"]["scale"])

    def test_progress_goes_to_standard_error(self):
        done = self.succeed(*self.calibrate("--max-tokens", 500))
        for part in ("ranges: 100.0%, 500 of 500 tokens", "saturation: 100.0%", "tokens/s"):
            self.assertIn(part, done.err)
        quiet = self.calibrate("--max-tokens", 500, "--quiet", output=self.dir / "quiet.json")
        self.assertEqual(self.succeed(*quiet).err, "")

    def test_usage(self):
        model, corpus, output = ("--model", MODEL), ("--corpus", CORPUS), ("--output", self.output)
        self.usage_error("calibrate", *output)
        self.usage_error("calibrate", *model, *output)
        self.usage_error("calibrate", *corpus, *output)
        self.usage_error("calibrate", *model, *corpus)
        self.usage_error("calibrate", *model, *corpus, *output, "--merge", "a.json")
        self.usage_error("calibrate", "--merge", "a.json", *output, "--max-tokens", 5)
        for flag in ("--max-tokens", "--truncate"):
            self.usage_error(*self.calibrate(flag, 0))
            self.usage_error(*self.calibrate(flag, 1 << 64))
        self.usage_error(*self.calibrate("--saturation-tokens", -1))
        self.usage_error(*self.calibrate("--method", "median"))
        self.usage_error(*self.calibrate("--method", "percentile"))
        self.usage_error(*self.calibrate("--percentile", 99))
        for flag, values in (("--margin", (0.9, 2.1)), ("--held-out", (0, 100))):
            for value in values:
                self.usage_error(*self.calibrate(flag, value))
        self.usage_error("calibrate", "--merge", "a.json", *output, "--held-out", 5)

    def test_refuses_bad_corpora_by_line_in_under_a_second(self):
        good = '{"text": "a"}\n'
        long_text = json.dumps({"text": "word " * 20000})
        bad = {
            "empty": ("", "no document"),
            "not json": (good + "text\n", ":2: not valid JSON"),
            "not utf-8": (good.encode() + b'{"text": "\xff"}\n', ":2: not valid UTF-8"),
            "no text": (good + "\n{}\n", ':3: neither "text" nor "token_ids"'),
            "duplicate": ('{"text": "a", "text": "b"}', ':1: duplicate key "text"'),
            "id": ('{"token_ids": [6144]}', ':1: "token_ids" has 6144'),
            "long": (good + long_text, ":2: the document has"),
        }
        for name, (content, problem) in bad.items():
            with self.subTest(name):
                done = self.refuse(
                    *self.calibrate(corpus=self.file("bad.jsonl", content)),
                    naming=["bad.jsonl", problem],
                )
                self.assertLess(done.cpu_seconds, REFUSAL_SECONDS)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["bad.jsonl", "corpus.jsonl"])

    def test_refuses_an_output_that_exists(self):
        self.output.write_text("mine")
        self.refuse(*self.calibrate(), naming=[str(self.output), "exists"])
        self.assertEqual(self.output.read_text(), "mine")
        absent = self.dir / "absent" / "report.json"
        self.refuse(*self.calibrate(output=absent), naming=["absent", "does not exist"])

    def test_refuses_weights_that_are_not_finite(self):
        # Nothing checks large tensors when a checkpoint is opened: the values must be noticed.
        model = spoiled_model(self.dir / "model", "layers.7.self_attn.v_proj.weight", 0)
        command = ("calibrate", "--model", model, "--corpus", self.corpus, "--output", self.output)
        self.refuse(*command, naming=["layer 7 V", "not finite", "corpus.jsonl:1"])
        self.assertFalse(self.output.exists())

    def test_names_the_document_with_values_that_are_not_finite(self):
        # All four share a pass; only the third has the token whose embedding is spoiled.
        model = spoiled_model(self.dir / "model", "embed_tokens.weight", 777 * HIDDEN)
        ids = [[300, 301], [400] * 70, [300, 777, 301], [302, 303]]
        corpus = self.file("ids.jsonl", "".join(json.dumps({"token_ids": i}) + "\n" for i in ids))
        command = ("calibrate", "--model", model, "--corpus", corpus, "--output", self.output)
        self.refuse(*command, naming=["layer 3 K", "not finite", "ids.jsonl:3"])

    def test_a_full_disk_leaves_nothing_half_written(self):
        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))

        self.refuse(*self.calibrate(), naming=["cannot write"], preexec_fn=limit_files)
        self.assertEqual([path.name for path in self.dir.iterdir()], ["corpus.jsonl"])

    def test_goes_on_after_a_kill(self):
        whole = self.dir / "whole.json"
        flags = ("--save-seconds", 0)
        begin = time.monotonic()
        self.succeed(*self.calibrate(*flags, output=whole))
        duration = time.monotonic() - begin
        moments = random.Random(7)
        for attempt in range(4):
            output = self.dir / f"killed{attempt}.json"
            process = start(*self.calibrate(*flags, output=output))
            time.sleep(moments.uniform(0, duration))
            process.kill()
            process.communicate()
            if not output.exists():
                self.succeed(*self.calibrate(*flags, output=output))
            self.assertEqual(output.read_bytes(), whole.read_bytes())

    def test_an_interrupt_ends_with_an_error(self):
        process = start(*self.calibrate("--save-seconds", 0, corpus=CORPUS))
        wait_for_tokens(process, self.output)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(out, b"")
        self.assertIn(b"run the same command again", err)

    def test_an_unfinished_run_of_other_inputs_needs_restart(self):
        process = start(*self.calibrate(corpus=CORPUS))
        partial = self.dir / "report.json.partial"
        wait_for_tokens(process, self.output, tokens=0)
        process.kill()
        process.communicate()
        self.refuse(*self.calibrate(), naming=[str(partial), "corpus_sha256", "--restart"])
        self.succeed(*self.calibrate("--restart", "--max-tokens", 100))
        self.assertFalse(partial.exists())

    def test_merge_equals_the_run_over_everything(self):
        lines = documents(6)
        flags = ("--saturation-tokens", 0)
        shards = []
        for name, part in (("a", lines[:2]), ("b", lines[2:])):
            shards.append(self.dir / f"{name}.json")
            corpus = self.file(f"{name}.jsonl", "".join(part))
            self.succeed(*self.calibrate(*flags, corpus=corpus, output=shards[-1]))
        self.succeed(*self.calibrate(*flags))
        merged = self.dir / "merged.json"
        self.succeed("calibrate", "--merge", *shards, "--output", merged)
        reports = [self.report(), self.report(merged)]
        for report in reports:
            del report["input_files"]
            for entry in report["tensors"].values():
                del entry["saturation_is_upper_bound"]
        self.assertEqual(*reports)

    def test_memory_does_not_grow_with_the_corpus(self):
        lines = documents(2)
        peaks = []
        for times in (1, 20_000):  # 24 MB, of which little runs
            corpus = self.file(f"{times}.jsonl", "".join(lines) * times)
            flags = ("--max-tokens", 500, "--quiet")
            arguments = self.calibrate(*flags, corpus=corpus, output=self.dir / f"{times}.json")
            peaks.append(peak_memory(*arguments))
        self.assertLess(peaks[1] - peaks[0], 8 << 20)


if __name__ == "__main__":
    unittest.main()
