#!/usr/bin/env python3
"""check_tree.py - holds the house in order; `make lint` runs it. One line per violation, as compilers write errors.

Checks: the include rule (table RULE) and circles of includes, third-party headers in one file only, lengths of lines
and files, branches and parameters of functions, members of structs, one header per file, types that two headers
define, functions and members that nothing uses, members named like their type where C++ reads them, unique file
names, names of tests, names that C reserves, no machine paths, the fixed top level, and the table of folders in
src/README.md (`--write` writes it).

C is read by patterns, as clang-format leaves it: what begins at the left margin is a declaration. Branches are if, for,
while, ?, &&, || and switch, which counts once however many cases it has. Uses are counted by name over the tree without
its tests, so a name that several things share passes for used.
"""
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict

# folder: what it holds, and the folders that it may include, besides itself and src/base (None: all). The table of
# src/README.md is written from this one; a folder without a text has no row there.
RULE = {
    "src/base": ("errors, memory, buffers, JSON, INI, options, logging, the thread pool", []),
    "src/tensor": ("element types, quantized formats", []),
    "src/io": ("checkpoint formats, readers and writers", ["src/tensor"]),
    "src/hub": ("models of the hub: their names, the cache that programs share, downloads", ["src/io"]),
    "src/text": ("tokenizers", ["src/io", "src/tensor"]),
    "src/jinja": ("the template language", ["src/text"]),
    "src/chat": ("conversations to prompts, by a model's template; answers to content, reasoning and tool calls",
                 ["src/jinja", "src/text"]),
    "src/core": ("op list, program, step, passes; the interface of backends, and definitions that they share",
                 ["src/tensor"]),
    "src/ops": ("the definition of each op in plain C, which the kernels of every device equal in bits, and what lies "
                "on a device", ["src/core", "src/tensor"]),
    "cpu": ("the backend for processors", ["src/ops", "src/core", "src/tensor"]),
    "cpu/simd": ("what is compiled once per instruction set", ["cpu", "src/ops", "src/core", "src/tensor"]),
    "cuda": ("the backend for NVIDIA GPUs", ["src/ops", "src/core", "src/tensor"]),
    "models/spec": ("the spec language: parsed, inherited, evaluated", ["src/io"]),
    "models/compile": ("binding of tensors, formulas, helpers of modules: a spec becomes a program",
                       ["models/spec", "src/core", "src/tensor", "src/io"]),
    "models/modules": ("the atomic modules, one file each", ["models/compile"]),
    "models": ("the door: open a model, find its spec, show it",
               ["models/spec", "models/compile", "models/modules", "src/core", "src/tensor", "src/io"]),
    "models/export": ("a model under the names of another container",
                      ["models", "models/spec", "models/compile", "src/core", "src/tensor", "src/io"]),
    "models/derive": ("a first spec for an unknown model",
                      ["models", "models/spec", "models/compile", "src/core", "src/tensor", "src/io"]),
    "models/import": ("specs of the original Inferflow", ["src/io"]),
    "src/comm": ("what the ranks of a group do together, such as an all-reduce, and the link between threads",
                 ["src/core", "src/tensor"]),
    "src/plan": ("cutting over devices, steps on their way through them",
                 ["models", "src/comm", "src/core", "src/tensor", "src/io"]),
    "src/net": ("other processes: connections under TLS, leases, nodes, the link between ranks",
                ["src/plan", "models", "src/comm", "src/core", "src/tensor", "src/io"]),
    "src/cache": ("the KV cache: pages, prefixes, snapshots, pages on disk", ["src/plan", "src/core", "src/tensor"]),
    "src/sample": ("logits to a token, and what a grammar or a schema allows", ["src/core"]),
    "src/engine": ("sessions, batching, speculative decoding",
                   ["src/cache", "src/plan", "src/net", "models", "models/export", "src/comm", "src/core",
                    "src/tensor", "src/io", "src/text", "src/sample", "cpu", "cuda"]),
    "src/measure": ("above the engine: logits and states of a text, perplexity, divergence, importance, embeddings, "
                    "replays, forecasts, the choice of devices",
                    ["src/engine", "src/cache", "src/plan", "src/net", "models", "models/export", "src/comm",
                     "src/core", "src/tensor", "src/io", "src/text", "src/sample"]),
    "src/serve": ("the HTTP server and its web page",
                  ["src/engine", "src/measure", "src/chat", "src/jinja", "src/text", "src/sample", "src/io"]),
    "src/app": ("the command line", None),
    "tests": ("", None),
    "tests/fuzz": ("", None),
    "tools": ("", None),
    "tools/oracle": ("", None),
}
TOP = {"Makefile", "src", "cuda", "cpu", "models", "specs", "tests", "tools", "README.md", "LICENSE", ".gitignore",
       ".clang-format", ".dockerignore", ".github", ".ci"}
