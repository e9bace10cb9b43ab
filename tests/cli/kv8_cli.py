"""Runs the built binary for the command line tests, and what they share.

The binary is $KV8_BINARY, by default build/release/kv8. Standard library only.
"""

import atexit
import dataclasses
import functools
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

REPO = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("KV8_BINARY", str(REPO / "build" / "release" / "kv8"))
MODEL = REPO / "models" / "tiny-qwen4exp"
CORPUS = REPO / "examples" / "corpus" / "calibration.jsonl"

COMMANDS = (
    ("plan", "inspect", "tokenize", "calibrate", "pack", "materialize")
    + ("generate", "score", "serve", "verify", "bench", "synth")
)
QSA_LAYERS = (3, 7, 11)  # of MODEL

# A run that refuses its input takes less than a second of processor time, which is the product's own and
# not its neighbours'; a sanitized binary takes longer.
REFUSAL_SECONDS = float(os.environ.get("KV8_REFUSAL_SECONDS", "1"))


def scratch_directory():
    """A directory that lasts as long as the test run."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="kv8-cli-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


# Records of hashed weights: not among the user's own.
os.environ["XDG_CACHE_HOME"] = str(scratch_directory())


@dataclasses.dataclass
class Done:
    """A finished run."""

    code: int
    out: str
    err: str
    cpu_seconds: float

    def json(self):
        return json.loads(self.out)


def run(*arguments, timeout=120, **options):
    """Runs kv8 with these arguments to its end."""
    before = cpu_seconds_of_children()
    done = subprocess.run(
        [BINARY, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        **options,
    )
    seconds = cpu_seconds_of_children() - before
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode(), seconds)


def cpu_seconds_of_children():
    """Processor time of every run that has ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_for_tokens(process, output, tokens=1):
    """Waits until a running calibration has saved that many measured tokens beside `output`."""
    partial = output.with_name(output.name + ".partial")
    while process.poll() is None:
        if partial.exists() and json.loads(partial.read_text())["position"]["tokens"] >= tokens:
            return
        time.sleep(0.01)
    raise AssertionError(f"the calibration ended before: {process.communicate()}")


PEAK_OF_CHILD = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


def peak_memory(*arguments):
    """Runs kv8 to success and returns the most memory it had resident, in bytes."""
    # Through a small process: a child's peak counts that of the process it was forked from.
    probe = [sys.executable, "-c", PEAK_OF_CHILD, BINARY, *map(str, arguments)]
    done = subprocess.run(probe, check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024


def start(*arguments, **options):
    """Starts kv8 and returns the process."""
    return subprocess.Popen(
        [BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def link_model(out, base=MODEL):
    """A checkpoint directory like `base`, made of links."""
    out.mkdir(parents=True)
    for path in base.iterdir():
        (out / path.name).symlink_to(path.resolve())
    return out


@dataclasses.dataclass
class Calibrated:
    """The files of one short calibration of MODEL."""

    report: pathlib.Path
    pack: pathlib.Path
    view: pathlib.Path


@functools.cache
def calibrated():
    """Made once per test run by calibrate, pack and materialize; tests change copies of it."""
    root = scratch_directory()
    made = Calibrated(root / "report.json", root / "pack", root / "view")
    steps = (
        ("calibrate", "--model", MODEL, "--corpus", CORPUS, "--max-tokens", 3000)
        + ("--output", made.report),
        ("pack", "--report", made.report, "--model", MODEL, "--output-dir", made.pack),
        ("materialize", "--base-checkpoint", MODEL, "--pack-dir", made.pack)
        + ("--output-dir", made.view),
    )
    for step in steps:
        done = run(*step)
        if done.code != 0:
            raise RuntimeError(f"kv8 {step[0]} failed: {done.err}")
    return made


class Kv8TestCase(unittest.TestCase):
    """Gives each test a directory and the assertions about a run."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kv8-cli-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def file(self, name, content):
        """Writes a file of the test's directory and returns its path."""
        path = self.dir / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def ids(self, *ids):
        """A --token-ids file."""
        return self.file("ids.json", json.dumps(ids))

    def succeed(self, *arguments, **options):
        """Runs kv8, which must succeed."""
        done = run(*arguments, **options)
        self.assertEqual(done.code, 0, done.err)
        return done

    def refuse(self, *arguments, naming=(), **options):
        """Runs kv8, which must fail with one error that holds every text of `naming`."""
        done = run(*arguments, **options)
        self.assertEqual(done.code, 1, done.out + done.err)
        self.assertEqual(done.out, "")
        # Notes may come first; the error is one line, and perhaps one with the remedy.
        error = done.err[done.err.index(f"kv8 {arguments[0]}: ") :]
        self.assertEqual(done.err.count(f"kv8 {arguments[0]}: "), 1, done.err)
        for text in naming:
            self.assertIn(text, error)
        return done

    def usage_error(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.code, 2, done.out + done.err)
        self.assertEqual(done.out, "")
        self.assertNotEqual(done.err, "")
        return done
