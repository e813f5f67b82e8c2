#!/usr/bin/env python3
"""plant_faults.py - do the judges of the CUDA backend find faults? Plants one at a time and counts those found.

    make plant-faults                            forty faults, of which nine in ten have to be found
    tests/gpu/plant_faults.py --seed 2 --count 12

A fault is an edit of the PTX text while the software GPU loads it (tests/gpu/plant.h), at a line that has run in the
test that judges it: so no kernel is named here, and what is rewritten tomorrow is judged the same day. Others leave
out a copy or a kernel, or launch another graph. Judges are tests of kernels (t_cuda_products, whose rows are long
enough that warps hand chains on, cases of t_cuda_attn, types of t_cuda_prefill and t_cuda_wgmma), rows of
t_cuda_lists and types of t_cuda_builtin. Those that run the line try one after the other, kernels first: bits that
differ, a race, a fault of memory, a wait for ever, or a time-out is a find.

Classes take turns; sites of a class are drawn from all its kernels alike. Some have no effect: a barrier behind the
last use of what it guards, a bound that no loop comes to, a fused product whose rounding is lost in what follows. So
not all can be found, and what is missed is listed to be looked at. Some that change nothing are planted otherwise: a
bound of bytes is sixteen less, not one, where copies are of sixteen, and that of a loop a step less; a stale graph is
one for fewer rows, as one for more does the same work.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile

# Three sequences, ALiBi, places, buckets, a window, many heads, sinks.
KERNELS = [("t_cuda_products", {}), ("t_cuda_floats", {})]
KERNELS += [("t_cuda_attn", {"CASE": str(case)}) for case in (2, 4, 18, 14, 6, 8, 15)]
KERNELS += [("t_cuda_prefill", {"TYPE": kind}) for kind in ("q4_b64", "q8_0", "q6_k", "iq4_nl")]
KERNELS += [("t_cuda_wgmma", {"TYPE": kind}) for kind in ("q4_b64", "q8_0", "q5_k", "q4_t")]
# A Llama, experts, floats, a coded cache, slots, an encoder; in chunks of one row.
JUDGES = KERNELS + [("t_cuda_lists", {"ROW": str(row)}) for row in (0, 10, 11, 13, 16, 18, 7, 14, 17)]
JUDGES += [("t_cuda_builtin", {"TYPE": kind}) for kind in ("q4_b64", "q8_0", "q8_b64", "iq4_nl", "f16")]
TRIES = 8  # judges that try a fault
# Seconds of the processor, of which the dearest judge takes a sixth; and in all, on a machine that has other work.
BUSY, LIMIT = 60, 900


def drop(match):
    return ";"


def other_lane(match):
    value = int(match[2])
    return match[1] + str(value // 2 if value > 1 else 1 - value if value == 0 else 2) + match[3]


def shorter(match, less=1):
    op, kind, p, a, b = match.groups()
    return f"{{ .reg .{kind} t; sub.{kind} t, {b}, {less}; setp.{op}.{kind} {p}, {a}, t; }}"


def other_bits(match):
    return match[1] + str(int(match[2]) >> 1 if int(match[2]) > 1 else 0) + ";"


def other_shift(match):
    return match[1] + str(int(match[2]) ^ 1) + ";"


def apart(match):
    d, a, b, c = match.groups()
    return f"{{ .reg .f32 t; mul.rn.f32 t, {a}, {b}; add.rn.f32 {d}, t, {c}; }}"


def twice(match):
    return f"{match[1]} {match[2]}, {match[3]}, {match[3]};"


def without_product(match):
    return f"mov.b32 {match[1]}, {match[2]};"


def rows_swapped(match):
    return match[1] + "{" + match[3] + ", " + match[2] + match[4]


def elsewhere(match):
    size = {"8": 1, "16": 2, "32": 4, "64": 8}[match[3]] * int(match[2] or 1)
    at = int(match[5])
    return f"{match[1]}[{match[4]}+{at - size if at >= size else at + size}];"


def toward_zero(match):
    return match[1] + "rz" + match[2] + match[3]


REG = r"(%\w+)"
LOAD = r"(ld\.(?:global|shared)\S*?(?:\.v([24]))?\.[bufs](8|16|32|64)\s+[^\[]*)"
# name, in which kernels, what an instruction says, what it says then. The order is that of turns.
CLASSES = [
    ("barrier", "", r"(?:bar|barrier)\.sync(?:\.aligned)?\s.*;$", drop),
    ("lane", "", r"(shfl\.sync\.\w+\.b32\s.*?, )(\d+)(, \S+, \S+;)$", other_lane),
    ("plane", "qmat|qdec|qpre|qwg", r"(and\.b32\s+%\w+, %\w+, )(\d{2,10});$", other_bits),
    ("tail", "", rf"setp\.(lt|ge)\.(s(?:32|64))\s+{REG}, {REG}, {REG};$", shorter),
    ("chain", "mat|qdec|qpre|qwg|attn", rf"fma\.rn\.f32\s+{REG}, {REG}, {REG}, {REG};$", apart),
    ("wait", "", r"(?:cp\.async\.wait|mbarrier\.try_wait|bar\.warp\.sync).*;$", drop),
    ("scale", "", rf"(mul\.rn\.f32)\s+{REG}, {REG}, (?!\3){REG};$", twice),
    ("product", "", rf"dp4a\.\w+\.\w+\s+{REG}, %\w+, %\w+, {REG};$", without_product),
    ("rows", "", r"((?:mma|wgmma)\S+\s+\{.*?\},\s+)\{(%\w+), (%\w+)(.*;)$", rows_swapped),
    ("shift", "qmat|qdec|qpre|qwg", r"(sh[lr]\.[bu]32\s+%\w+, %\w+, )(\d|1\d|2[0-3]);$", other_shift),
    ("order", "", r"()((?:fence|membar)\S*.*);$", drop),
    ("address", "", rf"{LOAD}\[{REG}\+(\d+)\];$", elsewhere),
    ("rounding", "", r"(cvt\.)rni?((?:\.\w+)?\.(?:s32|s8|s16|u32|f16)\.f32)(\s.*)$", toward_zero),
    ("store", "", r"st\.(?:global|shared)\S*\s.*;$", drop),
    ("best", "", r"max(\.(?:f32|s32))(\s.*)$", lambda m: "min" + m[1] + m[2]),
]
WORK = ["copy", "graph", "kernel"]  # pieces of work that are left out or wrong: stale steps, tables, graphs


class Text:
    """A PTX text: its lines, and the function that each is in."""

    def __init__(self, path):
        with open(path) as f:
            self.lines = f.read().split("\n")
        self.inside, name = [], ""
        for line in self.lines:
            head = re.match(r"(?:\.visible |\.weak )?\.(?:entry|func)\s.*?(\w+)\(", line)
            name = head[1] if head else name
            self.inside.append(name)
        self.names = set(self.inside)


class Rig:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.env = dict(os.environ, INFERFLOW_BIN=os.path.join(build, "inferflow"))

    def run(self, judge, **more):
        """Whether a judge finds a fault, and what it says."""
        program, choice = JUDGES[judge]
        env = dict(self.env, **choice, **more)
        path = os.path.join(self.build, "tests", program)
        try:
            done = subprocess.run(["prlimit", f"--cpu={BUSY}", path], env=env, capture_output=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return True, "it did not end"
        if "SOFT_GPU_PLANT" in more and b"soft gpu: planted" not in done.stderr:
            sys.exit("nothing was planted: " + done.stderr.decode())
        says = (r"soft gpu: ((?:error|left out).*)|(\S+, cache .* differ on .*)|(code -.*)|(weights .* other logits)|"
                r"([^\n]*: row \d+, \w+ \d+ is .*)")
        said = re.search(says, done.stdout.decode() + done.stderr.decode())
        return done.returncode != 0, said[0] if said else ""

    def look(self, judge):
        """The lines that run in a judge, each with the name of its image's last function; and its counts of work."""
        cover, count = (os.path.join(self.folder, f"{what}.{judge}") for what in ("cover", "count"))
        found, why = self.run(judge, SOFT_GPU_COVER=cover, SOFT_GPU_COUNT=count)
        if found:
            sys.exit(f"{JUDGES[judge]} fails without a fault: {why}")
        with open(count) as f:
            counts = json.load(f)
        with open(cover) as f:
            return {tuple(line.split()) for line in f}, counts

    def plant(self, number, judges, fault):
        kind, at, *more = fault
        path = os.path.join(self.folder, f"fault.{number}")
        knobs = {"SOFT_GPU_DROP": f"{kind}:{at}", "SOFT_GPU_RACES": "0"}
        if kind not in WORK:
            with open(path, "w") as f:
                f.write("{}\n{}\n{}\n".format(*more))
            knobs = {"SOFT_GPU_PLANT": path, "SOFT_GPU_PATIENCE": "30000000"}
        why = ""
        for judge in judges[:TRIES]:
            found, why = self.run(judge, **knobs)
            if found:
                return judge, why
        return None, why


