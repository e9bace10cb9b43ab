"""What is written: all of it or nothing, and never over something."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest

from kv8_cli import CORPUS, MODEL, Kv8TestCase, calibrated, link_model, start, wait_for_tokens


def tree(path):
    """Every name below a path with its content or link target."""
    return {
        str(entry.relative_to(path)): os.readlink(entry) if entry.is_symlink() else entry.read_bytes()
        for entry in sorted(path.rglob("*"))
        if entry.is_symlink() or entry.is_file()
    }


class OutputsTest(Kv8TestCase):
    def writers(self, out):
        """The subcommands that write `out`, each as its arguments."""
        made = calibrated()
        return {
            "calibrate": ("calibrate", "--model", MODEL, "--corpus", CORPUS, "--max-tokens", 500)
            + ("--output", out),
            "pack": ("pack", "--report", made.report, "--model", MODEL, "--output-dir", out),
            "materialize": ("materialize", "--base-checkpoint", MODEL, "--pack-dir", made.pack)
            + ("--output-dir", out),
            "synth": ("synth", "--from", MODEL, "--output-dir", out),
        }

    def test_Cli50_an_output_that_exists_is_refused_and_left_alone(self):
        kinds = {
            "file": lambda path: path.write_text("mine"),
            "directory": lambda path: path.mkdir(),
            "dangling link": lambda path: path.symlink_to("nowhere"),
        }
        for kind, make in kinds.items():
            for command, arguments in self.writers(self.dir / "out").items():
                with self.subTest(command=command, kind=kind):
                    out = self.dir / "out"
                    make(out)
                    before = (out.lstat().st_mtime_ns, tree(self.dir))
                    self.refuse(*arguments, naming=[str(out), "exists"])
                    self.assertEqual((out.lstat().st_mtime_ns, tree(self.dir)), before)
                    shutil.rmtree(out) if kind == "directory" else out.unlink()

    def test_Cli50_of_two_runs_with_one_output_one_is_refused(self):
        for command, arguments in self.writers(self.dir / "out").items():
            with self.subTest(command):
                runs = [start(*arguments) for _ in range(2)]
                errors = [process.communicate(timeout=120)[1] for process in runs]
                codes = [process.returncode for process in runs]
                self.assertEqual(sorted(codes), [0, 1], errors)
                self.assertIn(b"exists", errors[codes.index(1)])
                out = self.dir / "out"
                out.unlink() if out.is_file() else shutil.rmtree(out)
                (self.dir / "out.partial").unlink(missing_ok=True)

    def test_Cli50_a_report_without_a_directory_is_refused_before_the_work(self):
        self.refuse(*self.writers(self.dir / "no" / "out")["calibrate"], naming=[str(self.dir / "no")])
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_Cli51_a_disk_without_room_leaves_nothing_behind(self):
        def no_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

        for command, arguments in self.writers(self.dir / "out").items():
            with self.subTest(command):
                self.refuse(*arguments, naming=[str(self.dir), "cannot write"], preexec_fn=no_room)
                self.assertEqual(list(self.dir.iterdir()), [])

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to mount a small file system")
    def test_Cli51_a_full_file_system_leaves_nothing_behind(self):
        disk = self.dir / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=32", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("may not mount")
        try:
            for command, arguments in self.writers(disk / "out").items():
                with self.subTest(command):
                    # synth knows what it will take, and asks before it writes.
                    why = "the disk has 4096 free" if command == "synth" else "No space left"
                    self.refuse(*arguments, naming=[str(disk), why])
                    self.assertEqual(list(disk.iterdir()), [])
        finally:
            subprocess.run(["umount", str(disk)], check=True)

    def test_Cli52_a_kill_leaves_all_of_the_output_or_nothing(self):
        chance = random.Random(8)
        made = calibrated()
        self.succeed(*self.writers(self.dir / "whole")["synth"])
        wanted = {"pack": tree(made.pack), "materialize": None, "synth": tree(self.dir / "whole")}
        for command in wanted:
            whole = 0
            for attempt in range(25):
                out = self.dir / f"{command}-{attempt}"
                process = start(*self.writers(out)[command])
                time.sleep(chance.uniform(0, 0.15))
                process.kill()
                process.communicate()
                if out.exists():
                    whole += 1
                    if wanted[command]:
                        self.assertEqual(set(tree(out)), set(wanted[command]))
                    else:
                        flags = ("--token-ids", self.ids(1), "--max-tokens", 1)
                        dtype = ("--kv-cache-dtype", "fp8_e4m3")
                        self.succeed("generate", "--model", out, *flags, *dtype)
            # What a killed run left beside its output is not in the way of the next one.
            self.succeed(*self.writers(self.dir / f"{command}-last")[command])

    def test_Cli53_a_stopped_calibration_goes_on_where_it_was(self):
        base = ("calibrate", "--model", MODEL, "--corpus", CORPUS, "--max-tokens", 8000)
        base += ("--saturation-tokens", 1000, "--save-seconds", 0, "--output")
        out, straight = self.dir / "out.json", self.dir / "straight.json"
        process = start(*base, out)
        wait_for_tokens(process, out)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertFalse(out.exists())
        self.assertIn(b"kv8 calibrate: ", err)
        self.succeed(*base, out)
        self.succeed(*base, straight)
        self.assertEqual(out.read_bytes(), straight.read_bytes())
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["out.json", "straight.json"])

    def test_Cli52_a_killed_calibration_leaves_no_report(self):
        out = self.dir / "out.json"
        flags = ("--max-tokens", 20000, "--save-seconds", 0, "--output", out)
        process = start("calibrate", "--model", MODEL, "--corpus", CORPUS, *flags)
        wait_for_tokens(process, out)
        process.kill()
        process.communicate()
        self.assertFalse(out.exists())

    def test_Cli52_what_a_killed_run_left_is_cleared_by_the_next(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        for command, arguments in self.writers(self.dir / "out").items():
            with self.subTest(command):
                names = (".out.tmp-", ".out.partial.tmp-") if command == "calibrate" else (".out.tmp-",)
                for name in names:
                    (self.dir / f"{name}{ended.pid}").mkdir()
                    (self.dir / f"{name}{os.getpid()}").touch()  # of a run that goes on
                self.succeed(*arguments)
                left = sorted(path.name for path in self.dir.iterdir())
                self.assertEqual(left, sorted([*(f"{name}{os.getpid()}" for name in names), "out"]))
                for path in self.dir.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def test_Cli54_the_base_is_only_read(self):
        def stamp():
            return {p.name: (p.stat().st_mtime_ns, p.stat().st_size) for p in MODEL.iterdir()}

        before = stamp()
        for arguments in self.writers(self.dir / "out").values():
            self.succeed(*arguments)
            out = self.dir / "out"
            out.unlink() if out.is_file() else shutil.rmtree(out)
        self.assertEqual(stamp(), before)

    def test_Cli54_an_output_inside_the_base_is_refused_however_it_is_named(self):
        base = link_model(self.dir / "base")
        pack = calibrated().pack
        before = tree(base)
        for cwd, named, output in (
            (base, base, base / "view"),
            (base, ".", "view"),
            (base, "../base/", "./new/view"),
            (self.dir, "base", "base/view"),
        ):
            with self.subTest(base=named, output=output):
                arguments = ("--base-checkpoint", named, "--pack-dir", pack, "--output-dir", output)
                self.refuse("materialize", *arguments, naming=["inside", str(base)], cwd=cwd)
                self.assertEqual(tree(base), before)

    def test_Cli30_a_view_is_usable_whatever_the_name_of_its_place(self):
        flags = ("--token-ids", self.ids(1), "--max-tokens", 1, "--kv-cache-dtype", "fp8_e4m3")
        link_model(self.dir / "base")
        for output in ("view", "./other", "new/deep", "slash/"):
            with self.subTest(output):
                inputs = ("--base-checkpoint", "base", "--pack-dir", calibrated().pack)
                self.succeed("materialize", *inputs, "--output-dir", output, cwd=self.dir)
                self.succeed("generate", "--model", output, *flags, cwd=self.dir)


if __name__ == "__main__":
    unittest.main()
