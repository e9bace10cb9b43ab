#!/usr/bin/env python3
"""Check the size budget: functions of 40 lines, files of 400, device files of 700.

Exceptions stand in scripts/size_exceptions.json, each by name with its reason; one that is no
longer needed is an offence too. Relies on clang-format's layout: what stands at the left margin
and ends in `{` opens a function unless it is a type or a namespace. Exit code 1 on an offence.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXCEPTIONS = json.loads((ROOT / "scripts" / "size_exceptions.json").read_text())

FUNCTION_LINES = 40
FILE_LINES = 400
DEVICE_FILE_LINES = 700

NOT_A_FUNCTION = re.compile(
    r"^\s*(namespace|class|struct|enum|union|extern|typedef|using|if|for|while|switch|else|do)\b"
    r"|^\s*(template\s*<.*>\s*)?(class|struct|union)\b"
    r"|=\s*(std::to_array<.*>\()?\{+$"
)
NAME = re.compile(r"([~\w:]+|operator\S+)\s*\(")


def sources(*patterns):
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    names = subprocess.run(command + list(patterns), cwd=ROOT, check=True, capture_output=True)
    return sorted(set(name for name in names.stdout.decode().split("\0") if name))


def functions(lines):
    """(name, first line, number of lines) of each function body at indent 0 or 2."""
    number = 0
    while number < len(lines):
        line = lines[number]
        if not line.endswith("{") or line.lstrip().startswith("//"):
            number += 1
            continue
        start = signature_start(lines, number)
        signature = " ".join(part.strip() for part in lines[start : number + 1])
        name = NAME.search(signature)
        depth = len(lines[start]) - len(lines[start].lstrip())
        if not name or NOT_A_FUNCTION.search(signature) or depth > 2:
            number += 1
            continue
        closing = re.compile(r"^ {%d}\}" % depth)
        end = next((i for i in range(number + 1, len(lines)) if closing.match(lines[i])), number)
        yield name.group(1), start + 1, end - start + 1
        number = end + 1


def signature_start(lines, number):
    """First line of the declaration that ends at `number`: after the last blank, brace or `;`."""
    start = number
    while start > 0:
        before = lines[start - 1].strip()
        if not before or before.endswith((";", "}", "{", ":")) or before.startswith(("//", "#")):
            break
        start -= 1
    return start


def offences():
    used = set()
    for name in sources("*.h", "*.cc", "*.cu", "*.cuh", "*.py"):
        path = ROOT / name
        if not path.is_file():
            continue
        lines = path.read_text().splitlines()
        device = name.endswith((".cu", ".cuh"))
        limit = DEVICE_FILE_LINES if device else FILE_LINES
        found = [(name, f"{name}: {len(lines)} lines, at most {limit}")] if len(lines) > limit else []
        if not name.endswith(".py"):
            found += [
                (f"{name}:{function}", f"{name}:{first}: {function} has {size} lines, at most 40")
                for function, first, size in functions(lines)
                if size > FUNCTION_LINES
            ]
        for key, text in found:
            used.add(key)
            if key not in EXCEPTIONS:
                yield text
    for key in sorted(set(EXCEPTIONS) - used):
        yield f"scripts/size_exceptions.json: {key} keeps to the budget; remove its line"


def main():
    found = list(offences())
    for line in found:
        print(line)
    print(f"check_sizes: {len(found)} offences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
