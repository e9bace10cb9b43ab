#!/usr/bin/env python3
"""Check that every numbered statement of docs/spec/ has a test named after it, and the reverse.

A statement is `**NUM-3**` in docs/spec/*.md. Its tests have `Num3_` at the start of their name:
TEST(Numerics, Num3_...) in C++, def test_Num3_... in Python. Exit code 1 on a difference.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

STATEMENT = re.compile(r"\*\*([A-Z]+)-(\d+)\*\*")
TEST = re.compile(r"(?:TEST(?:_[FP])?\(\s*\w+,\s*|\bdef test_)([A-Z][a-z]+)(\d+)_")


def statements():
    """{"NUM-3": file} of docs/spec; a number given twice is an offence of its own."""
    found, twice = {}, []
    for path in sorted((ROOT / "docs" / "spec").glob("*.md")):
        for group, number in STATEMENT.findall(path.read_text()):
            key = f"{group}-{number}"
            if key in found:
                twice.append(f"{path.name}: {key} also stands in {found[key]}")
            found[key] = path.name
    return found, twice


def tested():
    """{"NUM-3": file} of the tests."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix not in (".cc", ".py"):
            continue
        for group, number in TEST.findall(path.read_text()):
            found.setdefault(f"{group.upper()}-{number}", path.relative_to(ROOT))
    return found


def main():
    stated, offences = statements()
    covered = tested()
    offences += [f"{stated[key]}: no test for {key}" for key in stated if key not in covered]
    groups = {key.split("-")[0] for key in stated}
    for key, path in covered.items():
        if key not in stated and key.split("-")[0] in groups:
            offences.append(f"{path}: tests {key}, which docs/spec does not state")
    for line in offences:
        print(line)
    print(f"check_spec: {len(stated)} statements, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
