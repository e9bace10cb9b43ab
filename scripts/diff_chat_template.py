#!/usr/bin/env python3
"""Differential test of kv8's chat templates against PyPI `transformers` and `jinja2`.

    pip install jinja2 transformers
    scripts/diff_chat_template.py [--kv8 build/release/kv8] [--cases N] [--seed S]
    scripts/diff_chat_template.py --update

Random conversations go through the bundled template and those of tests/chat/templates, in kv8 and in
Python; the texts must be equal, and where Python fails kv8 must fail. Exits with 1 if not.

--update writes what Python makes of tests/chat/conversations.json and of the templates in
tests/chat/snippets.json, which the unit tests compare with.
"""

import argparse
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile

logging.disable(logging.WARNING)
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUNDLED = ROOT / "models/tiny-qwen4exp"
CHAT = ROOT / "tests/chat"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
MAX_SHOWN = 5
MAX_FAILING = 25

WORDS = ["hello", "", " ", "\n", "a\nb", "  spaced  ", "tab\tx", "Grüße", "日本語", "🎉👩‍👩‍👧", "e\u0301", "مرحبا",
         "<|im_end|>", "<think>x</think>y", "</think>", "{{ x }}", "{% if %}", "'q'", '"dq"', "\\n", "a\\b",
         "<tool_response>r</tool_response>", "1", "null", "\u2028", "\x7f", "\u00a0nbsp\u00a0", "&<>", "%s {}"]
SCHEMAS = [
    {"type": "string", "description": "A \"text\" – é"}, {"type": "integer", "default": 3}, {"type": "number"},
    {"type": "boolean", "default": False}, {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "number"}}, "required": ["k"]}},
    {"type": "array"}, {"type": "object"}, {"type": ["string", "null"]}, {"enum": ["a", "b", 3]},
    {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "boolean"}}},
     "required": ["x"]},
    {"oneOf": [{"type": "string", "description": "one"}, {"type": "null"}]}, {"type": "string", "nullable": True},
]
VALUES = ["text", "", "日本", "two\nlines", 0, -7, 2.5, 1e21, 1e-9, True, None, [],
          [1, [2, {"a": "é"}]], {}, {"z": 1, "a": [None]}]


def text(rng):
    return "".join(rng.choice(WORDS) + rng.choice(["", " ", "\n"]) for _ in range(rng.choice([0, 1, 1, 2, 4])))


def content(rng):
    kind = rng.random()
    if kind < 0.8:
        return text(rng)
    if kind < 0.93:
        return [rng.choice([{"type": "text", "text": text(rng)}, {"type": "image"}, {"type": "image", "url": "u"}])
                for _ in range(rng.randrange(3))]
    return None


def tool(rng):
    function = {"name": rng.choice(["lookup", "add_2", "sök"])}
    if rng.random() < 0.9:
        function["description"] = text(rng)
    names = rng.sample(["q", "limit", "Alpha", "beta", "items", "ünï"], rng.randrange(5))
    if rng.random() < 0.9:
        function["parameters"] = {"type": "object", "properties": {n: rng.choice(SCHEMAS) for n in names}}
        if rng.random() < 0.7:
            function["parameters"]["required"] = rng.sample(names, rng.randint(0, len(names)))
    return {"type": "function", "function": function}


def call(rng):
    names = rng.sample(["q", "limit", "deep", "ü"], rng.randrange(4))
    out = {"type": "function",
           "function": {"name": rng.choice(["lookup", "add_2"]), "arguments": {n: rng.choice(VALUES) for n in names}}}
    if rng.random() < 0.7:
        out["id"] = rng.choice(["call00001", "x", "123456789"])
    return out


