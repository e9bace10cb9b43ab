"""The command lines of README.md, of the guides and of a pack's README.md, run as they stand.

A command line is a line of a code block that begins with one of the words of RUN or NOT_RUN; a
backslash at its end joins the next one. Each document gets a directory of its own, in which its
lines run in order. What they name and no earlier line makes lies there already: see `prepare`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from kv8_cli import BINARY, MODEL, REPO, Kv8TestCase, calibrated

# A placeholder of the documents -> what stands there in the test.
PLACEHOLDERS = {
    "DIR": "models/tiny-qwen4exp",
    "CHECKPOINT": "models/tiny-qwen4exp",
    "THIS_DIRECTORY": "pack",
    "VIEW": "view",
    "[--json]": "--json",
}

RUN = ("kv8", "curl", "scripts/compare_kv_dtypes.py")

# First word of a line -> why it is not run here.
NOT_RUN = {
    "cmake": "builds",
    "ctest": "is a step of scripts/test.sh",
    "git": "clones",
    "python3": "is a step of scripts/test.sh",
    "lm_eval": "is run by tests/clients",
    "build/cuda/kv8": "needs a GPU",
    "scripts/setup.sh": "installs packages",
    "scripts/quickstart.sh": "builds and takes minutes; its steps are those of quickstart.md",
    "scripts/test.sh": "runs these tests",
    "scripts/load_test.sh": "needs a load generator",
    "scripts/compile_device.py": "needs nvcc",
    "scripts/device_suite.sh": "needs a GPU",
}

DOCUMENTS = ["README.md", *(f"docs/guide/{p.name}" for p in sorted((REPO / "docs/guide").glob("*.md")))]


def code_lines(text):
    """The lines of code blocks, continued ones joined, without comments."""
    joined = re.sub(r"\\\n\s*", "", text)
    for line in re.findall(r"^    (\S.*)$", joined, re.M):
        yield re.sub(r"\s+# .*", "", line)


def command_lines(text):
    """(first word, line) of the command lines."""
    for line in code_lines(text):
        word = line.split()[0]
        if word in RUN or word in NOT_RUN:
            yield word, line


def shortest_documents(source, target):
    """A corpus of the shortest document of each category, and of each kind of needle."""
    found = {}
    for line in source.read_text().splitlines():
        entry = json.loads(line)
        key = (entry["category"], entry.get("depth"))
        if key not in found or len(line) < len(found[key]):
            found[key] = line
    target.write_text("".join(line + "\n" for line in found.values()))


class DocsTest(Kv8TestCase):
    def prepare(self):
        """What a reader has: the repository, with short corpora, and files of their own."""
        (self.dir / "examples" / "corpus").mkdir(parents=True)
        for name in ("calibration.jsonl", "evaluation.jsonl"):
            shortest_documents(REPO / "examples/corpus" / name, self.dir / "examples/corpus" / name)
        for name in ("texts.jsonl", "corpus.jsonl"):
            shutil.copy(self.dir / "examples/corpus/calibration.jsonl", self.dir / name)
        for name in ("models", "scripts"):
            (self.dir / name).symlink_to(REPO / name)
        for path in (self.dir / "build/release/kv8", self.dir / "bin/kv8"):
            path.parent.mkdir(parents=True)
            path.symlink_to(BINARY)
        for name in ("a.json", "b.json"):
            shutil.copy(calibrated().report, self.dir / name)
        (self.dir / "conversation.json").write_text('[{"role": "user", "content": "Hello"}]')

    def shell(self, line, port=None):
        """Runs a line with the placeholders replaced; a server is stopped once it listens."""
        for name, value in PLACEHOLDERS.items():
            line = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", value, line)
        if port:
            line = line.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        serves = line.startswith("kv8 serve")
        if serves:
            line = f"exec {line} --port 0 --json"  # 8000 may be taken
        process = subprocess.Popen(
            ["bash", "-c", line],
            cwd=self.dir,
            env={**os.environ, "PATH": f"{self.dir / 'bin'}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if serves:
            self.assertIn("port", process.stdout.readline())
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, f"{line}\n{out}{err}")
        return out

    def start_server(self):
        """A server as the guides suppose one; its port."""
        server = subprocess.Popen(
            [BINARY, "serve", "--model", MODEL, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        return json.loads(server.stdout.readline())["port"]

    def run_document(self, text):
        self.prepare()
        lines = [(word, line) for word, line in command_lines(text) if word in RUN]
        if not any("materialize" in line for _, line in lines):
            (self.dir / "model-e4m3").symlink_to(calibrated().view)
        port = self.start_server() if any("127.0.0.1:8000" in line for _, line in lines) else None
        return [self.shell(line, port) for _, line in lines]

    def test_the_lines_of_readme_and_guides_run_as_they_stand(self):
        for name in DOCUMENTS:
            with self.subTest(name):
                outputs = self.run_document((REPO / name).read_text())
                # A line that a newcomer copies ends in less than a page or two.
                self.assertLess(max(map(len, outputs), default=0), 10_000)
            shutil.rmtree(self.dir)
            self.dir.mkdir()

    def test_the_lines_of_a_packs_readme_run_as_they_stand(self):
        shutil.copytree(calibrated().pack, self.dir / "pack")
        text = (calibrated().pack / "README.md").read_text()
        self.assertEqual(len(self.run_document(text)), 2)

    def test_every_line_that_looks_like_a_command_is_known(self):
        looks = re.compile(r"^(kv8|curl|cmake|git|python3|(build|scripts)/\S+)\s")
        for name in (*DOCUMENTS, "CONTRIBUTING.md"):
            for line in code_lines((REPO / name).read_text()):
                if looks.match(line + " "):
                    self.assertIn(line.split()[0], (*RUN, *NOT_RUN), f"{name}: {line}")


if __name__ == "__main__":
    unittest.main()
