"""What every subcommand has in common."""

import json
import os
import resource
import subprocess
import unittest

from kv8_cli import BINARY, COMMANDS, CORPUS, MODEL, Kv8TestCase, calibrated, run

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
            (*generate, "--seed", 1 << 64),
            (*generate, "--seed", "1e3"),
            (*generate, "--max-tokens", "010"),
            (*generate, "--max-tokens", "0x10"),
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

    def test_Cli2_an_empty_path_is_a_usage_error(self):
        # What an unset variable of a script leaves behind; it must not mean the working directory.
        out = ("--output-dir", self.dir / "out")
        for arguments in (
            ("inspect", ""),
            ("tokenize", "", "--text", "a"),
            ("tokenize", MODEL, "--file", ""),
            ("generate", "--model", "", "--prompt", "a"),
            ("generate", "--model", MODEL, "--prompt", "a", "--scale-pack", ""),
            ("score", "--model", MODEL, "--token-ids", ""),
            ("score", "--model", MODEL, "--prompt-file", ""),
            ("calibrate", "--model", MODEL, "--corpus", "", "--output", self.dir / "r.json"),
            ("calibrate", "--model", MODEL, "--corpus", "c.jsonl", "--output", ""),
            ("calibrate", "--merge", "", "--output", self.dir / "r.json"),
            ("pack", "--report", "", "--model", MODEL, *out),
            ("materialize", "--base-checkpoint", "", "--pack-dir", "p", *out),
            ("materialize", "--base-checkpoint", MODEL, "--pack-dir", "", *out),
            ("materialize", "--base-checkpoint", MODEL, "--pack-dir", "p", "--output-dir", ""),
        ):
            with self.subTest(arguments):
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

    def test_Cli5_names_cannot_forge_lines_or_drive_the_terminal(self):
        name = self.dir / "a\nerror: b\x1b[2J\x7f"
        done = self.refuse("inspect", name, naming=["a\\x0aerror: b\\x1b[2J\\x7f"])
        self.assertEqual(len(done.err.splitlines()), 2)

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

    def test_Cli7_files_do_not_take_the_place_of_closed_streams(self):
        # Without descriptor 2, what kv8 opens next would receive its messages.
        script = 'exec 0<&- 2>&-; exec "$@"'
        report = self.dir / "report.json"
        arguments = ("calibrate", "--model", MODEL, "--corpus", CORPUS, "--max-tokens", "200")
        command = ["sh", "-c", script, "sh", BINARY, *map(str, (*arguments, "--output", report))]
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 0)
        whole = self.dir / "whole.json"
        self.succeed(*arguments, "--output", whole)
        self.assertEqual(report.read_bytes(), whole.read_bytes())
        closed = ["sh", "-c", 'exec 1>&-; exec "$@"', "sh", BINARY, "inspect", str(MODEL)]
        done = subprocess.run(closed, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output: cannot write", done.stderr)

    def test_a_text_beyond_the_memory_is_an_error_not_a_crash(self):
        path = self.dir / "text"
        path.write_text("the lighthouse keeper wrote " * (8_000_000 // 28))
        codes = set()
        for limit in range(100, 300, 20):
            space = (limit << 20, limit << 20)
            done = run(
                *("tokenize", MODEL, "--json", "--file", path),
                preexec_fn=lambda space=space: resource.setrlimit(resource.RLIMIT_AS, space),
            )
            with self.subTest(limit):
                self.assertIn(done.code, (0, 1), done.err)
                self.assertEqual("no memory left" in done.err, done.code == 1)
            codes.add(done.code)
        self.assertIn(1, codes)

    def test_Cli7_a_full_disk_under_standard_output_is_an_error(self):
        for arguments in (
            ("inspect", MODEL, "--json"),
            ("tokenize", MODEL, "--text", "a", "--json"),
            ("--help",),
            ("generate", "--help"),
            ("--version",),
        ):
            with self.subTest(arguments), open("/dev/full", "wb") as full:
                command = [BINARY, *map(str, arguments)]
                done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"standard output", done.stderr)
                self.assertIn(b"No space left", done.stderr)

    def test_version(self):
        self.assertRegex(run("--version").out, r"^kv8 \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
