#!/usr/bin/env python3
"""Write checkpoint directories that kv8 must refuse, each made from a good one.

    scripts/make_hostile.py BASE_DIR OUT_DIR

writes OUT_DIR/open/<case>/ for CASES, OUT_DIR/bind/<case>/ for BIND_CASES and OUT_DIR/run/<case>/
for RUN_CASES: links to the files of BASE_DIR and one thing that is wrong. <case>.expect beside it
holds the text that the error message must contain. CASES are refused when the directory is opened;
BIND_CASES, which need the weights to be looked at, when a model is made of it; RUN_CASES by what
the model computes. Standard library only; tests import the tables.
"""

import json
import os
import pathlib
import shutil
import struct
import sys

INDEX = "model.safetensors.index.json"
SHARD = "model-00005-of-00005.safetensors"  # the smallest: the draft head's
TENSOR = "mtp.fc_hidden.weight"
PLE = "model.language_model.layers.1.ple.ple_embedding."


def link_all(base, out):
    """A checkpoint like `base`, made of links."""
    out.mkdir(parents=True)
    for path in base.iterdir():
        (out / path.name).symlink_to(path.resolve())


def replace(out, name, content):
    """Puts bytes, or nothing for None, in the place of a file."""
    (out / name).unlink(missing_ok=True)
    if content is not None:
        (out / name).write_bytes(content)


def edit_json(out, name, edit):
    document = json.loads((out / name).read_bytes())
    edit(document)
    replace(out, name, json.dumps(document, indent=2).encode())


def split_shard(image):
    """Header as a dict, payload."""
    (length,) = struct.unpack("<Q", image[:8])
    return json.loads(image[8 : 8 + length]), image[8 + length :]


def join_shard(header, payload):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + payload


def config(edit):
    """Edits config.json's text_config in place."""
    return lambda out: edit_json(out, "config.json", lambda c: edit(c["text_config"]))


def config_bytes(content):
    return lambda out: replace(out, "config.json", content)


def index(edit):
    """Edits the index's weight_map in place."""
    return lambda out: edit_json(out, INDEX, lambda i: edit(i["weight_map"]))


def index_bytes(content):
    return lambda out: replace(out, INDEX, content)


def shard(edit, name=SHARD):
    """Replaces a shard by edit(its bytes)."""
    return lambda out: replace(out, name, edit((out / name).read_bytes()))


def header(edit, name=SHARD):
    """Edits a shard's header in place; edit(header, payload)."""

    def apply(image):
        head, payload = split_shard(image)
        edit(head, payload)
        return join_shard(head, payload)

    return shard(apply, name)


def set_entry(**fields):
    """Changes fields of TENSOR's header entry."""
    return header(lambda head, payload: head[TENSOR].update(fields))


def payload_bytes(tensor, offset, content):
    """Overwrites bytes of a tensor."""

    def change(out):
        name = json.loads((out / INDEX).read_bytes())["weight_map"][tensor]
        head, payload = split_shard((out / name).read_bytes())
        at = head[tensor]["data_offsets"][0] + offset
        payload = payload[:at] + content + payload[at + len(content) :]
        replace(out, name, join_shard(head, payload))

    return change


def in_place_of(name, make):
    """Removes a file and lets make(path) put something else there."""

    def change(out):
        (out / name).unlink()
        make(out / name)

    return change


def sparse(size):
    def make(path):
        with open(path, "wb") as file:
            file.truncate(size)

    return make


def overlap(head, payload):
    """Moves a tensor onto the one before it, size unchanged."""
    begin, end = head[TENSOR]["data_offsets"]
    head[TENSOR]["data_offsets"] = [begin - 2, end - 2]


def hole(head, payload):
    """Drops a tensor's entry but not its bytes (and nobody asks for it)."""
    del head[TENSOR]


def hole_without_index_entry(out):
    header(hole)(out)
    index(lambda m: m.pop(TENSOR))(out)


def raw_header(text, payload=b""):
    return shard(lambda image: join_shard(text, payload))


def only_weights_missing(out):
    for path in list(out.iterdir()):
        if path.suffix == ".safetensors" or path.name == INDEX:
            path.unlink()


def add_alias(alias):
    """A second name for an existing tensor's role, with bytes of its own."""

    def change(out):
        def edit(head, payload):
            head[alias] = dict(head.pop("mtp.fc_embedding.weight"))

        header(edit)(out)
        index(lambda m: (m.pop("mtp.fc_embedding.weight"), m.update({alias: SHARD})))(out)

    return change


def rename(new, dtype=None):
    """Renames TENSOR in shard and index."""

    def change(out):
        def edit(head, payload):
            head[new] = head.pop(TENSOR)

        header(edit)(out)
        index(lambda m: (m.pop(TENSOR), m.update({new: SHARD})))(out)

    return change