LENGTH_MAX, WIDTH_MAX, BRANCHES_MAX, PARAMS_MAX, MEMBERS_MAX = 800, 120, 40, 8, 30
# err.c makes messages; model.c puts the file of the values before the place in a built-in spec, which decides nothing.
READS_MESSAGES = re.compile(r"^tests/|^src/base/err\.c$|^models/model\.c$")
LENGTH_FREE = re.compile(r"(_table|_grids)\.[ch]$")  # tables may be longer
# Files that include each other in circles, and why: no others may. A header and its .c are one; that the .c includes
# what they share with others (_state, _build) does not count.
CIRCLES = [
    ("src/engine", "batch constraint damage draft draws engine engine_params engine_state session steps",
     "the parts of an engine work on the engine (engine_state.h)"),
    ("src/app", "app cmd_list flags hub_models output_check settings",
     "the command line runs the commands that it lists"),
    ("src/core", "op program", "ops of a program say what a program's ops may be"),
    ("src/ops", "held run", "an operand's reader stands on what devices hold, which is read by workers"),
    ("src/tensor", "panel panel_tail", "a panel's tail is a file of its own"),
    ("src/tensor", "quant quant_fit", "a fitted encoder is never worse than the plain one, which it starts from"),
    ("src/sample", "sample sample_step", "a sampler consists of steps, which read its parameters"),
    ("src/sample", "grammar_common grammar_nodes", "an automaton may be the product of two"),
    ("src/sample", "json_schema json_schema_state json_schema_tags", "schemas of arguments in tags are schemas, too"),
    ("src/net", "link_speed node node_state on_measure", "a node measures links for others as it does for itself"),
    ("src/serve", "api_list exchange server", "a request finds its route, whose handler takes it"),
    ("src/serve", "api_fill_in chat_request completion completion_json reply_form request",
     "a form reads requests of its own kind and writes replies to them"),
]
ROOMS = re.compile("(src|models)/|cpu/(?!simd/)")
CPLUSPLUS = ("src/base/", "src/tensor/", "src/core/")  # C++ reads these headers, where a member hides its type
# Headers that declare what several files define.
SHARED = {
    "cpu.h": "what the kernels of all ops start from",
    "run.h": "what the definitions of all ops start from",
    "held.h": "what definitions read is what devices hold",
    "quant_rows.h": "an inner step that one file gives to another's loop",
    "program.h": "the program and its weights: building, checking, hashing and printing are files of their own",
    "decode.h": "each file of instructions decodes its own",
    "engine.h": "the engine's one face",
    "ckpt_build.h": "the side of ckpt.c that readers of formats see",
    "gguf.h": "values of GGUF files",
    "panel.h": "packing is a file of its own",
    "panel_place.h": "codebooks are a file of their own",
}
# What only tests use: definitions that fast paths are compared with, and places where a fault is put in.
TESTED = set("""coll_advance cuda_fmat_launch cuda_qdecode_launch cuda_wide_load cuda_wide_strip frame_record
import_service_text importance_open_bytes kv_layout measure_read mem_fail_at
sha256_best step_writer_forget supply_bytes tables_get""".split())
PARAMS_FREE = {"cuLaunchKernel", "cublasGemmEx"}  # of NVIDIA's interfaces, which tests/gpu offers
WIDE = re.compile("^tests/vectors/|^tools/families.py$")  # data; the text of a page
SYSTEM = set("""aio arpa assert atomic cpuid complex ctype dirent dlfcn errno execinfo fcntl features fenv float
getopt glob inttypes iso646 immintrin langinfo limits locale malloc math net netdb netinet poll pthread sched semaphore
setjmp signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings sys sysexits
syslog termios tgmath threads time unistd wchar wctype x86intrin arm_neon linux omp""".split())
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


