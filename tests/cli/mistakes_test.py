"""What users get wrong on their first day, and that what they read tells them so."""

import json
import os
import re
import unittest

from kv8_cli import COMMANDS, CORPUS, MODEL, Kv8TestCase, link_model, run

POINTER = b"""version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
"""

# Raw control bytes, as no output for people may hold them: C0, DEL, C1, and what is not UTF-8.
EVIL = b"a\x1b[2J\x7f\xc2\x9b31m\xff\xe2\x80\xae"
ESCAPED = r"a\x1b[2J\x7f\xc2\x9b31m\xff\xe2\x80\xae"


class UsageTest(Kv8TestCase):
    def test_Cli8_a_wrong_command_line_is_told_as_other_errors_are(self):
        generate = ("generate", "--model", MODEL, "--prompt", "a")
        for arguments, first, remedy in (
            ((), "kv8: a command is required", "kv8 --help"),
            (("genrate", "--model", MODEL), "kv8: genrate: unknown command", "generate"),
            (("nothing-like-it",), "kv8: nothing-like-it: unknown command", "kv8 --help"),
            (("--modle", "x"), "kv8: --modle: unknown flag", "kv8 --help"),
            (("generate", "--modle", "x"), "kv8 generate: --modle: unknown flag", "--model"),
            ((*generate, "--kv-dtype=fp16"), "kv8 generate: --kv-dtype: unknown flag", "--help"),
            (("tokenize", MODEL, "--txt", "a"), "kv8 tokenize: --txt: unknown flag", "--text"),
            (("pack", "--out", "a"), "kv8 pack: --out: unknown flag", "--output-dir"),
            ((*generate, "more"), "kv8 generate: more: unexpected argument", "kv8 generate --help"),
            (("generate", "--prompt", "a"), "kv8 generate: --model: is required", "--help"),
            (("inspect",), "kv8 inspect: dir: is required", "kv8 inspect --help"),
            (("generate", "--model"), "kv8 generate: --model: a value must follow", "--help"),
            ((*generate, "--model", "b"), "kv8 generate: --model: is given more than once", "--help"),
            ((*generate, "--ignore-eos=a"), "kv8 generate: --ignore-eos: takes no value", "--help"),
            ((*generate, "--max-tokens", "a"), 'kv8 generate: --max-tokens: "a" is not a', "--help"),
            ((*generate, "--prompt-file", "b"), "kv8 generate: --prompt, --prompt-file, ", "--help"),
            (("calibrate", "--output", "r"), "kv8 calibrate: --model, --merge: exactly one", "--help"),
            (
                (*generate, "--regex", "a", "--json-schema", "b"),
                "kv8 generate: --json-schema: cannot be used together with --regex",
                "--help",
            ),
            (
                ("calibrate", "--output", "r", "--model", "m"),
                "kv8 calibrate: --model: cannot be used without --corpus",
                "--help",
            ),
        ):
            with self.subTest(arguments):
                lines = self.usage_error(*arguments).err.splitlines()
                self.assertEqual(len(lines), 2, lines)
                self.assertTrue(lines[0].startswith(first), lines[0])
                self.assertTrue(lines[1].startswith("  try: "), lines[1])
                self.assertIn(remedy, lines[1])

    def test_Cli8_a_value_that_is_none_of_those_allowed_is_told_with_all_of_them(self):
        model = ("--model", MODEL)
        for command, flag, allowed in (
            ("generate", "--kv-cache-dtype", ("fp16", "fp8_e4m3", "fp32", "fp8")),
            ("generate", "--device", ("cpu", "cuda")),
            ("score", "--backend", ("simd", "reference", "native", "precise", "sm70")),
            ("calibrate", "--backend", ("simd", "reference")),
            ("serve", "--log-level", ("debug", "info", "warning", "error", "off")),
            ("serve", "--log-format", ("text", "json")),
        ):
            with self.subTest(command=command, flag=flag):
                done = self.usage_error(command, *model, flag, "tpu")
                self.assertIn(f'kv8 {command}: {flag}: "tpu" is not one of ', done.err)
                for value in allowed:
                    self.assertIn(value, done.err)
                    self.assertIn(value, run(command, "--help").out)

    def test_Cli9_help_tells_limits_and_defaults_for_people(self):
        texts = {command: run(command, "--help").out for command in COMMANDS}
        for command, text in texts.items():
            # 2^31-1, 2^63-1 and 2^64-1, and the smallest float, say nothing written out.
            self.assertIsNone(re.search(r"\d{10,}|e-\d\d", text), command)
        self.assertIn("--max-model-len INT:1 to 2^31-1", texts["serve"])
        for command, default in (("serve", "checkpoint's limit"), ("score", "length of the text")):
            about = texts[command].split("--max-model-len")[1].split("--kv-memory")[0]
            self.assertIn("default: the " + default, " ".join(about.split()))
        self.assertIn("=info", texts["serve"])