def as_type(dtype, width):
    def edit(head, payload):
        rows, cols = head[TENSOR]["shape"]
        head[TENSOR].update(dtype=dtype, shape=[rows, int(cols * 2 / width)])

    return header(edit)


LAYER_TYPES = ["linear_attention"] * 11 + ["sliding_attention"]

# name -> (change to the directory, text the error must contain)
_OPEN = {
    # config.json
    "config_missing": (config_bytes(None), "config.json: cannot open"),
    "config_empty": (config_bytes(b""), "not valid JSON"),
    "config_truncated": (config_bytes(b'{"text_config": {'), "not valid JSON"),
    "config_not_utf8": (config_bytes(b'{"model_type": "\xff"}'), "not valid JSON"),
    "config_duplicate_key": (
        config_bytes(b'{"hidden_size": 1, "hidden_size": 2}'),
        'duplicate key "hidden_size"',
    ),
    "config_deep": (config_bytes(b"[" * 1_000_000), "nested deeper than"),
    "config_array": (config_bytes(b"[]"), "is not a JSON object"),
    "config_directory": (in_place_of("config.json", os.mkdir), "not a regular file"),
    "config_fifo": (in_place_of("config.json", os.mkfifo), "not a regular file"),
    "config_link_loop": (
        in_place_of("config.json", lambda p: os.symlink(p.name, p)),
        "config.json: cannot open",
    ),
    "config_oversized": (in_place_of("config.json", sparse(1 << 40)), "bytes; at most"),
    "config_key_missing": (config(lambda c: c.pop("hidden_size")), "hidden_size the key is missing"),
    "config_wrong_type": (config(lambda c: c.update(hidden_size="192")), 'hidden_size is "192"'),
    "config_negative": (config(lambda c: c.update(num_experts=-16)), "num_experts is -16"),
    "config_huge_dimension": (
        config(lambda c: c.update(num_hidden_layers=1 << 62)),
        "num_hidden_layers is 4611686018427387904",
    ),
    "config_unknown_layer_type": (
        config(lambda c: c.update(layer_types=LAYER_TYPES)),
        'layer_types holds "sliding_attention" for layer 11',
    ),
    "config_layer_count": (
        config(lambda c: c.update(num_hidden_layers=13)),
        "layer_types has 12 entries, num_hidden_layers is 13",
    ),
    "config_other_model": (config(lambda c: c.update(model_type="llama")), 'model_type is "llama"'),
    "config_heads": (
        config(lambda c: c.update(num_attention_heads=13)),
        "num_attention_heads is 13, not a multiple",
    ),
    "config_budget": (config(lambda c: c.update(indexer_budget=255)), "indexer_budget is 255"),
    "config_rope_scaling": (
        config(lambda c: c["rope_parameters"].update(rope_type="yarn")),
        'rope_type is "yarn"',
    ),
    "config_ple_layer": (config(lambda c: c.update(ple_layer_ids=[2, 13])), "ple_layer_ids holds 13"),
    "config_ple_layer_moved": (
        config(lambda c: c.update(ple_layer_ids=[2, 7])),
        "no tensor model.layers.6.ple.ple_embedding.layer_multipliers",
    ),
    "config_no_ple": (config(lambda c: c.update(ple_layer_ids=[])), "ple_layer_ids does not hold 2"),
    "config_layer_left_out": (
        config(lambda c: c.update(num_hidden_layers=11, layer_types=c["layer_types"][:11])),
        "tensor model.layers.11.attn_hyper_connection.block_inject_weight.weight: exists, but",
    ),
    "config_ple_seed": (config(lambda c: c.update(seed=1235)), "layer_multipliers: index 0 holds"),
    "config_ple_parts": (
        config(lambda c: c.update(split_ngram_parts=2)),
        "shard_0.weight: has shape [8064, 24], config.json makes it [16128, 24]",
    ),
    "config_ple_base": (
        config(lambda c: c.update(ngram_vocab_size_base=4100)),
        "ngram_heads_vocab_sizes: index 0 holds 4001, config.json makes it 4111",
    ),
    "config_vocab": (config(lambda c: c.update(vocab_size=6145)), "layer_multipliers: index 0 holds"),
    "config_quantised": (
        config(lambda c: c.update(quantization_config={"quant_method": "fp8"})),
        "text_config: quantization_config: says that weights are quantised, but none are",
    ),
    "config_quantised_unknown": (
        config(lambda c: c.update(quantization_config={"quant_method": "mxfp4"})),
        'text_config: quantization_config: quant_method: quant_method is "mxfp4"',
    ),
    "config_ple_type": (
        config(lambda c: c.update(ple_embedding_dtype="float8_e4m3fn")),
        'shard_0.weight: is BF16, but config.json says that ple_embedding_dtype is "float8_e4m3fn"',
    ),
    "generation_config_bad_stop": (
        lambda out: edit_json(out, "generation_config.json", lambda c: c.update(eos_token_id=[2, 6144])),
        "generation_config.json: eos_token_id",
    ),
    # model.safetensors.index.json
    "weights_missing": (only_weights_missing, "model.safetensors: cannot open"),
    "index_empty": (index_bytes(b""), "not valid JSON"),
    "index_no_map": (index_bytes(b'{"metadata": {}}'), "weight_map is missing"),
    "index_empty_map": (index_bytes(b'{"weight_map": {}}'), "at least one tensor"),
    "index_duplicate_key": (
        index_bytes(b'{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}'),
        'duplicate key "a"',
    ),
    "index_parent_path": (
        index(lambda m: m.update({TENSOR: "../" + SHARD})),
        f"places tensor {TENSOR} in",
    ),
    "index_absolute_path": (index(lambda m: m.update({TENSOR: "/dev/zero"})), f"places tensor {TENSOR}"),
    "index_not_a_name": (index(lambda m: m.update({TENSOR: 5})), f"places tensor {TENSOR} in 5"),
    "index_absent_file": (
        index(lambda m: m.update({TENSOR: "model-00006-of-00005.safetensors"})),
        "model-00006-of-00005.safetensors: cannot open",
    ),
    "index_absent_tensor": (
        index(lambda m: m.update({"mtp.norm.weight": SHARD})),
        "tensor mtp.norm.weight: ",
    ),
    "index_wrong_file": (
        index(lambda m: m.update({TENSOR: "model-00004-of-00005.safetensors"})),
        f"model-00004-of-00005.safetensors: tensor {TENSOR}: ",
    ),
    "index_link_loop": (in_place_of(INDEX, lambda p: os.symlink(p.name, p)), "index.json: cannot open"),
    "index_directory": (in_place_of(INDEX, os.mkdir), "not a regular file"),
    # shards
    "shard_missing": (shard(lambda image: None), f"{SHARD}: cannot open"),
    "shard_directory": (in_place_of(SHARD, os.mkdir), f"{SHARD}: not a regular file"),
    "shard_link_loop": (in_place_of(SHARD, lambda p: os.symlink(p.name, p)), f"{SHARD}: cannot open"),
    "shard_dangling": (in_place_of(SHARD, lambda p: os.symlink("nowhere", p)), f"{SHARD}: cannot open"),
    "shard_empty": (shard(lambda image: b""), f"{SHARD}: 0 bytes"),
    "shard_cut_in_length": (shard(lambda image: image[:7]), f"{SHARD}: 7 bytes"),
    "shard_cut_in_header": (shard(lambda image: image[:1000]), "exceeds the 992 bytes that follow"),
    "shard_cut_in_payload": (shard(lambda image: image[:-1]), "do not lie in the payload"),
    "shard_header_length_max": (shard(lambda image: b"\xff" * 8 + image[8:]), "exceeds the cap"),
    "shard_header_zeros": (in_place_of(SHARD, sparse(1 << 30)), "does not start with '{'"),
    "shard_header_garbage": (raw_header(b"{garbage}"), "not valid JSON at byte"),
    "shard_header_deep": (raw_header(b'{"a":' + b"[" * 1_000_000), "nested deeper than"),
    "shard_duplicate_tensor": (raw_header(b'{"a": {}, "a": {}}'), 'duplicate key "a"'),
    "shard_trailing_bytes": (shard(lambda image: image + b"x"), "1 bytes follow the last tensor"),
    "shard_overlap": (header(overlap), f"tensor {TENSOR}: starts at payload byte 73726, overlapping"),
    "shard_hole": (hole_without_index_entry, "leaving a hole after byte 73728"),
    "shard_negative_offset": (
        set_entry(data_offsets=[-2, 147454]),
        f"tensor {TENSOR}: data_offsets holds -2",
    ),
    "shard_reversed_offsets": (set_entry(data_offsets=[147456, 73728]), "do not lie in the payload"),
    "shard_offset_beyond": (set_entry(data_offsets=[73728, 1 << 40]), "do not lie in the payload"),
    "shard_shape_overflow": (
        set_entry(shape=[1 << 32, 1 << 32]),
        f"tensor {TENSOR}: shape [4294967296, 4294967296] overflows",
    ),
    "shard_shape_lies": (set_entry(shape=[192, 191]), "takes 73344 bytes, data_offsets span 73728"),
    "shard_shape_negative": (set_entry(shape=[-192, -192]), "shape holds -192"),
    "shard_unknown_dtype": (set_entry(dtype="F5"), 'unknown dtype "F5"'),
    "shard_half_bytes": (
        set_entry(dtype="F4", shape=[192, 383]),
        "takes 36768 bytes, data_offsets span 73728",
    ),
    # quantised and doubled tensors
    "tensor_fp8": (as_type("F8_E4M3", 1), f"tensor {TENSOR}: has type F8_E4M3"),
    "tensor_fp4": (as_type("F4", 0.5), f"tensor {TENSOR}: has type F4"),
    "tensor_e8m0": (as_type("F8_E8M0", 1), f"tensor {TENSOR}: has type F8_E8M0"),
    "tensor_packed": (as_type("I32", 4), f"tensor {TENSOR}: has type I32"),
    "tensor_scale": (
        rename("mtp.fc_hidden.weight_scale"),
        "tensor mtp.fc_hidden.weight_scale: belongs to a quantised matrix whose codes are not there",
    ),
    "tensor_twice": (
        add_alias("model.mtp.fc_hidden.weight"),
        f"is the same tensor as model.mtp.fc_hidden.weight",
    ),
    "tensor_draft_head": (
        rename("mtp.shared_head.head.weight"),
        "mtp.shared_head.head.weight: differs from lm_head.weight",
    ),
    # n-gram memory
    "ple_multiplier": (
        payload_bytes(PLE + "layer_multipliers", 8, struct.pack("<q", 12345)),
        "layer_multipliers: index 1 holds 12345, config.json makes it",
    ),
    "ple_offset": (
        payload_bytes(PLE + "ngram_heads_offsets", 56, struct.pack("<q", -1)),
        "ngram_heads_offsets: index 7 holds -1, config.json makes it",
    ),
    "ple_shard_missing": (
        index(lambda m: m.pop(PLE + "ngram_embedding.shard_2.weight")),
        "no tensor model.layers.1.ple.ple_embedding.ngram_embedding.shard_2.weight",
    ),
}