def step_of(before, counter):
    """What a loop that ends here adds to its counter; None where that is not told, or the bound is no loop's."""
    for line in reversed(before):
        match = re.match(rf"\s*add\.s\d\d\s+{re.escape(counter)}, {re.escape(counter)}, (\S+);", line)
        if match:
            return match[1]
    return None


def sites_of(texts, ran):
    """{class: {function: [fault]}} of the lines that have run."""
    out = {}
    lines = [(text, int(n)) for text in texts for name, n in ran if name in text.names]
    for text, number in sorted(lines, key=lambda at: at[1]):
        line, inside = text.lines[number - 1], text.inside[number - 1]
        guard, code = re.match(r"(\s*(?:@!?%\w+\s+)?)(.*?)\s*$", line).groups()
        for name, kernels, says, edit in CLASSES:
            match = re.match(says, code)
            if not match or not re.search(kernels, inside):
                continue
            of_copy = edit is shorter and re.search(r"selp\.b32\s+%\w+, 16, 0", text.lines[number])
            step = step_of(text.lines[number - 6 : number - 1], match[3]) if edit is shorter else None
            new = edit(match, 16 if of_copy else step) if of_copy or step else edit(match)
            if guard.strip() and new.startswith("{"):
                continue
            fault = (name, inside, number, line, "" if new == ";" else guard + new)
            out.setdefault(name, {}).setdefault(inside, []).append(fault)
    return out