def message(rng, role):
    out = {"role": role}
    if rng.random() < 0.95:
        out["content"] = content(rng)
    if role == "assistant":
        if rng.random() < 0.3:
            out[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice([text(rng), None])
        if rng.random() < 0.3:
            out["tool_calls"] = [call(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        elif rng.random() < 0.1:
            out["tool_calls"] = rng.choice([None, []])
    if role == "tool":
        out["tool_call_id"] = rng.choice(["call00001", "123456789", "x"])
        if rng.random() < 0.5:
            out["name"] = "lookup"
    return out


def conversation(rng):
    messages = [message(rng, "system")] if rng.random() < 0.5 else []
    if rng.random() < 0.75:  # a regular one
        for _ in range(rng.choice([1, 1, 2, 3])):
            messages.append({"role": "user", "content": text(rng)})
            messages.append(message(rng, "assistant"))
            for _ in messages[-1].get("tool_calls") or []:
                messages.append(message(rng, "tool"))
            if messages[-1]["role"] == "tool":
                messages.append({"role": "assistant", "content": text(rng)})
        if rng.random() < 0.8:
            messages.append({"role": "user", "content": text(rng)})
    else:
        roles = ["user", "assistant", "tool", "system", "developer", "critic"]
        messages += [message(rng, rng.choices(roles, [6, 5, 3, 1, 1, 1])[0]) for _ in range(rng.randint(1, 5))]
    out = {"messages": messages, "add_generation_prompt": rng.random() < 0.6}
    if rng.random() < 0.4:
        out["tools"] = [tool(rng) for _ in range(rng.randint(0, 3))]
    variables = {"enable_thinking": rng.random() < 0.5, "tools_in_user_message": False, "effort": "high",
                 "date_string": "1 Jan", "bos_token": "<bos>", "documents": [{"title": "t"}]}
    out["chat_template_kwargs"] = dict(rng.sample(sorted(variables.items()), rng.choice([0, 0, 1, 2])))
    return out


def render(template, case):
    """What Python makes of it; None where it fails."""
    variables = {**TOKENS, **case.get("chat_template_kwargs", {})}
    # apply_chat_template leaves out what is null, before it renders.
    messages = [{k: v for k, v in m.items() if v is not None} for m in case["messages"]]
    try:
        return render_jinja_template(
            conversations=[messages], tools=case.get("tools"), documents=variables.pop("documents", None),
            chat_template=template, add_generation_prompt=case.get("add_generation_prompt", True),
            **variables)[0][0]
    except Exception:  # whatever a template can run into
        return None


def render_snippet(template, variables):
    variables = dict(variables)
    try:
        return render_jinja_template(conversations=[variables.pop("messages")],
                                     chat_template=template, **variables)[0][0]
    except Exception:
        return None


def run_kv8(kv8, directory, cases):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as batch:
        batch.writelines(json.dumps(case) + "\n" for case in cases)
        batch.flush()
        return subprocess.run([*kv8, "tokenize", str(directory), "--chat", "--batch", batch.name, "--json"],
                              capture_output=True)


def compare(name, kv8, template, cases):
    """Number of cases that differ; prints the first few."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "tokenizer.json").symlink_to(BUNDLED / "tokenizer.json")
        (directory / "tokenizer_config.json").write_text(json.dumps(TOKENS))
        (directory / "chat_template.jinja").write_bytes(template.encode())
        wanted = [render(template, case) for case in cases]
        good = [(case, want) for case, want in zip(cases, wanted) if want is not None]
        failing = [case for case, want in zip(cases, wanted) if want is None]
        bad = []
        done = run_kv8(kv8, directory, [case for case, _ in good])
        if done.returncode == 0:
            results = json.loads(done.stdout)["results"]
            bad += [f"{case!r}\n  kv8    {result['text']!r}\n  Python {want!r}"
                    for (case, want), result in zip(good, results) if result["text"] != want]
        else:
            bad.append(f"kv8 failed where Python did not: {done.stderr.decode()}")
        for case in failing[:MAX_FAILING]:
            if run_kv8(kv8, directory, [case]).returncode != 1:
                bad.append(f"{case!r}\n  kv8 did not fail, Python did")
    for line in bad[:MAX_SHOWN]:
        print(f"{name}: {line}")
    print(f"{name}: {len(cases)} conversations, {len(failing)} of them refused, {len(bad)} differ", flush=True)
    return len(bad)


def templates():
    found = {"bundled": (BUNDLED / "chat_template.jinja").read_text()}
    for path in sorted((CHAT / "templates").glob("*.jinja")):
        found[path.stem] = path.read_text()
    return found


def update():
    cases = json.loads((CHAT / "conversations.json").read_text())["conversations"]
    expected = {name: [render(template, case) for case in cases] for name, template in templates().items()}
    write(CHAT / "expected.json", {
        "about": "What transformers renders for conversations.json, in its order; null where it fails. "
                 "Written by scripts/diff_chat_template.py --update.",
        "special_tokens": TOKENS, "texts": expected})
    snippets = json.loads((CHAT / "snippets.json").read_text())
    for case in snippets["cases"]:
        case["expected"] = render_snippet(case["template"], snippets["variables"])
    write(CHAT / "snippets.json", snippets)
    failing = sum(case["expected"] is None for case in snippets["cases"])
    print(f"{len(cases)} conversations, {len(snippets['cases'])} snippets, {failing} of them fail")


def write(path, document):
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kv8", nargs="+", default=[str(ROOT / "build/release/kv8")])
    parser.add_argument("--cases", type=int, default=2000, help="conversations for each template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--update", action="store_true", help="write the expectations of the unit tests")
    args = parser.parse_args()
    if args.update:
        update()
        return
    rng = random.Random(args.seed)
    cases = [conversation(rng) for _ in range(args.cases)]
    differing = sum(compare(name, args.kv8, template, cases) for name, template in templates().items())
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