def mask(text):
    """C without comments and without the insides of strings, on the same lines."""
    def blank(m):
        return '""' if m.group()[0] == '"' else "0" if m.group()[0] == "'" else "\n" * m.group().count("\n")
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


FUNCTION = re.compile(r"^(?!#|typedef|extern|enum|union|else)((?:[A-Za-z_][\w ]*[ *]+)+)(\w+)\(([^;{}]*)\)"
                      r"\s*(?:__attribute__\(\(.*\)\))?\s*([;{])", re.M)
MEMBER = re.compile(r"[ *](\w+)(?:\[[^;]*\])?(?: : \d+)?(?=[,;])")


def functions(code):
    """(name, parameters, line, seen elsewhere, body or None) of each function at the left margin."""
    for m in FUNCTION.finditer(code):
        depth, commas = 0, 0
        for c in m.group(3):
            depth += (c in "([") - (c in ")]")
            commas += c == "," and depth == 0
        end, eol = m.end(), code.find("\n", m.end())
        if m.group(4) == "{":
            end = eol if code[m.end():eol].rstrip().endswith("}") else code.find("\n}", m.end())
        elsewhere = not re.search(r"\b(static|INLINE)\b", m.group(1))
        body = code[m.end():end] if m.group(4) == "{" else None
        yield m.group(2), commas + 1, code.count("\n", 0, m.start()) + 1, elsewhere, body


def check_functions(defined):
    for path, rows in defined.items():
        for name, params, line, _, body in rows:
            if params > PARAMS_MAX and name not in PARAMS_FREE:
                fail(path, line, f"{name} has {params} parameters; at most {PARAMS_MAX}")
            branches = 1 + len(re.findall(r"\b(?:if|for|while|switch)\b|\?|&&|\|\|", body or ""))
            if branches > BRANCHES_MAX:
                fail(path, line, f"{name} has {branches} branches; at most {BRANCHES_MAX}")


def check_headers(defined):
    home = {name: path for path, rows in defined.items() if path.endswith(".c")
            for name, _, _, elsewhere, body in rows if elsewhere and body is not None}
    for path, rows in defined.items():
        stem = os.path.basename(path)[:-2]
        if path.endswith(".h") and not stem.endswith("_state") and os.path.basename(path) not in SHARED:
            for name, _, line, elsewhere, body in rows:
                to = home.get(name, path)
                if elsewhere and body is None and os.path.basename(to)[:-2] != stem:
                    fail(path, line, f"{name} is defined in {to}: its declaration belongs into the header of that file")


def check_types(code):
    """The first file to include two headers that define one type stops; of cpu/simd a file includes one set."""
    homes = {}
    for path, text in sorted((p, t) for p, t in code.items() if not p.startswith("cpu/simd/")):
        for m in re.finditer(r"^typedef (?:struct|enum|union)[^;{]*\{.*?^\} ?(\w+);", text, re.S | re.M):
            line = text.count("\n", 0, m.end()) + 1
            other = homes.setdefault(m[1], path) if path.endswith(".h") and not path.startswith("tests/") else path
            if other != path:
                fail(path, line, f"type {m[1]} is also defined in {other}")


