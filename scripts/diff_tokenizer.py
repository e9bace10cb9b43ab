#!/usr/bin/env python3
"""Differential test of kv8's tokenizer against PyPI `tokenizers`: same ids, same tokens, same text.

    pip install tokenizers
    scripts/diff_tokenizer.py [--kv8 build/release/kv8] [--cases N] [--seed S] [--all-code-points]

Inputs: the corpora, every script's characters one by one, random mixed Unicode with added tokens in
it, and random ids to decode. They go through three tokenizers: the bundled one, the same with the
Qwen2 expression, and one in which every pair of bytes merges, so that a piece boundary in the wrong
place or a wrong order of merges cannot go unseen. Exits with 1 if anything differs.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUNDLED = ROOT / "models/tiny-qwen4exp"
QWEN2_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
               r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MAX_SHOWN = 5
MAX_BATCH_CHARS = 1 << 20

# Ranges that random text draws from; each is as likely as the next, whatever its size.
RANGES = [
    (0x20, 0x7E), (0x61, 0x7A), (0x41, 0x5A), (0x30, 0x39), (0x00, 0x1F), (0x7F, 0xFF),
    (0x100, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x700, 0x8FF),
    (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x1CFF),
    (0x1D00, 0x1DFF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x2C00, 0x2FFF),
    (0x3000, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xF8FF),
    (0xF900, 0xFAFF), (0xFB00, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x323AF),
    (0x323B0, 0x10FFFF), (0xE0000, 0xE01EF), (0x1F300, 0x1FAFF),
]
WHITE_SPACE = [chr(c) for c in (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B),
                                0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x200B, 0x180E, 0xFEFF)]
FRAGMENTS = [
    "'s", "'S", "'\u017f", "'t", "'re", "'RE", "'vE", "'m", "'ll", "'lL", "'d", "''s", "'\u212a", "'st",
    "\u2019s", "\r\n", "\n\r", "\r", "\n\n", " \n", "\n ", "\t", "  ", "   ", " \r\n ", "\u00a0 ",
    "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\U0001F1E9\U0001F1EA", "\u2764\ufe0f", "\U0001F44D\U0001F3FD",
    "e\u0301", "a\u0323\u0302", "a\u0302\u0323", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0915\u093c", "\u0958",
    "\u212b", "\u2126", "\u00df", "\u1e9e", "\ufb05", "\ufb06", "\u0345\u0301", "\U00011935\U00011930", "\u0344",
    "<|im_start|>", "<|im_end|>", "<|im_start", "<think>", "</think>", "<tool_call>", "<<think>>", "<|",
    "<|endoftext|><|endoftext|>", "the ", " and", "function", "return", "def f(x):\n    return x\n",
    "12345", "3.14", "\u0661\u0662", "\uff11", "\u00b2", "\u216b", "x" * 70, "ab" * 40, " " * 70,
]


def random_text(rng):
    out = []
    kinds = rng.choice([("range",), ("range", "space"), ("fragment", "space"), ("any", "fragment"),
                        ("range", "fragment", "space", "any", "mark")])
    home = rng.choice(RANGES)
    for _ in range(rng.choice([1, 2, 3, 5, 8, 13, 30, 100])):
        kind = rng.choice(kinds)
        if kind == "space":
            out.append(rng.choice(WHITE_SPACE) * rng.choice([1, 1, 1, 2, 3]))
        elif kind == "fragment":
            out.append(rng.choice(FRAGMENTS))
        elif kind == "mark":
            out.append(chr(rng.randrange(0x300, 0x370)))
        else:
            low, high = home if kind == "range" and rng.random() < 0.8 else rng.choice(RANGES)
            out.append(chr(rng.randint(low, high)))
    return "".join(out)


def code_point_texts(every):
    """Each character next to letters, digits, marks, spaces, line breaks and apostrophes."""
    dense = [(0, 0x33FF), (0xA000, 0xABFF), (0xD7A0, 0xFFFF), (0x10000, 0x1FFFF), (0xE0000, 0xE01FF)]
    points = range(0x110000) if every else sorted(
        {c for low, high in dense for c in range(low, high + 1)} | set(range(0, 0x110000, 61)) |
        set(range(0x2EB00, 0x2F000)) | set(range(0x323A0, 0x323D0)))
    chars = [chr(c) for c in points if not 0xD800 <= c <= 0xDFFF]
    around = "a{0}b{0}{0}1{0} {0}x '{0}e{0}\n {0}\u0334{0}\u0345\u0301{0}"
    for i in range(0, len(chars), 64):
        yield "".join(around.format(c) for c in chars[i:i + 64])


def corpus_texts():
    for path in sorted((ROOT / "examples/corpus").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            yield line
            yield from (v for v in json.loads(line).values() if isinstance(v, str))


def with_qwen2_split(definition):
    steps = definition["pre_tokenizer"]["pretokenizers"]
    steps[0]["pattern"]["Regex"] = QWEN2_SPLIT
    return definition


def with_every_pair(definition, rng):
    """Every two bytes merge, in random order of rank, and a sample of the results merge again."""
    model, added = definition["model"], definition["added_tokens"]
    alphabet = [t for t in model["vocab"] if len(t) == 1]
    assert len(alphabet) == 256
    pairs = [(a, b) for a in alphabet for b in alphabet]
    rng.shuffle(pairs)
    longer = {}
    while len(longer) < 30000:
        left, right = "".join(rng.choice(pairs)), "".join(rng.choice(pairs))
        longer.setdefault(left + right, (left, right))
    merges = pairs + list(longer.values())
    rng.shuffle(merges)
    tokens = [t["content"] for t in added] + alphabet + sorted({a + b for a, b in merges})
    model["vocab"] = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
    model["merges"] = [list(m) for m in merges]
    for token in added:
        token["id"] = model["vocab"][token["content"]]
    return definition


def run_kv8(kv8, directory, cases):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as batch:
        batch.writelines(json.dumps(case) + "\n" for case in cases)
        batch.flush()
        done = subprocess.run([*kv8, "tokenize", str(directory), "--batch", batch.name, "--json"],
                              capture_output=True)
    if done.returncode != 0:
        sys.exit(f"kv8 failed with {done.returncode}: {done.stderr.decode()}")
    return json.loads(done.stdout)["results"]


def expected(reference, case):
    if "text" in case:
        encoding = reference.encode(case["text"], add_special_tokens=False)
        return {"token_ids": encoding.ids, "tokens": encoding.tokens}
    return {"text": reference.decode(case["token_ids"], skip_special_tokens=False)}


def batches(cases):
    """Cases in groups whose results fit into memory."""
    group, size = [], 0
    for case in cases:
        group.append(case)
        size += len(case.get("text", "")) + 1
        if size > MAX_BATCH_CHARS:
            yield group
            group, size = [], 0
    yield group


def compare(name, kv8, definition, cases):
    """Number of cases that differ; prints the first few."""
    bad, total_bytes = 0, 0
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "tokenizer.json"
        path.write_text(json.dumps(definition))
        reference = tokenizers.Tokenizer.from_file(str(path))
        vocab = reference.get_vocab_size()
        rng = random.Random(vocab)
        cases = cases + [{"token_ids": rng.choices(range(vocab), k=rng.randint(0, 12))}
                         for _ in range(len(cases) // 4)]
        for batch in batches(cases):
            results = run_kv8(kv8, directory, batch)
            assert len(results) == len(batch), (len(results), len(batch))
            for case, result in zip(batch, results):
                total_bytes += len(case.get("text", "").encode())
                want = expected(reference, case)
                if result == want:
                    continue
                bad += 1
                if bad <= MAX_SHOWN:
                    print(f"{name}: {case!r}\n  kv8        {result}\n  tokenizers {want}")
    print(f"{name}: {len(cases)} cases, {total_bytes} bytes of text, {bad} differ", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kv8", nargs="+", default=[str(ROOT / "build/release/kv8")])
    parser.add_argument("--cases", type=int, default=20000, help="random texts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all-code-points", action="store_true", help="not a sample of the big ranges")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"tokenizers {tokenizers.__version__}, seed {args.seed}")

    text = (BUNDLED / "tokenizer.json").read_text()
    random_texts = [random_text(rng) for _ in range(args.cases)]
    points = list(code_point_texts(args.all_code_points))
    cases = [{"text": t} for t in [*corpus_texts(), *points, *random_texts]]
    every_pair = with_every_pair(json.loads(text), rng)
    differing = (compare("bundled", args.kv8, json.loads(text), cases) +
                 compare("qwen2 split", args.kv8, with_qwen2_split(json.loads(text)), cases) +
                 compare("every pair", args.kv8, every_pair, cases) +
                 compare("every pair, qwen2 split", args.kv8, with_qwen2_split(every_pair), cases))
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
