#!/usr/bin/env python3
"""Compiles every device source for every architecture with CUDA 12.9, without a GPU or a toolkit.

    scripts/compile_device.py [--arch 70 ...] [--output DIR] [--report FILE] [--check]
    scripts/compile_device.py --fetch

CUDA 13 has no sm_70; 12.9 is the last that has. Its compiler (NVRTC), assembler (ptxas) and headers
are PyPI packages, installed once into build/cuda12. Per source and architecture this leaves
<source>.sm<arch>.ptx and .cubin in DIR (build/device): what KV8_CUDA_SM70 embeds. FILE gets a table
of registers, spills, stack and shared memory per kernel. --check instead compares the table with
FILE, whose numbers are those of this compiler alone. A kernel that does not begin with
AfterEarlierKernels() is an error. Exit code 1 on an error or a difference. --fetch installs the
compiler and does no more.
"""

import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLCHAIN = ROOT / "build" / "cuda12"
PACKAGES = (
    "nvidia-cuda-nvrtc-cu12==12.9.86",  # compiler
    "nvidia-cuda-nvcc-cu12==12.9.86",  # assembler and crt/ headers
    "nvidia-cuda-runtime-cu12==12.9.79",  # cuda_fp16.h and the like
    "nvidia-cuda-cccl-cu12==12.9.27",  # nv/target, which those include
)
ARCHITECTURES = (70, 75, 80, 90)
# NVRTC has no standard headers; device code needs no more of <cstdint> and <cstddef> than this.
CSTDINT = """
#pragma once
namespace std {
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long long;
}
"""
CSTDDEF = """
#pragma once
namespace std {
enum class byte : unsigned char {};
}
"""
RESOURCES = re.compile(
    r"Compiling entry function '(\w+)' for.*?"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
    r"Used (\d+) registers(.*?)\n",
    re.S,
)
KERNEL = re.compile(r"^\.visible \.entry (\w+)\((.*?)^\}", re.S | re.M)
EARLY_LAUNCHES = 90  # the first architecture with them
WAIT = re.compile(r"^\s*griddepcontrol\.wait;", re.M)  # not under a predicate
# What a kernel may not do before it waits: use memory that others write, or end. Prefetches may, and
# copies to shared memory, which RowsProduct makes of weights.
TOO_EARLY = re.compile(
    r"\b(ldu?|st|atom|red)\.(?!param|local)|\bcp\.(?!async)|\bcall\b|\b(ret|exit);"
)
BRANCH = re.compile(r"\bbra(?:\.uni)?\s+([$\w]+);")


def packages():
    """The folder that holds the packages, installed when missing."""
    stamp = TOOLCHAIN / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(PACKAGES):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        command += ["--root-user-action", "ignore"]  # --target touches no system folder
        subprocess.run(command + ["--target", str(TOOLCHAIN), *PACKAGES], check=True)
        stamp.write_text("\n".join(PACKAGES))
    return TOOLCHAIN / "nvidia"


class Nvrtc:
    """The few calls of libnvrtc that compiling takes."""

    def __init__(self, nvidia):
        lib = nvidia / "cuda_nvrtc" / "lib"
        ctypes.CDLL(str(next(lib.glob("libnvrtc-builtins.so.*"))), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(next(lib.glob("libnvrtc.so.*"))))

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode(errors="replace")

    def compile(self, source, options):
        """(ptx or None, log)."""
        program = ctypes.c_void_p()
        headers = (ctypes.c_char_p * 2)(CSTDINT.encode(), CSTDDEF.encode())
        names = (ctypes.c_char_p * 2)(b"cstdint", b"cstddef")
        text = source.read_bytes()
        name = str(source.relative_to(ROOT)).encode()
        self.library.nvrtcCreateProgram(ctypes.byref(program), text, name, 2, headers, names)
        flags = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        failed = self.library.nvrtcCompileProgram(program, len(options), flags)
        log = self.text(program, "ProgramLog")
        # True, and no news: this compiler was chosen because it still has sm_70.
        log = "\n".join(line for line in log.splitlines() if "are deprecated" not in line)
        return (None if failed else self.text(program, "PTX")), log.strip("\0\n")