def check_uses(code, defined, kernels):
    """kernels: words of the files that nvcc reads."""
    words = {path: Counter(re.findall(r"[A-Za-z_]\w*", text)) for path, text in code.items()
             if not path.startswith("tests/")}
    every, declared, types, home = Counter(kernels), Counter(), set(), {}
    # cpu_##op is a name of each op of a list.
    pasted = {prefix for text in code.values() for prefix in re.findall(r"(\w+)##", text)}
    for path, count in words.items():
        every.update(count)
        declared.update(row[0] for row in defined[path] if path.endswith(".h") and row[4] is None)
        named = re.findall(r"^typedef (?:struct|enum|union) (\w+)(?= \{)", code[path], re.M)
        types.update(re.findall(r"^typedef (?:struct|enum|union) (\w+)", code[path], re.M))
        for name in named if path.endswith(".h") and not path.startswith(("tests/", "cpu/simd/")) else []:
            if home.setdefault(name, path) != path:
                fail(path, 1, f"type {name} is also {home[name]}'s: no file can include both")
    for path, count in words.items():
        for name, _, line, elsewhere, body in defined[path]:
            if body is not None and elsewhere and path.endswith(".c") and name != "main":
                listed = any(name.startswith(p) and every[name[len(p):]] for p in pasted)
                used = every[name] - count[name] - declared[name] > 0 or listed
                if not used and name not in TESTED:
                    fail(path, line, f"{name} is used " + ("here only: static" if count[name] > 1 else "nowhere"))
                if used and name in TESTED:
                    fail(path, line, f"{name} is used: TESTED of check_tree.py need not name it")
        for m in re.finditer(r"\b(?:struct|union)(?: \w+)? \{\n(.*?)\n\}", code[path], re.S):
            line = code[path].count("\n", 0, m.start(1)) + 1
            for at, text in enumerate(m.group(1).split("\n")):
                pointer = re.search(r"\(\*(\w+)\)\(", text)
                for name in pointer.groups() if pointer else MEMBER.findall(text):
                    if every[name] == 1:
                        fail(path, line + at, f"member {name} is used nowhere")
                    own = name in types and re.match(rf"\s*(?:const )?{name}\b", text)
                    if own and path.endswith(".h") and path.startswith(CPLUSPLUS):
                        fail(path, line + at, f"member {name} carries the name of its type")


def check_members(code, raw):
    """A struct of many members says in a comment right before it why it is one."""
    for path, text in code.items():
        if path.startswith(("tests/", "cpu/", "cuda/")):
            continue
        for m in re.finditer(r"^(?:typedef )?struct(?: (\w+))? \{\n(.*?)\n\}", text, re.S | re.M):
            members = re.sub(r"\([^()]*\)|\[[^]]*\]", "", m.group(2))
            n = members.count(";") + members.count(",")
            line = text.count("\n", 0, m.start())
            if n > MEMBERS_MAX and not re.match(r"(?:/\*| \*).*\*/$", raw[path][line - 1]):
                fail(path, line + 1, f"struct {m.group(1)} has {n} members: a comment before it says why")


def check_circles(includes):
    """Tarjan's strongly connected components; each has to be named in CIRCLES."""
    named = [{os.path.join(folder, name) for name in names.split()} for folder, names, _ in CIRCLES]
    order, low, path = {}, {}, []

    def visit(stem):
        order[stem] = low[stem] = len(order)
        path.append(stem)
        for to in sorted(includes[stem]):
            if to not in order:
                visit(to)
            if to in path:
                low[stem] = min(low[stem], low[to])
        if low[stem] == order[stem]:
            circle = set(path[path.index(stem):])
            del path[path.index(stem):]
            if len(circle) > 1 and not any(circle <= one for one in named):
                fail(min(circle) + ".h", 1, "a circle of includes that CIRCLES does not name: " +
                     " ".join(sorted(os.path.basename(name) for name in circle)))
    for stem in sorted(includes):
        if stem not in order:
            visit(stem)


def include_table():
    """The table of src/README.md, as RULE has it."""
    rows = ["| folder | holds | may include, besides itself and `src/base` |", "|---|---|---|"]
    for folder, (holds, may) in RULE.items():
        named = "everything" if may is None else ", ".join(name.removeprefix("src/") for name in may) or "–"
        rows += [f"| `{folder}` | {holds} | {named} |"] if holds else []
    return "\n".join(rows) + "\n"


def check_table(write):
    path = "src/README.md"
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found = re.search(r"^\| folder \| holds \|.*\n(?:\|.*\n)+", text, re.M)
    if not found or found.group() != include_table():
        if not write or not found:
            fail(path, 1, "the table of folders differs from RULE: tools/check_tree.py --write")
            return
        with open(path, "w", encoding="utf-8") as f:
            f.write(text[:found.start()] + include_table() + text[found.end():])


