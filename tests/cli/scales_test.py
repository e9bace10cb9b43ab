"""Closed by default: no calibrated scales, no E4M3 run. Nothing is generated before the refusal."""

import itertools
import json
import pathlib
import struct
import tempfile
import unittest

import scale_files
from kv8_cli import MODEL, QSA_LAYERS, REFUSAL_SECONDS, Kv8TestCase, calibrated, link_model
from scale_files import DEFECTS, DRAFT_FILE, DRAFT_NAMES, TARGET_FILE, scale_name

# One, some and all of the layers that need scales.
LAYER_SETS = ((7,), (3, 11), QSA_LAYERS)


class ScalesTest(Kv8TestCase):
    def arguments(self, model, pack=None, speculative=0):
        extra = ("--scale-pack", pack) if pack else ()
        return (
            ("generate", "--model", model, "--token-ids", self.ids(1, 2, 3), "--max-tokens", 4)
            + ("--kv-cache-dtype", "fp8_e4m3", "--speculative-tokens", speculative, *extra)
        )

    def generated(self, pack):
        return self.succeed(*self.arguments(MODEL, pack, speculative=3), "--json").json()["token_ids"]

    def refuse_scales(self, *arguments, naming, **options):
        done = self.refuse(*self.arguments(*arguments, **options), naming=[*naming, "try: "])
        self.assertLess(done.cpu_seconds, REFUSAL_SECONDS)
        return done

    def refuse_both_ways(self, filename, names, defect, speculative=0):
        """As a pack beside the checkpoint and as a view of it."""
        # What is present is named with its file; what is missing by the name it should have.
        naming = [filename] if DEFECTS[defect] else []
        case = pathlib.Path(tempfile.mkdtemp(dir=self.dir))
        pack = scale_files.pack_with(case / "pack", filename, names, defect)
        view = scale_files.view_with(case / "view", filename, names, defect)
        for arguments in ((MODEL, pack), (view, None)):
            done = self.refuse_scales(*arguments, naming=naming, speculative=speculative)
            # One of them is enough, in any spelling of the layer's prefix.
            named = [name for name in names if name[name.index("layers.") :] in done.err]
            self.assertTrue(named, done.err)

    def test_Cli30_good_scales_run_as_pack_and_as_view_alike(self):
        made = calibrated()
        runs = (self.arguments(MODEL, made.pack), self.arguments(made.view))
        packed, viewed = (self.succeed(*arguments, "--json").json() for arguments in runs)
        self.assertEqual(packed["token_ids"], viewed["token_ids"])
        for out in (packed, viewed):
            self.assertEqual(out["kv_cache"]["dtype"], "fp8_e4m3")
            self.assertTrue(out["kv_cache"]["scale_pack_id"])

    def test_a_sidecar_gives_the_scales_of_the_pack_that_it_came_from(self):
        pack = calibrated().pack
        for form in ("layers", "per_layer"):
            sidecar, imported = self.dir / f"{form}.json", self.dir / form
            export = ("pack", "--model", MODEL, "--scale-pack", pack, "--sidecar-form", form)
            self.succeed(*export, "--export-sidecar", sidecar)
            self.refuse(*export, "--export-sidecar", sidecar, naming=[sidecar.name])
            importing = ("pack", "--model", MODEL, "--sidecar", sidecar, "--output-dir", imported)
            self.assertIn("nothing tells", self.succeed(*importing).err)
            layers = json.loads(sidecar.read_text())
            layers = layers.get("per_layer", layers)
            self.assertEqual(sorted(map(int, layers)), [*QSA_LAYERS, 12])
            self.assertEqual(self.generated(imported), self.generated(pack))

    def test_sidecars_with_a_defect_are_refused(self):
        good = {str(layer): {"k_scale": 0.02, "v_scale": 0.004} for layer in QSA_LAYERS}
        first = str(QSA_LAYERS[0])
        defects = [
            ({**good, "4": good[first]}, "layer 4"),
            ({key: good[key] for key in good if key != first}, "missing"),
            ({**good, first: {"k_scale": 0, "v_scale": 0.004}}, "positive"),
            ({**good, first: {"k_scale": [0.02], "v_scale": 0.004}}, "per head"),
        ]
        for i, (content, name) in enumerate(defects):
            sidecar = self.file(f"bad{i}.json", json.dumps(content))
            pack = ("pack", "--model", MODEL, "--sidecar", sidecar, "--output-dir", self.dir / "out")
            self.refuse(*pack, naming=[name, sidecar.name])
            self.assertFalse((self.dir / "out").exists())

    def test_Cli31_no_scales_at_all(self):
        self.refuse_scales(MODEL, naming=[str(MODEL), scale_name(3, "k"), "calibrate"])

    def test_Cli31_target_scales_with_a_defect(self):
        for layers, defect in itertools.product(LAYER_SETS, DEFECTS):
            for sides in ("k", "v", "kv"):  # either half of the pair, and the whole of it
                with self.subTest(layers=layers, defect=defect, sides=sides):
                    names = [scale_name(layer, side) for layer in layers for side in sides]
                    self.refuse_both_ways(TARGET_FILE, names, defect)

    def test_Cli31_draft_scales_with_a_defect(self):
        for names, defect in itertools.product((DRAFT_NAMES[:1], DRAFT_NAMES), DEFECTS):
            with self.subTest(names=names, defect=defect):
                self.refuse_both_ways(DRAFT_FILE, list(names), defect, speculative=1)

    def test_Cli32_a_pack_without_draft_scales_serves_runs_without_speculation(self):
        pack = scale_files.target_only_pack(self.dir / "pack")
        self.succeed(*self.arguments(MODEL, pack))
        naming = [*DRAFT_NAMES, "--speculative-tokens"]
        self.refuse_scales(MODEL, pack, naming=naming, speculative=1)

        view = self.dir / "view"
        base = ("materialize", "--base-checkpoint", MODEL, "--pack-dir", pack)
        self.succeed(*base, "--output-dir", view)
        self.succeed(*self.arguments(view))
        self.refuse_scales(view, naming=naming, speculative=1)

        with_draft = self.dir / "with-draft"
        report = calibrated().report
        self.succeed(*base, "--draft-report", report, "--output-dir", with_draft)
        scales = self.succeed("inspect", with_draft, "--json").json()["kv_scales"]
        self.assertTrue(all(scale["k"] and scale["v"] for scale in scales if scale["draft"]))

    def test_Cli33_scales_of_another_checkpoint(self):
        other = link_model(self.dir / "other")
        index = json.loads((other / scale_files.INDEX).read_text())
        index["metadata"]["revision"] = "other"
        (other / scale_files.INDEX).unlink()
        (other / scale_files.INDEX).write_text(json.dumps(index))
        pack = calibrated().pack
        self.refuse_scales(other, pack, naming=["SHA-256", scale_files.INDEX])

    def test_Cli33_scales_that_were_tampered_with(self):
        pack = scale_files.copy_pack(self.dir / "pack")
        tensors, metadata = scale_files.read_tensors(pack / TARGET_FILE)
        tensors[scale_name(3, "k")] = scale_files.f32(0.5)
        scale_files.write_tensors(pack / TARGET_FILE, tensors, metadata)
        self.refuse_scales(MODEL, pack, naming=[TARGET_FILE, "SHA-256"])

    def test_Cli33_scales_made_to_show_what_wrong_ones_do(self):
        pack = scale_files.copy_pack(self.dir / "pack")
        tensors, metadata = scale_files.read_tensors(pack / TARGET_FILE)
        metadata["negative_control"] = "true"
        scale_files.write_tensors(pack / TARGET_FILE, tensors, metadata)
        scale_files.rehash_pack(pack)
        self.refuse_scales(MODEL, pack, naming=[TARGET_FILE, "negative_control"])

    def test_Cli35_a_checkpoint_with_scales_of_its_own_runs_with_every_cache_type(self):
        model = link_model(self.dir / "model")
        shard = "model-scales.safetensors"
        bf16 = ("BF16", [1], struct.pack("<f", 0.015625)[2:])
        names = [scale_name(layer, side) for layer in QSA_LAYERS for side in "kv"]
        tensors = {name: bf16 for name in names}
        # Of types that nothing here computes with, and that the index does not name.
        unused = {"a.scale": ("F8_E8M0", [3], b"abc"), "a.packed": ("F4", [3, 2], b"abc")}
        (model / shard).touch()
        scale_files.write_tensors(model / shard, {**tensors, **unused}, {})

        def name_scales(index):
            index["weight_map"].update({name: shard for name in names})

        def name_cache(config):
            scheme = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}
            config["quantization_config"] = {"kv_cache_scheme": scheme}

        scale_files.edit_json(model / scale_files.INDEX, name_scales)
        scale_files.edit_json(model / "config.json", name_cache)
        for dtype in ("fp16", "fp8_e4m3", "fp32"):
            arguments = ("generate", "--model", model, "--prompt", "a", "--max-tokens", 2)
            self.succeed(*arguments, "--kv-cache-dtype", dtype)
        shown = self.succeed("inspect", model, "--json").json()["kv_scales"]
        target = [(entry["k"], entry["v"]) for entry in shown if not entry["draft"]]
        self.assertEqual(target, [(0.015625, 0.015625)] * len(QSA_LAYERS))

    def test_Cli34_other_cache_types_take_no_scales(self):
        pack = calibrated().pack
        for dtype in ("fp16", "fp32"):
            arguments = ("generate", "--model", MODEL, "--prompt", "a", "--kv-cache-dtype", dtype)
            self.refuse(*arguments, "--scale-pack", pack, naming=["fp8_e4m3"])
            # A view is a checkpoint like any other for them.
            arguments = ("generate", "--model", calibrated().view, "--prompt", "a")
            self.succeed(*arguments, "--kv-cache-dtype", dtype, "--max-tokens", 1)


if __name__ == "__main__":
    unittest.main()