class NotACheckpointTest(Kv8TestCase):
    def refuse_everywhere(self, model, *naming, chat=False):
        """Every command that takes a checkpoint says the same of it."""
        told = set()
        for arguments in (
            ("generate", "--model", model, "--prompt", "a", *(["--chat"] if chat else [])),
            *([] if chat else [
                ("inspect", model),
                ("score", "--model", model, "--token-ids", self.ids(1)),
                ("serve", "--model", model, "--port", 0, "--log-level", "off"),
                ("calibrate", "--model", model, "--corpus", CORPUS, "--output", self.dir / "r"),
            ]),
        ):  # fmt: skip
            done = self.refuse(*arguments, naming=naming, cwd=self.dir)
            told.add(done.err.removeprefix(f"kv8 {arguments[0]}: "))
        self.assertEqual(len(told), 1, told)

    def test_Cli43_a_path_that_is_no_checkpoint_is_named_as_what_it_is(self):
        (self.dir / "gguf").mkdir()
        self.file("gguf/model-Q4_K_M.gguf", b"GGUF")
        (self.dir / "empty").mkdir()
        model = link_model(self.dir / "model")
        for path, *naming in (
            ("absent", "absent: no such directory", "config.json"),
            ("Qwen/Qwen4-Exp", "no such directory; kv8 does not download", "--local-dir Qwen4-Exp"),
            ("gguf", "gguf/model-Q4_K_M.gguf: is a GGUF file", "safetensors"),
            ("gguf/model-Q4_K_M.gguf", "is a GGUF file", "safetensors"),
            (model / "config.json", "not a directory", f"name its directory, {model}\n"),
            ("empty", "empty/config.json: cannot open"),
        ):
            with self.subTest(path):
                self.refuse_everywhere(path, *naming)
                if path != "empty":  # tokenize needs no config.json
                    self.refuse("tokenize", path, "--text", "a", naming=naming[:1], cwd=self.dir)

    def test_Cli43_a_checkpoint_of_another_family_is_told_by_its_model_type(self):
        other = self.dir / "llama"
        other.mkdir()
        self.file("llama/config.json", json.dumps({"model_type": "llama", "hidden_size": 8}))
        self.refuse_everywhere(other, 'model_type is "llama"', "qwen4_exp")

    def test_Cli43_a_git_lfs_pointer_is_named_in_place_of_any_file(self):
        for name in sorted(path.name for path in MODEL.iterdir()):
            with self.subTest(name):
                model = link_model(self.dir / f"with-{name}")
                (model / name).unlink()
                (model / name).write_bytes(POINTER)
                naming = [f"{name}: is a Git LFS pointer", "git lfs pull"]
                if name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
                    self.refuse_everywhere(model, *naming, chat=True)
                else:
                    self.refuse_everywhere(model, *naming)
        corpus = self.file("corpus.jsonl", POINTER)
        arguments = ("--model", MODEL, "--corpus", corpus, "--output", self.dir / "r")
        self.refuse("calibrate", *arguments, naming=["is a Git LFS pointer"])


class TerminalTest(Kv8TestCase):
    def outputs(self, *arguments):
        """What a run wrote, which holds no control byte but line ends and tabs."""
        done = run(*arguments)
        for text in (done.out, done.err):
            self.assertIsNone(re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), repr(text))
        return done

    def evil_model(self):
        return link_model(self.dir / os.fsdecode(EVIL))

    def test_Cli5_paths_with_control_bytes_are_escaped_in_errors(self):
        evil = self.dir / os.fsdecode(EVIL)
        for arguments in (
            ("inspect", evil),
            ("generate", "--model", evil, "--prompt", "a"),
            ("pack", "--report", evil, "--model", MODEL, "--output-dir", self.dir / "out"),
            ("serve", "--model", evil, "--port", 0),
            (os.fsdecode(EVIL),),
            ("generate", "--" + os.fsdecode(EVIL)),
        ):
            with self.subTest(arguments):
                self.assertIn(ESCAPED, self.outputs(*arguments).err)

    def test_Cli5_names_with_control_bytes_are_escaped_in_what_inspect_shows(self):
        evil = self.evil_model()
        self.assertIn(ESCAPED, self.outputs("inspect", evil).out)
        directory = json.loads(self.outputs("inspect", evil, "--json").out)["directory"]
        self.assertTrue(directory.endswith("a\x1b[2J\x7f\x9b31m\ufffd\u202e"), directory)

    def test_Cli5_tensor_names_with_control_bytes_are_escaped(self):
        model = link_model(self.dir / "model")
        index = json.loads((MODEL / "model.safetensors.index.json").read_text())
        index["weight_map"]["x\x1b]0;owned\x07\x9b"] = "model-00001-of-00005.safetensors"
        (model / "model.safetensors.index.json").unlink()
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        self.assertIn(r"tensor x\x1b]0;owned\x07\xc2\x9b: ", self.outputs("inspect", model).err)

    def test_Cli5_tokens_with_control_bytes_are_escaped(self):
        model = link_model(self.dir / "model")
        tokenizer = json.loads((MODEL / "tokenizer.json").read_text())
        last = tokenizer["added_tokens"][-1]
        tokenizer["model"]["vocab"].pop(last["content"])
        last["content"] = "<\x1b[2J\n\x9b>"
        tokenizer["model"]["vocab"][last["content"]] = last["id"]
        (model / "tokenizer.json").unlink()
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        done = self.outputs("tokenize", model, "--text", last["content"])
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.out, f"{last['id']}\t<\\x1b[2J\\x0a\\xc2\\x9b>\n")


if __name__ == "__main__":
    unittest.main()
