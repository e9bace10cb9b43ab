"""kv8 verify, on a few short documents."""

import json
import signal
import time
import unittest

from kv8_cli import MODEL, QSA_LAYERS, REPO, Kv8TestCase, calibrated, run, start

EVALUATION = REPO / "examples" / "corpus" / "evaluation.jsonl"
TEXTS = [f"The keeper of lamp {i} wrote that the harbour was closed at noon. " * 3 for i in range(8)]


class VerifyTest(Kv8TestCase):
    def setUp(self):
        super().setUp()
        rows = [{"category": "en", "text": text} for text in TEXTS]
        self.corpus = self.file("corpus.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        self.out = self.dir / "out"

    def add_needles(self):
        needles = [json.loads(line) for line in EVALUATION.read_text().splitlines()]
        needles = sorted((n for n in needles if "depth" in n), key=lambda n: len(n["text"]))[:2]
        with open(self.corpus, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(needle) + "\n" for needle in needles)

    def flags(self, *more):
        return (
            ("verify", "--model", MODEL, "--scale-pack", calibrated().pack)
            + ("--corpus", self.corpus, "--output-dir", self.out)
            + ("--speculative-tokens", 2, "--json", *more)
        )

    def report(self):
        return json.loads((self.out / "report.json").read_text())

    def test_Verify1_a_run_of_everything(self):
        self.add_needles()
        out = self.succeed(*self.flags()).json()
        self.assertEqual(out, self.report())
        figures = out["figures"]
        self.assertEqual(figures["noise.scores_different"], 0)
        self.assertEqual(figures["noise.outputs_different"], 0)
        names = [verdict["name"] for verdict in out["verdicts"]]
        self.assertEqual(names, ["nll", "retrieval", "acceptance"])
        self.assertEqual(out["verdicts"][0]["pairs"], len(TEXTS))
        self.assertLess(out["verdicts"][0]["low"], out["verdicts"][0]["high"])
        arms = out["arms"]
        self.assertEqual(2 * arms["b"]["bytes_per_token"], arms["a"]["bytes_per_token"])
        self.assertEqual(figures["clipped.a_values"], 0)

    def test_Verify10_schedules_are_compared_and_hits_happen(self):
        self.add_needles()
        figures = self.succeed(*self.flags()).json()["figures"]
        for arm in "ab":
            self.assertEqual(figures[f"schedule.{arm}_different"], 0)
            self.assertEqual(figures[f"schedule.{arm}_prompts"], 2)
            self.assertGreater(figures[f"schedule.{arm}_hits"], 0)

    def test_Verify7_few_pairs_are_called_few(self):
        self.add_needles()
        verdicts = {v["name"]: v for v in self.succeed(*self.flags()).json()["verdicts"]}
        self.assertEqual(verdicts["retrieval"]["pairs"], 2)
        self.assertIn("too few", verdicts["retrieval"]["outcome"])
        self.assertIsNone(verdicts["retrieval"]["smallest_effect"])

    def test_Verify2_an_interrupted_run_goes_on(self):
        process = start(*self.flags())
        first = self.out / "parts" / "a.scores.json"
        while process.poll() is None and not first.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertFalse((self.out / "report.json").exists())
        stamp = first.stat().st_mtime_ns
        resumed = self.succeed(*self.flags()).json()
        self.assertEqual(first.stat().st_mtime_ns, stamp)
        whole = self.succeed(*self.flags("--restart")).json()
        self.assertNotEqual(first.stat().st_mtime_ns, stamp)
        del resumed["seconds"], whole["seconds"]
        self.assertEqual(resumed, whole)

    def test_Verify3_measurements_of_another_run_are_refused(self):
        self.succeed(*self.flags())
        self.corpus.write_text(self.corpus.read_text() + json.dumps({"text": "One more."}) + "\n")
        self.refuse(*self.flags(), naming=["a.scores.json", "corpus_sha256", "--restart"])

    def test_Verify4_a_failed_arm_leaves_the_other_its_results(self):
        pack = self.dir / "nothing"
        done = run("verify", "--model", MODEL, "--scale-pack", pack, "--corpus", self.corpus,
                   "--output-dir", self.out, "--quiet")  # fmt: skip
        self.assertEqual(done.code, 1)
        self.assertIn("scores of b failed", done.err)
        report = self.report()
        self.assertFalse(report["passed"])
        self.assertEqual({f["arm"] for f in report["failures"]}, {"b"})
        self.assertEqual(report["figures"]["noise.outputs_different"], 0)
        self.assertEqual(report["figures"]["schedule.a_different"], 0)

    def test_Verify8_a_gate_that_fails_is_named_and_exits_with_1(self):
        gates = {"gates": [{"name": "never", "figure": "nll.pairs", "at_most": 1},
                           {"name": "missing", "figure": "nothing", "at_most": 1}]}  # fmt: skip
        done = run(*self.flags("--gates", self.file("gates.json", json.dumps(gates)), "--quiet"))
        self.assertEqual(done.code, 1)
        for text in ('gate "never"', 'gate "missing"', "nll.pairs", "was not measured"):
            self.assertIn(text, done.err)
        self.assertEqual([g["passed"] for g in self.report()["gates"]], [False, False])

    def test_Verify9_overlap_with_the_calibration_is_refused(self):
        both = ("--calibration-corpus", self.corpus)
        self.refuse(*self.flags(*both), naming=["stand whole", "documents 1, 2"])
        self.assertFalse((self.out / "parts").exists())
        half = self.file("half.jsonl", json.dumps({"text": TEXTS[0][:-9]}) + "\n")
        both = ("--calibration-corpus", half, "--max-overlap", 0.0001)
        self.refuse(*self.flags(*both), naming=["runs of 64 tokens", "en", "--max-overlap"])
        other = self.file("other.jsonl", json.dumps({"text": "Something else."}) + "\n")
        overlap = self.succeed(*self.flags("--calibration-corpus", other)).json()["overlap"]
        self.assertEqual(overlap["shared"], 0)
        self.assertGreater(overlap["shingles"], 50)

    def test_Verify11_malformed_inputs_are_refused_before_any_work(self):
        gates = self.file("gates.json", '{"gates": [{"name": "n", "figure": "x"}]}')
        self.refuse(*self.flags("--gates", gates), naming=["gates.json", "at_most"])
        self.corpus.write_text('{"text": "x"}\n{"text": "y", "answer": 1}\n')
        self.refuse(*self.flags(), naming=["corpus.jsonl:2", "answer"])
        self.assertFalse((self.out / "parts").exists())


    def diagnostics(self, *more):
        """Of a text that is longer than an attention row may choose from."""
        self.corpus.write_text(json.dumps({"category": "en", "text": " ".join(TEXTS)}) + "\n")
        return self.succeed(*self.flags(*more)).json()["diagnostics"]

    def test_Verify13_attention_by_layer(self):
        attention = self.diagnostics()["attention"]
        self.assertEqual([row["layer"] for row in attention], list(QSA_LAYERS))
        for row in attention:
            self.assertGreater(row["choosing_rows"], 0)
            self.assertTrue(0.5 < row["recall"] <= 1 and 0.9 < row["cosine"] < 1, row)
            self.assertTrue(0 < row["relative_l2"] < 0.3, row)
        least = min(row["recall"] for row in attention)
        self.assertEqual(self.report()["figures"]["attention.recall_least"], least)

    def test_Verify14_stored_values_by_head_and_code(self):
        stored = self.diagnostics()["stored"]
        sides = [(layer, side) for layer in QSA_LAYERS for side in "kv"]
        self.assertEqual([(row["layer"], row["side"]) for row in stored], sides)
        for row in stored:
            self.assertEqual(sum(row["codes"]), sum(head["values"] for head in row["heads"]))
            for head in row["heads"]:
                clipped = [head[f"clipped_at_{margin}"] for margin in ("1.00", "1.05", "1.10")]
                self.assertEqual(clipped, sorted(clipped, reverse=True))

    def test_Verify15_a_configuration_beside_itself(self):
        diagnostics = self.diagnostics("--a", "fp8_e4m3")
        for row in diagnostics["attention"]:
            self.assertEqual([row["jaccard"], row["recall"], row["relative_l2"]], [1, 1, 0])
            self.assertAlmostEqual(row["cosine"], 1)
        self.assertEqual({row["ratio"] for row in diagnostics["scales"]}, {1})
        self.assertEqual(len(diagnostics["scales"]), 2 * 4)  # with the draft's


if __name__ == "__main__":
    unittest.main()
