#!/usr/bin/env python3
"""Check that every #include and every link line keeps to the rows of scripts/layers.json.

Also: CUDA headers stay in the two folders that own device code, and no file names a path of the
machine it was written on. Prints one line per offence; exit code 1 if there is one.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = json.loads((ROOT / "scripts" / "layers.json").read_text())["rows"]

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
CUDA_HEADER = re.compile(r"(^|/)(cuda|cublas|cudnn|curand|nccl|nvrtc)[a-z_0-9]*\.(h|hpp)$|\.cuh$")
CUDA_FOLDERS = ("src/device/cuda/", "src/ops/cuda/", "tests/unit/ops/cuda/", "bench/ops/cuda/")
LIBRARY = re.compile(r"kv8_library\(\s*(\w+)(.*?)\)", re.S)
LINK = re.compile(r"target_link_libraries\(\s*(?:kv8_)?(\w+)(.*?)\)", re.S)
# Paths of one person's machine, spelled so that this line is not one of them.
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|[w]ork|Users)/\w")


def tracked(*patterns):
    """Files git knows or would add, as paths relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    names = subprocess.run(command + list(patterns), cwd=ROOT, check=True, capture_output=True)
    return sorted(name for name in names.stdout.decode().split("\0") if name)


def read(name):
    path = ROOT / name
    return path.read_text(errors="replace") if path.is_file() else ""


def folder_of(name):
    """The row a source file belongs to."""
    parts = name.split("/")
    if parts[0] == "src":
        return parts[1]
    return "include/kv8" if parts[0] == "include" else "tools"


def check_includes():
    for name in tracked("include/*.h", "src/*.h", "src/*.cc", "src/*.cu", "src/*.cuh", "tools/*"):
        folder = folder_of(name)
        if folder not in ROWS:
            yield f"{name}: folder {folder} has no row in scripts/layers.json"
            continue
        for header in INCLUDE.findall(read(name)):
            target = header.split("/")[0] if "/" in header else None
            if target in ROWS and target != folder and target not in ROWS[folder]:
                yield f'{name}: includes "{header}"; {folder} may include {ROWS[folder]}'


def check_cuda():
    for name in tracked("include/*", "src/*", "tools/*", "tests/*", "bench/*"):
        if name.startswith(CUDA_FOLDERS) or not name.endswith((".h", ".cc")):
            continue
        for header in INCLUDE.findall(read(name)):
            own = header.split("/")[0] in ROWS and header.endswith(".h")  # for any compiler
            if CUDA_HEADER.search(header) and not own:
                yield f'{name}: includes "{header}"; device code lives in {CUDA_FOLDERS[:2]}'


def linked_folders(cmake):
    """folder -> the folders of kv8 that its library links."""
    links = {}
    for folder, body in LIBRARY.findall(cmake):
        depends = re.search(r"\bDEPENDS\b([^A-Z]*)", body)
        links.setdefault(folder, set()).update(depends.group(1).split() if depends else [])
    for target, body in LINK.findall(cmake):
        folder = "tools" if target == "kv8" else target
        links.setdefault(folder, set()).update(re.findall(r"kv8::(\w+)", body))
    return links


def check_links():
    present = {path.parent.name for path in (ROOT / "src").glob("*/CMakeLists.txt")}
    for name in tracked("src/*/CMakeLists.txt", "tools/CMakeLists.txt"):
        own = folder_of(name)
        linked = linked_folders(read(name)).get(own, set())
        wanted = set(ROWS.get(own, [])) & present
        if linked != wanted:
            yield (
                f"{name}: {own} links {sorted(linked)}; "
                f"its row in scripts/layers.json asks for {sorted(wanted)}"
            )


def check_machine_paths():
    suffixes = (".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".md", ".txt", ".cmake", ".json", "run")
    for name in tracked():
        if not name.endswith(suffixes) or name.startswith(("models/", "tests/golden/")):
            continue
        for number, line in enumerate(read(name).splitlines(), 1):
            if MACHINE_PATH.search(line):
                yield f"{name}:{number}: names a path of one machine: {line.strip()[:80]}"


def main():
    checks = (check_includes, check_cuda, check_links, check_machine_paths)
    offences = [line for check in checks for line in check()]
    for line in offences:
        print(line)
    print(f"check_layers: {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
