"""Hostile checkpoints, made by scripts/make_hostile.py, and hostile corpora."""

import os
import shutil
import sys
import unittest

from kv8_cli import MODEL, REFUSAL_SECONDS, REPO, Kv8TestCase, start

sys.path.insert(0, str(REPO / "scripts"))
import make_hostile  # noqa: E402


class HostileCheckpointTest(Kv8TestCase):
    def refuse_quickly(self, *arguments, naming):
        done = self.refuse(*arguments, naming=naming)
        self.assertLess(done.cpu_seconds, REFUSAL_SECONDS)

    def test_Cli40_every_hostile_checkpoint_is_refused_when_opened(self):
        for name, (build, expect) in make_hostile.CASES.items():
            with self.subTest(name):
                case = self.dir / name
                build(MODEL, case)
                self.refuse_quickly("inspect", case, naming=[expect])
                generate = ("generate", "--model", case, "--token-ids", self.ids(1))
                self.refuse_quickly(*generate, "--max-tokens", 1, naming=[expect])

    def test_Cli40_weights_that_contradict_the_configuration_are_refused(self):
        for name, (build, expect) in make_hostile.BIND_CASES.items():
            with self.subTest(name):
                case = self.dir / name
                build(MODEL, case)
                # The draft head's weights are bound when it is to run.
                arguments = ("generate", "--model", case, "--token-ids", self.ids(1))
                arguments += ("--max-tokens", 1, "--speculative-tokens", 1)
                self.refuse_quickly(*arguments, naming=[expect])

    def test_Cli40_files_of_more_token_ids_than_any_context_are_refused_at_once(self):
        cases = {
            "most": ("[" + ",".join(["300"] * 2_000_000) + "]", "2000001 tokens"),
            "too large": ("[" + ",".join(["300"] * 5_000_000) + "]", "at most 8388608"),
        }
        for name, (text, expect) in cases.items():
            with self.subTest(name):
                ids = self.dir / "ids.json"
                ids.write_text(text)
                arguments = ("--model", MODEL, "--token-ids", ids, "--max-tokens", 1)
                self.refuse_quickly("generate", *arguments, naming=[expect])

    def test_Cli40_weights_that_make_the_logits_not_finite_end_in_an_error(self):
        for name, (build, expect) in make_hostile.RUN_CASES.items():
            with self.subTest(name):
                case = self.dir / name
                build(MODEL, case)
                run = ("--model", case, "--token-ids", self.ids(300), "--json")
                generate = ("generate", *run, "--max-tokens", 4, "--ignore-eos")
                self.refuse(*generate, "--speculative-tokens", 2, naming=[expect, str(case)])
                if name == "run_nan_draft":
                    continue  # without speculation nothing reads it
                self.refuse(*generate, naming=[expect, str(case)])
                self.refuse(*generate, "--temperature", 1, naming=[expect, str(case)])
                self.refuse("score", *run, naming=[expect, str(case)])

    def test_Cli40_a_file_that_is_cut_while_in_use_is_an_error_not_a_crash(self):
        model = self.dir / "model"
        shutil.copytree(MODEL, model)
        arguments = ("generate", "--model", model, "--prompt", "The table", "--ignore-eos")
        process = start(*arguments, bufsize=0)
        first = process.stdout.read(1)  # everything is open and in use
        for path in model.glob("*.safetensors"):
            os.truncate(path, 4096)
        _, err = process.communicate(timeout=60)
        self.assertNotEqual(first, b"")
        self.assertEqual(process.returncode, 1, err)
        self.assertIn(b"kv8 generate: checkpoint: a file became shorter", err)


class HostileCorpusTest(Kv8TestCase):
    def calibrate(self, corpus):
        return (
            ("calibrate", "--model", MODEL, "--corpus", corpus, "--output", self.dir / "report.json")
        )

    def test_Cli41_bad_corpora_are_refused_before_any_work(self):
        good = '{"text": "The table shows 644 crates."}\n'
        for name, content, naming in (
            ("empty", "", ["empty"]),
            ("blank", "\n\n", ["blank"]),
            ("not_json", good + "text\n", ["not_json", "2"]),
            ("not_object", good + "[1]\n", ["not_object", "2"]),
            ("no_text", good + '{"id": "a"}\n', ["no_text", "2"]),
            ("text_number", good + '{"text": 5}\n', ["text_number", "2"]),
            ("latin", b'{"text": "caf\xe9"}\n', ["latin", "1"]),
            ("cut", good + '{"text": "The', ["cut", "2"]),
            ("bad_id", '{"token_ids": [1, 6144]}\n', ["bad_id", "6144"]),
        ):
            with self.subTest(name):
                corpus = self.file(name, content)
                done = self.refuse(*self.calibrate(corpus), naming=naming)
                self.assertLess(done.cpu_seconds, REFUSAL_SECONDS)
                self.assertFalse((self.dir / "report.json").exists())

    def test_Cli41_a_line_that_is_too_long_is_refused_without_being_read_whole(self):
        corpus = self.file("corpus.jsonl", '{"text": "The table shows 644 crates."}\n')
        for size in (1 << 30, 2 << 30):
            os.truncate(corpus, size)  # zeros up to the end, which take no room on the disk
            done = self.refuse(*self.calibrate(corpus), naming=[f"{corpus}:2: ", "67108864 bytes"])
            self.assertLess(done.cpu_seconds, REFUSAL_SECONDS)

    def test_Cli42_what_is_not_a_regular_file_is_refused_not_waited_for(self):
        fifo = self.dir / "fifo"
        os.mkfifo(fifo)
        generate = ("generate", "--model", MODEL)
        for path in (fifo, self.dir):
            for arguments in (
                self.calibrate(path),
                (*generate, "--prompt-file", path),
                (*generate, "--token-ids", path),
                ("tokenize", MODEL, "--file", path),
                ("pack", "--report", path, "--model", MODEL, "--output-dir", self.dir / "out"),
            ):
                with self.subTest(arguments=arguments[0], path=path.name):
                    done = self.refuse(*arguments, naming=[str(path)], timeout=20)
                    self.assertLess(done.cpu_seconds, REFUSAL_SECONDS)


if __name__ == "__main__":
    unittest.main()