def choose(rng, count, sites, counts):
    """[(judges, fault)]: classes by turns, kernels of a class alike."""
    chosen, seen = [], set()
    turns = [name for name, *_ in CLASSES] + WORK
    merged = {}
    for of in sites:
        for name, kernels in of.items():
            for inside, faults in kernels.items():
                merged.setdefault(name, {}).setdefault(inside, set()).update(faults)
    for turn in range(50 * len(turns)):
        name = turns[turn % len(turns)]
        judges = list(range(len(KERNELS), len(JUDGES)))
        rng.shuffle(judges)
        if name in WORK:
            of = {"copy": "copies_to_device", "graph": "graph_launches", "kernel": "kernels"}[name]
            judges = [judge for judge in judges if counts[judge][of] > 8]
            most = counts[judges[0]][of] if judges else 0
            fault = (name, rng.randint(most // 4, most // 2)) if judges else None
            judges = [judge for judge in judges if counts[judge][of] >= fault[1]]
        else:
            kernels = merged.get(name)
            inside = rng.choice(sorted(kernels)) if kernels else None
            fault = rng.choice(sorted(kernels[inside])) if kernels else None
            judges = [judge for judge in [*range(len(KERNELS)), *judges]
                      if fault in sites[judge].get(name, {}).get(inside, ())]
        if fault and fault[:3] not in seen:
            seen.add(fault[:3])
            chosen.append((judges, fault))
        if len(chosen) == count:
            break
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--least", type=float, default=0.9, help="share that has to be found")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    o = parser.parse_args()
    images = ("fast.compute_80", "prefill.compute_80", "wgmma.compute_90a")
    texts = [Text(os.path.join(o.build, f"gen/{image}.ptx")) for image in images]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        rig = Rig(o.build, folder)
        looks = list(pool.map(rig.look, range(len(JUDGES))))
        sites = [sites_of(texts, ran) for ran, _ in looks]
        chosen = choose(random.Random(o.seed), o.count, sites, [counts for _, counts in looks])
        found = 0
        results = pool.map(lambda job: rig.plant(job[0], *job[1]), enumerate(chosen))
        for (_, fault), (judge, why) in zip(chosen, results):
            found += judge is not None
            where = f"number {fault[1]}" if fault[0] in WORK else f"{fault[1]}, line {fault[2]}: {fault[3].strip()}"
            by = "MISSED" if judge is None else " ".join([JUDGES[judge][0][7:], *JUDGES[judge][1].values()])
            print(f"{by:14} {fault[0]:8} {where}   {why[:150]}", flush=True)
    print(f"seed {o.seed}: {found} of {len(chosen)} planted faults found")
    sys.exit(not chosen or found < o.least * len(chosen))


main()