def check_test_names(files):
    """Who looks for the tests of a folder finds them by its name; t_gpu_* are those of tests/gpu."""
    folders = {os.path.basename(folder) for folder in RULE} | {"gpu"}
    for path in files:
        m = re.match(r"tests/t_([a-z0-9]+)(_\w+)?\.c$", path)
        if m and path != "tests/t_makefile.c" and (m[1] not in folders or not m[2]):
            fail(path, 1, "tests are named t_<folder>_<subject>")


def check_definitions(files):
    """Where nvcc is not, nobody else notices."""
    path = "cuda/definitions.cu"
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for definition in files:
        if re.match(r"src/ops/def_\w+\.c$", definition) and f'#include "{definition}"' not in text:
            fail(path, 1, f"does not include {definition}")


def main():
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    files = [f for f in files.stdout.split("\n") if f and os.path.exists(f)]
    seen, third, code, raw, includes = {}, {}, {}, {}, defaultdict(set)
    kernels = Counter()
    for path in files:
        top = path.split("/")[0]
        if top not in TOP:
            fail(path, 1, f"the top level is fixed: {' '.join(sorted(TOP))}")
        name = os.path.basename(path)
        if path.endswith((".c", ".h", ".py", ".sh", ".ini")) or name == "Makefile":
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    if len(line) > WIDTH_MAX + 1 and not WIDE.search(path):
                        fail(path, number, f"{len(line) - 1} columns; at most {WIDTH_MAX}")
        if not path.endswith((".c", ".h", ".cu", ".cuh", ".py", ".S")):
            continue
        if name in seen:
            fail(path, 1, f"file name also used by {seen[name]}")
        seen[name] = path
        with open(path, encoding="utf-8") as f:
            text = f.read()
        lines = text.split("\n")
        if path.endswith((".c", ".h")):
            code[path], raw[path] = mask(text), lines
        if path.endswith((".cu", ".cuh")):
            kernels.update(re.findall(r"[A-Za-z_]\w*", mask(text)))
        if len(lines) - 1 > LENGTH_MAX and not LENGTH_FREE.search(path):
            fail(path, LENGTH_MAX, f"{len(lines) - 1} lines; at most {LENGTH_MAX}: would two names explain it better?")
        folder = folder_of(path)
        may = RULE.get(folder, ("", []))[1]
        for number, line in enumerate(lines, 1):
            if re.search(r"(^|[^\w.])/(work|farm)/", line) and name != "check_tree.py":
                fail(path, number, "path of one machine")
            if path.endswith(".py"):
                continue
            if re.search(r"\btypedef\b.*\b\w+_t;", line):
                fail(path, number, "names ending in _t belong to POSIX")
            if re.search(r"\b(str|mem)\w+\([^;]*(\.|->)msg\b", line) and not READS_MESSAGES.search(path):
                fail(path, number, "an error's code and `who` decide, never its message")
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
            stem, of = os.path.splitext(path)[0], os.path.splitext(target)[0]
            if of not in (stem, stem + "_state", stem + "_build") and ROOMS.match(path):
                includes[stem].add(of)
            if may is not None and to != folder and to != "src/base" and to not in may:
                fail(path, number, f"{folder} may not include {to} (include rule: src/README.md)")
    for header, uses in third.items():
        owners = sorted({p for p, _ in uses})
        for path, number in uses:
            if path != owners[0]:
                fail(path, number, f"<{header}> belongs to {owners[0]}: one file includes a third-party header")
    defined = {path: list(functions(text)) for path, text in code.items()}
    check_table(sys.argv[1:] == ["--write"])
    check_test_names(files)
    check_definitions(files)
    check_functions(defined)
    check_headers(defined)
    check_types(code)
    check_uses(code, defined, kernels)
    check_members(code, raw)
    check_circles(includes)
    print("\n".join(errors) if errors else f"lint: {len(files)} files in order")
    return 1 if errors else 0


sys.exit(main())
