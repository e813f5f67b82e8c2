#!/usr/bin/env python3
"""check_tree.py - holds the house in order; `make lint` runs it. One line per violation, in the form of a compiler error.

Checks: the include rule (who may include whom, table RULE), every third-party header in one file only, file length,
unique file names, names that C reserves, no machine paths, the fixed top level.
"""
import os
import re
import subprocess
import sys

# folder -> folders it may include, besides itself and src/base (src/README.md explains why)
RULE = {
    "src/base": [],
    "src/tensor": [],
    "src/io": ["src/tensor"],
    "src/text": ["src/io", "src/tensor"],
    "src/core": ["src/tensor"],
    "cpu": ["src/core", "src/tensor"],
    "cpu/simd": ["cpu", "src/core", "src/tensor"],
    "cuda": ["src/core", "src/tensor"],
    "models/spec": ["src/io"],
    "models/build": ["models/spec", "src/core", "src/tensor", "src/io"],
    "models/modules": ["models/build"],
    "models": ["models/spec", "models/build", "models/modules", "src/core", "src/tensor", "src/io"],
    "models/export": ["models", "models/spec", "models/build", "src/core", "src/tensor", "src/io"],
    "models/derive": ["models", "models/spec", "models/build", "src/core", "src/tensor", "src/io"],
    "models/import": ["src/io"],
    "src/comm": ["src/core", "src/tensor"],
    "src/plan": ["models", "src/comm", "src/core", "src/tensor", "src/io"],
    "src/sample": [],
    "src/engine": ["src/plan", "models", "models/export", "src/comm", "src/core", "src/tensor", "src/io", "src/text", "src/sample", "cpu", "cuda"],
    "src/train": ["src/engine", "src/plan", "models", "src/comm", "src/core", "src/tensor", "src/io", "src/text"],
    "src/net": ["src/engine", "src/plan", "models", "src/comm", "src/core", "src/tensor", "src/io"],
    "src/serve": ["src/engine", "src/text", "src/sample", "src/io", "src/net"],
    "src/app": None,  # all
    "tests": None,
    "tests/fuzz": None,
    "tools": None,
    "tools/oracle": None,
}
TOP = {"Makefile", "src", "cuda", "cpu", "models", "specs", "tests", "tools", "README.md", "LICENSE", ".gitignore",
       ".clang-format", ".github", ".ci"}
LENGTH_MAX = 800
LENGTH_FREE = re.compile(r"(_table|_grids)\.[ch]$")  # tables may be longer
SYSTEM = set("""aio arpa assert atomic cpuid complex ctype dirent dlfcn errno execinfo fcntl features fenv float getopt glob inttypes
iso646 immintrin langinfo limits locale malloc math netdb netinet poll pthread sched semaphore setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings sys sysexits syslog termios tgmath threads time unistd
wchar wctype x86intrin arm_neon linux omp""".split())
errors = []


def fail(path, line, text):
    errors.append(f"{path}:{line}: {text}")


def folder_of(path):
    folder = os.path.dirname(path)
    while folder and folder not in RULE:
        folder = os.path.dirname(folder)
    return folder


def resolve(path, name):
    for base in (os.path.dirname(path), "src", "", "build/gen"):
        p = os.path.normpath(os.path.join(base, name))
        if os.path.exists(p):
            return p
    return None


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    files = [f for f in files.stdout.split("\n") if f and os.path.exists(f)]
    seen, third = {}, {}
    for path in files:
        top = path.split("/")[0]
        if top not in TOP:
            fail(path, 1, f"the top level is fixed: {' '.join(sorted(TOP))}")
        if not path.endswith((".c", ".h", ".cu", ".cuh", ".py", ".S")):
            continue
        name = os.path.basename(path)
        if name in seen:
            fail(path, 1, f"file name also used by {seen[name]}")
        seen[name] = path
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        if len(lines) - 1 > LENGTH_MAX and not LENGTH_FREE.search(path):
            fail(path, LENGTH_MAX, f"{len(lines) - 1} lines; at most {LENGTH_MAX}: would two names explain it better than one?")
        folder = folder_of(path)
        may = RULE.get(folder, [])
        for number, line in enumerate(lines, 1):
            if re.search(r"(^|[^\w.])/(work|farm)/", line) and name != "check_tree.py":
                fail(path, number, "path of one machine")
            if path.endswith(".py"):
                continue
            if re.search(r"\btypedef\b.*\b\w+_t;", line):
                fail(path, number, "names ending in _t belong to POSIX")
            if re.match(r"\s*#\s*define\s+_(?!GNU_SOURCE|FILE_OFFSET_BITS)", line):
                fail(path, number, "identifiers starting with an underscore belong to the implementation")
            m = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
            if not m:
                continue
            if m.group(1) == "<":
                root = re.split(r"[/.]", m.group(2))[0]
                if root not in SYSTEM:
                    third.setdefault(m.group(2), []).append((path, number))
                continue
            target = resolve(path, m.group(2))
            if target is None:
                fail(path, number, f'"{m.group(2)}" not found from src/ or the root')
                continue
            to = folder_of(target)
            if may is not None and to != folder and to != "src/base" and to not in may:
                fail(path, number, f"{folder} may not include {to} (include rule: src/README.md)")
    for header, uses in third.items():
        owners = sorted({p for p, _ in uses})
        for path, number in uses:
            if path != owners[0]:
                fail(path, number, f"<{header}> belongs to {owners[0]}: a third-party header is included by one file only")
    print("\n".join(errors) if errors else f"lint: {len(files)} files in order")
    return 1 if errors else 0


sys.exit(main())
