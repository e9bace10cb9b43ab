#!/usr/bin/env python3
"""Run a model with an FP16 and with an E4M3 K/V cache on the same texts, and print both side by side.

    scripts/compare_kv_dtypes.py --kv8 BINARY --model DIR --scaled-model DIR --corpus FILE.jsonl

DIR is the checkpoint, the scaled one its materialized view. Of the corpus it takes the first text
of each category, scored token by token, and one needle prompt per length, continued greedily: a
needle is a five-digit code that stands somewhere in the text and is asked for at its end.
Standard library only.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

DTYPES = ("fp16", "fp8_e4m3")
ANSWER_TOKENS = 8
# (shortest, longest) text of a needle prompt in characters, and where in it the code stands.
NEEDLES = ((0, 8_000, 0.0), (8_000, 20_000, 0.5), (20_000, 40_000, 1.0))


def pick(corpus):
    """(texts to score, needle prompts) of a corpus."""
    first, needles = {}, {}
    with open(corpus, encoding="utf-8") as lines:
        for entry in map(json.loads, lines):
            first.setdefault(entry["category"], entry)
            for place in NEEDLES:
                low, high, depth = place
                if low <= len(entry["text"]) < high and entry.get("depth") == depth:
                    needles.setdefault(place, entry)
    return list(first.values()), [needles[place] for place in NEEDLES if place in needles]


class Runner:
    """Runs kv8 on one text with one cache type."""

    def __init__(self, binary, models, scratch):
        self.binary = binary
        self.models = models
        self.prompt = pathlib.Path(scratch) / "prompt.txt"

    def run(self, command, dtype, text, *flags):
        self.prompt.write_text(text, encoding="utf-8")
        arguments = [self.binary, command, "--model", self.models[dtype], "--kv-cache-dtype", dtype]
        arguments += ["--prompt-file", str(self.prompt), "--json", *flags]
        done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)


def mean(values):
    return sum(values) / len(values)


def compare_scores(runner, texts):
    """Rows about every position of the texts."""
    nll = {dtype: [] for dtype in DTYPES}
    positions = same = 0
    for entry in texts:
        scores = {dtype: runner.run("score", dtype, entry["text"]) for dtype in DTYPES}
        for dtype in DTYPES:
            nll[dtype] += scores[dtype]["nll"]
        pairs = list(zip(*(scores[dtype]["argmax"] for dtype in DTYPES)))
        positions += len(pairs)
        same += sum(a == b for a, b in pairs)
    yield ("mean nll", *(f"{mean(nll[dtype]):.4f}" for dtype in DTYPES))
    yield ("same most likely token", "", f"{same / positions:.2%} of {positions}")


def compare_answers(runner, needles):
    """Rows about the answers to the needle prompts, and about the caches that held them."""
    flags = ("--max-tokens", str(ANSWER_TOKENS), "--ignore-eos")
    answers = {
        dtype: [runner.run("generate", dtype, entry["text"], *flags) for entry in needles]
        for dtype in DTYPES
    }
    longest = max(answer["usage"]["prompt_tokens"] for answer in answers["fp16"])
    found = {
        dtype: sum(entry["answer"] in run["text"] for entry, run in zip(needles, answers[dtype]))
        for dtype in DTYPES
    }
    same = sum(a["token_ids"] == b["token_ids"] for a, b in zip(*(answers[d] for d in DTYPES)))
    total = len(needles)
    caches = [answers[dtype][-1]["kv_cache"] for dtype in DTYPES]
    clipped = sum(answer["kv_cache"]["saturated"] for answer in answers["fp8_e4m3"])
    yield ("K/V bytes per token", *(str(cache["bytes_per_token"]) for cache in caches))
    yield (f"needle found, up to {longest} tokens", *(f"{found[d]} of {total}" for d in DTYPES))
    yield ("same answer, token for token", "", f"{same} of {total}")
    yield ("K/V values clipped", "", str(clipped))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for flag in ("--kv8", "--model", "--scaled-model", "--corpus"):
        parser.add_argument(flag, required=True)
    options = parser.parse_args()
    models = {"fp16": options.model, "fp8_e4m3": options.scaled_model}
    texts, needles = pick(options.corpus)
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(options.kv8, models, scratch)
        rows = [("", *DTYPES), *compare_answers(runner, needles), *compare_scores(runner, texts)]
    for row in rows:
        print(f"  {row[0]:<36}{row[1]:>12}{row[2]:>20}")


if __name__ == "__main__":
    main()
