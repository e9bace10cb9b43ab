"""Scale files, packs and views with one thing wrong, and every hash made right again.

So what refuses them is the check of the scales themselves, not a checksum.
"""

import hashlib
import json
import shutil
import struct

from kv8_cli import calibrated

TARGET_FILE = "model-kvscales.safetensors"
DRAFT_FILE = "model-bf16-kvscales-mtp.safetensors"
MANIFEST = "kvscales-manifest.json"
PROVENANCE = "kvscales-provenance.json"
INDEX = "model.safetensors.index.json"
SUMS = "SHA256SUMS"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def scale_name(layer, side):
    return f"model.language_model.layers.{layer}.self_attn.{side}_scale"


DRAFT_NAMES = tuple(f"mtp.layers.0.self_attn.{side}_scale" for side in "kv")


def f32(value):
    """A tensor as (dtype, shape, bytes)."""
    return ("F32", [], struct.pack("<f", value))


# What can be wrong with one scale: the tensor that takes its place, None for no tensor.
DEFECTS = {
    "missing": None,
    "nan": f32(float("nan")),
    "infinite": f32(float("inf")),
    "zero": f32(0.0),
    "negative": f32(-0.02),
    "unit": f32(1.0),
    "wrong shape": ("F32", [2], struct.pack("<2f", 0.02, 0.02)),
    "wrong type": ("F16", [], struct.pack("<e", 0.02)),
}


def read_tensors(path):
    """({name: (dtype, shape, bytes)}, metadata) of a safetensors file."""
    image = path.read_bytes()
    (length,) = struct.unpack("<Q", image[:8])
    header = json.loads(image[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    payload = image[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], payload[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }, metadata


def write_tensors(path, tensors, metadata):
    header, payload = {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in sorted(tensors.items()):
        span = [len(payload), len(payload) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": span}
        payload += content
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.unlink()
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)


def edit_json(path, edit):
    document = json.loads(path.read_text())
    edit(document)
    path.unlink()
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


def break_scales(path, names, defect):
    """Gives the scales `names` of a file the defect; returns the names that are left."""
    tensors, metadata = read_tensors(path)
    for name in names:
        if DEFECTS[defect] is None:
            del tensors[name]
        else:
            tensors[name] = DEFECTS[defect]
    write_tensors(path, tensors, metadata)
    return sorted(tensors)


def copy_pack(out):
    shutil.copytree(calibrated().pack, out)
    return out


def copy_view(out):
    """A copy of the view whose links still lead to the base."""
    out.mkdir(parents=True)
    for path in calibrated().view.iterdir():
        if path.is_symlink():
            (out / path.name).symlink_to(path.resolve())
        else:
            shutil.copy(path, out / path.name)
    return out


def rehash_pack(pack):
    """Makes manifest and SHA256SUMS agree with the scale files again."""

    def edit(manifest):
        for key in ("scale_file", "draft_scale_file"):
            if key in manifest:
                manifest[key]["sha256"] = sha256(pack / manifest[key]["filename"])

    edit_json(pack / MANIFEST, edit)
    files = sorted(path for path in pack.iterdir() if path.name != SUMS)
    (pack / SUMS).write_text("".join(f"{sha256(path)}  {path.name}\n" for path in files))


def rehash_view(view):
    """Makes the provenance agree with the scale files and the index again."""

    def edit(provenance):
        if (view / TARGET_FILE).exists():
            provenance["target_scale_file_sha256"] = sha256(view / TARGET_FILE)
        has_draft = (view / DRAFT_FILE).exists()
        provenance["mtp_scale_file_sha256"] = sha256(view / DRAFT_FILE) if has_draft else None
        provenance["merged_index_sha256"] = sha256(view / INDEX)

    edit_json(view / PROVENANCE, edit)


def pack_with(out, filename, names, defect):
    """A consistent pack in which the scales `names` of one file have the defect."""
    pack = copy_pack(out)
    left = break_scales(pack / filename, names, defect)
    key = "scale_file" if filename == TARGET_FILE else "draft_scale_file"

    def edit(manifest):
        manifest[key].update(tensor_names=left, tensor_count=len(left))
        # The list of values is for people and would give the defect away.
        manifest.pop("tensors", None)
        manifest.pop("draft_tensors", None)

    edit_json(pack / MANIFEST, edit)
    rehash_pack(pack)
    return pack


def view_with(out, filename, names, defect):
    """A consistent view in which the scales `names` of one file have the defect."""
    view = copy_view(out)
    left = break_scales(view / filename, names, defect)

    def edit(index):
        for name in names:
            if name not in left:
                del index["weight_map"][name]

    edit_json(view / INDEX, edit)
    if not left:
        (view / filename).unlink()
    rehash_view(view)
    return view


def target_only_pack(out):
    """A pack as published: the target's scales and nothing about the draft."""
    pack = copy_pack(out)
    (pack / DRAFT_FILE).unlink()

    def edit(manifest):
        manifest.pop("draft_scale_file")
        manifest.pop("draft_tensors", None)

    edit_json(pack / MANIFEST, edit)
    rehash_pack(pack)
    return pack
