"""What every subcommand has in common."""

import json
import os
import subprocess
import unittest

from kv8_cli import BINARY, COMMANDS, MODEL, Kv8TestCase, calibrated, run

# One run of each subcommand that ends well, without the flags of its output.
def good_runs():
    made = calibrated()
    prompt = ("--prompt", "The table shows")
    return {
        "inspect": ("inspect", MODEL),
        "tokenize": ("tokenize", MODEL, "--text", "The table shows"),
        "generate": ("generate", "--model", MODEL, *prompt, "--max-tokens", 4),
        "score": ("score", "--model", MODEL, *prompt),
        "pack": ("pack", "--report", made.report, "--model", MODEL),
        "materialize": ("materialize", "--base-checkpoint", MODEL, "--pack-dir", made.pack),
    }


class FrameTest(Kv8TestCase):
    def test_Cli1_help_of_every_subcommand(self):
        self.assertIn("Usage", self.succeed("--help").out)
        for command in COMMANDS:
            with self.subTest(command):
                done = self.succeed(command, "--help")
                self.assertIn(command, done.out)
                self.assertIn("--json", done.out)
                self.assertEqual(done.err, "")

    def test_Cli2_usage_errors_exit_with_2(self):
        ids = self.ids(1)
        generate = ("generate", "--model", MODEL, "--token-ids", ids)
        wrong = (
            (),
            ("no-such-command",),
            ("generate", "--no-such-flag"),
            ("generate", "--model", MODEL),
            ("generate", "--token-ids", ids),
            (*generate, "--max-tokens", "many"),
            (*generate, "--max-tokens", 0),
            (*generate, "--max-tokens", -1),
            (*generate, "--temperature", "nan"),
            (*generate, "--temperature", -0.5),
            (*generate, "--top-p", 0),
            (*generate, "--top-p", 1.5),
            (*generate, "--top-k", -1),
            (*generate, "--seed", -1),
            (*generate, "--speculative-tokens", 6),
            (*generate, "--kv-cache-dtype", "fp8_e5m2"),
            (*generate, "--device", "tpu"),
            (*generate, "--threads", -1),
            (*generate, "surplus"),
            ("inspect",),
            ("tokenize", MODEL),
            ("pack",),
            ("materialize",),
            ("calibrate",),
        )
        for arguments in wrong:
            with self.subTest(arguments[2:] or arguments):
                self.usage_error(*arguments)

    def test_Cli3_json_is_one_object_and_nothing_else(self):
        for command, arguments in good_runs().items():
            with self.subTest(command):
                if command in ("pack", "materialize"):
                    arguments += ("--output-dir", self.dir / command)
                done = self.succeed(*arguments, "--json")
                self.assertEqual(done.out.count("\n"), 1)

                def refuse(name):
                    self.fail(f"{name} is not JSON")

                # json.loads takes NaN and infinities unless told otherwise.
                self.assertIsInstance(json.loads(done.out, parse_constant=refuse), dict)

    def test_Cli4_failed_runs_print_nothing_on_standard_output(self):
        absent = self.dir / "absent"
        for arguments in (
            ("inspect", absent),
            ("tokenize", absent, "--text", "a"),
            ("generate", "--model", absent, "--prompt", "a"),
            ("score", "--model", absent, "--prompt", "a"),
            ("calibrate", "--model", absent, "--corpus", absent, "--output", self.dir / "r.json"),
            ("pack", "--report", absent, "--model", MODEL, "--output-dir", self.dir / "pack"),
            ("materialize", "--base-checkpoint", absent, "--pack-dir", absent)
            + ("--output-dir", self.dir / "view"),
        ):
            with self.subTest(arguments[0]):
                self.refuse(*arguments, "--json", naming=[str(absent)])
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_Cli5_errors_say_where_what_and_what_to_do(self):
        done = self.refuse("inspect", self.dir, naming=[str(self.dir / "config.json"), "cannot open"])
        first, second = done.err.splitlines()
        self.assertTrue(first.startswith(f"kv8 inspect: {self.dir}"), first)
        self.assertTrue(second.startswith("  try: "), second)

    def test_Cli6_notes_go_to_standard_error(self):
        arguments = ("generate", "--model", MODEL, "--prompt", "The table shows", "--max-tokens", 4)
        done = self.succeed(*arguments)
        text = self.succeed(*arguments, "--json").json()["text"]
        self.assertEqual(done.out, text if text.endswith("\n") else text + "\n")
        self.assertIn("bytes per token", done.err)

    def test_Cli7_a_reader_that_goes_away_is_an_error_not_a_crash(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        for extra in ((), ("--json",)):
            with self.subTest(extra):
                arguments = ("generate", "--model", MODEL, "--prompt", "The table shows")
                done = subprocess.run(
                    [BINARY, *map(str, arguments), "--ignore-eos", "--max-tokens", "8", *extra],
                    stdout=write_end,
                    stderr=subprocess.PIPE,
                    timeout=60,
                )
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"standard output", done.stderr)
        os.close(write_end)

    def test_Cli7_a_full_disk_under_standard_output_is_an_error(self):
        for arguments in (("inspect", MODEL), ("tokenize", MODEL, "--text", "a")):
            with self.subTest(arguments[0]), open("/dev/full", "wb") as full:
                command = [BINARY, *map(str, arguments), "--json"]
                done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"standard output", done.stderr)
                self.assertIn(b"No space left", done.stderr)

    def test_version(self):
        self.assertRegex(run("--version").out, r"^kv8 \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