_BIND = {
    "weights_hidden_size": (config(lambda c: c.update(hidden_size=256)), "config.json makes it"),
    "weights_experts": (config(lambda c: c.update(num_experts=32)), "config.json makes it"),
    "weights_layers": (
        config(lambda c: c.update(num_hidden_layers=13, layer_types=LAYER_TYPES[:1] + c["layer_types"])),
        "no tensor model.layers.3.linear_attn.in_proj_qkv.weight",
    ),
    "weights_missing_tensor": (index(lambda m: m.pop(TENSOR)), f"no tensor {TENSOR}"),
    "weights_nan_norm": (
        payload_bytes("mtp.pre_fc_norm_hidden.weight", 10, b"\xc0\x7f"),
        "tensor mtp.pre_fc_norm_hidden.weight: element 5 of BF16 [768] is NaN or infinite",
    ),
}

NAN, INFINITY = b"\xc0\x7f", b"\x80\x7f"
LAYERS = "model.language_model.layers."
# Matrices are not searched for NaN when they are opened: a run sees what they do to the logits.
_RUN = {
    f"run_{name}": (payload_bytes(tensor, 0, content), "logits that are not finite")
    for name, tensor, content in (
        ("nan_head", "lm_head.weight", NAN),
        ("infinite_head", "lm_head.weight", INFINITY),
        ("nan_key", LAYERS + "3.self_attn.k_proj.weight", NAN),
        ("nan_gdn", LAYERS + "0.linear_attn.in_proj_qkv.weight", NAN),
        ("nan_draft", "mtp.fc_hidden.weight", NAN),
    )
}


def _builder(change):
    def build(base_dir, out_dir):
        base_dir, out_dir = pathlib.Path(base_dir), pathlib.Path(out_dir)
        link_all(base_dir, out_dir)
        change(out_dir)

    return build


def _with_builders(cases):
    return {name: (_builder(change), expect) for name, (change, expect) in cases.items()}


CASES, BIND_CASES, RUN_CASES = (_with_builders(cases) for cases in (_OPEN, _BIND, _RUN))


def main(argv):
    if len(argv) != 3:
        sys.stderr.write(__doc__)
        return 2
    base, out = pathlib.Path(argv[1]), pathlib.Path(argv[2])
    for kind, cases in (("open", CASES), ("bind", BIND_CASES), ("run", RUN_CASES)):
        for name, (build, expect) in cases.items():
            case = out / kind / name
            if case.exists():
                shutil.rmtree(case)
            build(base, case)
            (out / kind / f"{name}.expect").write_text(expect)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
