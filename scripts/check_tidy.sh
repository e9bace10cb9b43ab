#!/usr/bin/env bash
# Runs the short clang-tidy list (.clang-tidy) over src/ and tools/; every finding is an error.
#
# It reads the sources as the fuzz preset joins them, a few at a time: their common headers are
# parsed once for each few.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset fuzz >/dev/null
python3 - <<'EOF' | xargs -0 -r -P "$(nproc)" -n 1 clang-tidy -p build/fuzz --quiet 2> >(grep -v 'warnings generated' >&2)
import json, os, pathlib
build = pathlib.Path("build/fuzz").resolve()
for entry in json.loads((build / "compile_commands.json").read_text()):
    file = pathlib.Path(entry["file"])
    root = build if file.is_relative_to(build) else pathlib.Path.cwd()
    if file.relative_to(root).parts[0] in ("src", "tools"):
        print(file, end="\0")
EOF