def unready(ptx):
    """The kernels that do not wait for earlier ones before all else (AfterEarlierKernels)."""
    names = []
    kernels = KERNEL.findall(ptx)
    for name, body in kernels:
        wait = WAIT.search(body)
        before = body[: wait.start()] if wait else ""
        around = any(label + ":" not in before for label in BRANCH.findall(before))
        if not wait or around or TOO_EARLY.search(before):
            names.append(name)
    if len(kernels) != ptx.count(".entry "):
        names.append("a kernel that was not found in its PTX")
    return names


def compile_one(job):
    """(source, arch, resources per kernel, messages); a message is a failure."""
    source, arch, output, nvidia = job
    includes = [ROOT / "src"]
    includes += [nvidia / part / "include" for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl")]
    code = f"{arch}a" if arch == 90 else str(arch)  # wgmma; as in cmake/Kv8Device.cmake
    options = [f"--gpu-architecture=compute_{code}", "-std=c++20", "-default-device"]
    options += ["--diag-suppress=177"]  # each constant of a template that one instance leaves unused
    options += [f"-I{folder}" for folder in includes]
    ptx, log = Nvrtc(nvidia).compile(source, options)
    if ptx is None or log:
        return source, arch, {}, f"{source.name} for sm_{arch}:\n{log}"
    early = unready(ptx) if arch >= EARLY_LAUNCHES else []
    if early:
        message = f"{source.name} for sm_{arch}: not behind AfterEarlierKernels(): "
        return source, arch, {}, message + ", ".join(early)
    stem = output / f"{source.stem}.sm{arch}"
    stem.with_suffix(f".sm{arch}.ptx").write_bytes(ptx.encode() + b"\0")
    command = [nvidia / "cuda_nvcc" / "bin" / "ptxas", "-v", f"--gpu-name=sm_{code}", "-"]
    command += ["-o", stem.with_suffix(f".sm{arch}.cubin")]
    os.chmod(command[0], 0o755)  # pip drops the bit
    done = subprocess.run(command, input=ptx, capture_output=True, text=True)
    if done.returncode != 0:
        return source, arch, {}, f"{source.name} for sm_{arch}:\n{done.stderr}"
    kernels = {}
    for name, stack, stores, loads, registers, rest in RESOURCES.findall(done.stderr):
        shared = re.search(r"(\d+) bytes smem", rest)
        spills = int(stores) + int(loads)
        kernels[name] = (int(registers), spills, int(stack), int(shared[1]) if shared else 0)
    return source, arch, kernels, ""


def report(results, architectures):
    """Markdown: one line per kernel, one column per architecture."""
    lines = [
        "# What each kernel takes",
        "",
        "Written by `scripts/compile_device.py --report`; CUDA 12.9. Per architecture: registers per",
        "thread / spilled bytes / stack bytes. Shared memory is static, bytes per thread block.",
        "",
        "| kernel | shared | " + " | ".join(f"sm_{arch}" for arch in architectures) + " |",
        "| --- | --- | " + " | ".join("---" for _ in architectures) + " |",
    ]
    kernels = {}
    for _, arch, found, _ in results:
        for name, numbers in found.items():
            kernels.setdefault(name, {})[arch] = numbers
    for name, by_arch in sorted(kernels.items()):
        cells = [" / ".join(str(n) for n in by_arch[arch][:3]) for arch in architectures]
        shared = max(numbers[3] for numbers in by_arch.values())
        lines.append(f"| {name} | {shared} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch", type=int, nargs="+", default=list(ARCHITECTURES))
    parser.add_argument("--only", nargs="+", default=[], help="stems of sources")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "device")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fetch", action="store_true")
    options = parser.parse_args()
    nvidia = packages()
    if options.fetch:
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    sources = sorted((ROOT / "src" / "ops" / "cuda").glob("*.cu"))
    sources = [source for source in sources if not options.only or source.stem in options.only]
    jobs = [(source, arch, options.output, nvidia) for source in sources for arch in options.arch]
    jobs.sort(key=lambda job: (-job[0].stat().st_size, job[1]))  # what takes longest, first
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(compile_one, jobs))
    failures = [message for *_, message in results if message]
    for message in failures:
        print(message)
    table = report(results, options.arch) if not failures else ""
    if options.report and options.check and options.report.read_text() != table:
        failures.append(f"{options.report}: not what the compiler reports; write it anew")
        print(failures[-1])
    elif options.report and not options.check and not failures:
        options.report.write_text(table)
    print(f"compile_device: {len(jobs)} compiled, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
