"""Scales belong to one checkpoint, the whole of it; inspect says what generate will say."""

import json
import os
import shutil
import unittest

import scale_files
from kv8_cli import CORPUS, MODEL, Kv8TestCase, calibrated, link_model, start
from scale_files import INDEX, PROVENANCE, TARGET_FILE, scale_name

EMBEDDING = "model.language_model.embed_tokens.weight"


class LineageTest(Kv8TestCase):
    def run_flags(self, model, *flags):
        return ("generate", "--model", model, "--token-ids", self.ids(1, 2, 3), "--max-tokens", 2,
                "--kv-cache-dtype", "fp8_e4m3", "--json", *flags)

    def with_config(self, key, value):
        model = link_model(self.dir / f"with-{key}")
        config = json.loads((model / "config.json").read_text())
        config["text_config"][key] = value
        (model / "config.json").unlink()
        (model / "config.json").write_text(json.dumps(config))
        return model

    def with_other_embedding(self, out, base):
        """A copy of links to `base`, but one bit of the embedding."""
        model = link_model(out, base)
        shard = model / json.loads((MODEL / INDEX).read_text())["weight_map"][EMBEDDING]
        image = bytearray(shard.read_bytes())
        length = int.from_bytes(image[:8], "little")
        begin = json.loads(image[8 : 8 + length])[EMBEDDING]["data_offsets"][0]
        image[8 + length + begin] ^= 1
        shard.unlink()
        shard.write_bytes(image)
        return model

    def broken_views(self):
        """(name, view, a text of the error)."""

        def scale_edited(name, edit, fix=False):
            view = scale_files.copy_view(self.dir / name)
            tensors, metadata = scale_files.read_tensors(view / TARGET_FILE)
            edit(tensors)
            scale_files.write_tensors(view / TARGET_FILE, tensors, metadata)
            if fix:
                scale_files.rehash_view(view)
            return view

        def grow(tensors, factor):
            names = (scale_name(7, "k"), scale_name(7, "v"))
            for name in names:
                dtype, shape, content = tensors[name]
                (value,) = scale_files.struct.unpack("<f", content)
                tensors[name] = (dtype, shape, scale_files.struct.pack("<f", value * factor))

        def swap(tensors):
            k, v = scale_name(7, "k"), scale_name(7, "v")
            tensors[k], tensors[v] = tensors[v], tensors[k]

        yield "times 4", scale_edited("x4", lambda t: grow(t, 4)), TARGET_FILE
        # With every hash made right, the weights themselves still tell.
        big = scale_edited("3e38", lambda t: grow(t, 1e38), fix=True)
        yield "times 1e38", big, "cannot give more"
        yield "swapped", scale_edited("swapped", swap), TARGET_FILE
        view = scale_files.copy_view(self.dir / "unparsable")
        (view / PROVENANCE).write_text("{")
        yield "provenance", view, PROVENANCE
        view = scale_files.copy_view(self.dir / "no-projection")
        scale_files.edit_json(
            view / INDEX, lambda j: j["weight_map"].pop(
                "model.language_model.layers.7.self_attn.k_proj.weight"))
        scale_files.rehash_view(view)
        yield "no K projection", view, "K/V weights"
        yield "embedding", self.with_other_embedding(self.dir / "e", calibrated().view), "SHA-256"

    def test_Cli39_inspect_refuses_what_generate_refuses(self):
        for name, view, text in self.broken_views():
            with self.subTest(name):
                runs = (self.run_flags(view), ("inspect", view), ("inspect", view, "--json"))
                errors = [self.refuse(*run, naming=[text]).err.partition(": ")[2] for run in runs]
                self.assertEqual(len(set(errors)), 1, errors)
        # Weights alone, without scales.
        bare = link_model(self.dir / "bare")
        scale_files.edit_json(
            bare / INDEX, lambda j: j["weight_map"].pop(
                "model.language_model.layers.7.self_attn.v_proj.weight"))
        self.refuse("inspect", bare, naming=["v_proj.weight"])

    def test_Cli36_another_lineage_runs_where_it_is_accepted(self):
        model = self.with_config("rms_norm_eps", 1e-5)
        pack = ("--scale-pack", calibrated().pack)
        naming = ["rms_norm_eps", "1e-06", "1e-05", "--accept-lineage"]
        self.refuse(*self.run_flags(model, *pack), naming=naming)
        done = self.succeed(*self.run_flags(model, *pack, "--accept-lineage"))
        differs = ["config.json: rms_norm_eps"]
        self.assertEqual(done.json()["kv_cache"]["accepted_lineage"], differs)
        self.assertIn("rms_norm_eps", done.err)
        same = self.succeed(*self.run_flags(MODEL, *pack, "--accept-lineage")).json()
        self.assertEqual(same["kv_cache"]["accepted_lineage"], [])

        make = ("materialize", "--base-checkpoint", model, "--pack-dir", calibrated().pack)
        view = self.dir / "view"
        self.refuse(*make, "--output-dir", view, naming=naming)
        made = self.succeed(*make, "--output-dir", view, "--accept-lineage", "--json").json()
        self.assertEqual(made["accepted_lineage"], differs)
        for out in (self.succeed(*self.run_flags(view)).json()["kv_cache"],
                    self.succeed("inspect", view, "--json").json()["kv_scales_binding"]):
            self.assertEqual(out["accepted_lineage"], differs)

    def test_Cli36_a_fine_tune_of_what_makes_no_k_or_v_is_another_lineage(self):
        model = self.with_other_embedding(self.dir / "tuned", MODEL)
        pack = ("--scale-pack", calibrated().pack)
        self.refuse(*self.run_flags(model, *pack), naming=["SHA-256 of all weights"])
        out = self.succeed(*self.run_flags(model, *pack, "--accept-lineage")).json()
        self.assertEqual(out["kv_cache"]["accepted_lineage"], ["SHA-256 of all weights"])

    def test_Cli37_trusted_weights_are_said_to_be_trusted(self):
        model = self.with_other_embedding(self.dir / "tuned", MODEL)
        flags = ("--scale-pack", calibrated().pack)
        nowhere = {**os.environ, "XDG_CACHE_HOME": str(self.dir / "cache")}
        done = self.succeed(*self.run_flags(model, *flags, "--trust-weights"), env=nowhere)
        self.assertEqual(done.json()["kv_cache"]["weights"], "trusted")
        self.assertIn("--trust-weights", done.err)
        checked = self.succeed(*self.run_flags(MODEL, *flags), env=nowhere).json()
        self.assertEqual(checked["kv_cache"]["weights"], "checked")
        fp16 = self.succeed("generate", "--model", MODEL, "--prompt", "a", "--max-tokens", 1, "--json")
        self.assertEqual(fp16.json()["kv_cache"]["weights"], "none")

    def test_Cli38_weights_that_change_end_a_run(self):
        model = self.dir / "model"
        shutil.copytree(MODEL, model)
        running = start("generate", "--model", model, "--prompt", "In Lagos", "--ignore-eos")
        self.addCleanup(running.kill)
        running.stdout.read(20)  # it is at work
        shard = model / "model-00001-of-00005.safetensors"
        os.utime(shard)
        out, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 1, out + err)
        self.assertIn(f"{shard}: the weights changed while they were in use", err.decode())

    def test_Cli54_outputs_inside_the_checkpoint_are_refused(self):
        base = self.dir / "base"
        shutil.copytree(MODEL, base)
        made = calibrated()
        before = sorted(path.name for path in base.iterdir())
        measure = ("--corpus", CORPUS, "--max-tokens", 100)
        view = self.dir / "view"
        self.succeed("materialize", "--base-checkpoint", base, "--pack-dir", made.pack,
                     "--output-dir", view)
        for model, inside in ((base, base), (view, base), (view, view)):
            with self.subTest(model=model.name, inside=inside.name):
                self.refuse("calibrate", "--model", model, *measure, "--output",
                            inside / "report.json", naming=["lies inside"])
        self.refuse("pack", "--report", made.report, "--model", base, "--output-dir",
                    base / "pack", naming=["lies inside"])
        self.assertEqual(sorted(path.name for path in base.iterdir()), before)


if __name__ == "__main__":
    unittest.main()
