#!/usr/bin/env python3
"""gpu_model.py - predicts the time of the CUDA backend on a card from bytes, instructions and launches: cuda/SPEED.md.

    tools/gpu_model.py               writes the tables of that page, below its text
    tools/gpu_model.py --check       fails where they differ, or a measured row is off by over 15 %: part of `make lint`
    tools/gpu_model.py --facts FILE  prints predictions for the card whose results/facts.json (tools/gpu_kit) this is,
                                     beside the benches in that folder

A launch takes a time of its own, then the longer of reading and computing. Reading goes at the rate of the way in which
a kernel reads; computing is the sum of tensor instructions and all others, times a factor. Products of few rows bring
activations into shared memory before. Parameters are fitted to all measured rows at once; tests hold what is counted.
"""
import argparse
import dataclasses
import glob
import json
import os
import re
import sys

PAGE, BELOW, MOST = "cuda/SPEED.md", "<!-- tools/gpu_model.py writes what follows -->\n\n", 0.15

# What, value, unit, source.
PARAMETERS = (
    ("a launch in a graph: gap, ramp, tail", 3.6, "µs", "fitted: steps of llama.cpp, a row kernel"),
    ("a dependent launch, first weights asked for before the wait", 2.44, "µs", "fitted: steps of the prototype"),
    ("activations into shared memory", 11, "bytes a clock and multiprocessor", "fitted: 8 rows beside 1"),
    ("tensor instructions and others together", 1.28, "times their sum", "fitted: nine prefill loops"),
    ("loads into registers, no ring", 0.5, "of read peak", "fitted: products without a ring"),
    ("cache of the device (L2)", 5.5, "TB/s", "others' microbenchmarks of an H100"))
LAUNCH, DEPENDENT, BRING, FACTOR, REGISTERS, L2 = (value for _, value, *_ in PARAMETERS)


@dataclasses.dataclass
class Card:
    """A second: bytes (peak: by bulk copies; loads: otherwise), clocks, operations (int8 by mma.sync, by wgmma)."""
    name: str
    memory: float
    peak: float
    loads: float
    processors: int
    clock: float
    mma: float
    wgmma: float
    bf16: float
    gap: float = 0.55  # µs from a kernel of a graph to the next


H200 = Card("H200", 141e9, 4.61e12, 4.35e12, 132, 1.98e9, 1028e12, 1657e12, 790e12)  # measured


def card_by_vendor(name, memory, read, processors, clock, int8, bf16, wgmma=False):
    """A card that reaches the shares of the vendor's figures that the H200 reached of its own (4.8, 1979, 989)."""
    peak, int8, bf16 = read * H200.peak / 4.8e12, int8 * H200.wgmma / 1979e12, bf16 * H200.bf16 / 989e12
    return Card(name, memory, peak, peak * H200.loads / H200.peak, processors, clock,
                int8 * H200.mma / H200.wgmma if wgmma else int8, int8 if wgmma else 0, bf16)


CARDS = (H200, card_by_vendor("H100 SXM", 80e9, 3.35e12, 132, 1.98e9, 1979e12, 989e12, wgmma=True),
         card_by_vendor("A100 80 GB", 80e9, 2.039e12, 108, 1.41e9, 624e12, 312e12),
         card_by_vendor("RTX 4090", 24e9, 1.008e12, 128, 2.52e9, 660.6e12, 165.2e12))

# Bits a weight; bytes of a row's activations for 64 columns; columns of a sum; lane-instructions a weight at 32 rows
# (PTX, counted; f16: at 8), and for 128 sums of the prefill kernels by warps and by warpgroups (SASS of their loops for
# sm_90a).
TYPES = {"q4_b64": (4.5, 72, 64, 5.82, 1780, 881), "q8_0": (8.5, 80, 32, 6.99, 982, 624), "f16": (16, 0, 0, 13.4, 0, 0)}
# Bytes of a key and value at heads of 128; lane-instructions for them at one row, and of a score in prefill (counted:
# tests/t_cuda_attn.c).
CACHES = {"i16": (516, 2093, 264), "q8": (272, 1544, 242), "f16": (512, 3021, 441)}
FLOAT_ROW = 3.74  # lane-instructions a weight of f16 at one row (PTX, counted)
WIDE, STRIP = 10.81, 24 << 20  # lane-instructions of a weight that becomes bfloat16 (PTX, counted); bytes: cuda_wide.c
KEYS = 128        # behind each sequence where nothing else is said
CHUNK, CHUNK_MOST, CHUNK_RATE = 512, 2048, 2e14  # rows of a prompt in a step: cuda_backend, rows_of_step of engine.c


@dataclasses.dataclass
class Model:
    name: str
    layers: int
    width: int
    kv: int
    ffn: int
    vocab: int = 32000
    experts: int = 1
    used: int = 1

    def matrices(self):
        """(outputs, columns, experts) of the products of a layer; those with one input are one product."""
        q, kv, f, e = self.width, self.kv, self.ffn, self.experts
        return [(q + 2 * kv, q, 1), (q, q, 1), (2 * f, q, e), (q, f, e)]

    def weights(self, rows=1):
        """Weights that `rows` rows read, the head with them."""
        layer = sum(n * k * met(e, self.used, rows) for n, k, e in self.matrices())
        return self.layers * layer + self.vocab * self.width

    def fits(self, card, kind):
        return (self.weights(1 << 20) + self.vocab * self.width) * TYPES[kind][0] / 8 < 0.9 * card.memory


LLAMA7, MIXTRAL = Model("7 B", 32, 4096, 4096, 11008), Model("8 × 7 B", 32, 4096, 1024, 14336, experts=8, used=2)
MODELS = (Model("1.1 B", 22, 2048, 256, 5632), LLAMA7, MIXTRAL, Model("70 B", 80, 8192, 1024, 28672))


@dataclasses.dataclass
class Way:
    """How kernels are; the default is what they are today."""
    dependent: bool = True     # launches begin before the last one has ended, where a card can (9.0: those with wgmma)
    bulk: bool = False         # copies
    brings_once: bool = False  # a multiprocessor brings rows once, not each block of threads
    many_from: int = 129       # rows from which on products are the prefill kernel's: MANY of cuda_prefill.c
    many: tuple = ()           # lane-instructions, rate and outputs of a block of that kernel

    def start(self, card):
        return 1e-6 * ((DEPENDENT if self.dependent and card.wgmma else LAUNCH) + card.gap - H200.gap)

    def read(self, card, size, ring=True):
        return size / ((card.peak if self.bulk else card.loads) if ring else card.peak * REGISTERS)


TODAY = Way()


def met(experts, used, rows):  # how many are read if rows choose at random
    return experts * (1 - (1 - used / experts) ** rows) if experts > 1 else 1


def read_tests():
    """Launches of a layer: dense, of experts, of floats; {type: lane-instructions a weight at 1 and 8 rows}: as tests
    allow."""
    with open("tests/t_cuda_launches.c", encoding="utf-8") as file:
        launches = [int(n) for n in re.findall(r'\{"[^"]*", (\d+), "', file.read())]
    with open("tests/t_cuda_budget.c", encoding="utf-8") as file:
        rows = re.findall(r"\{DTYPE_(\w+), \{([\d.]+), ([\d.]+)\}\}", file.read())
    budget = 128 * 132 * 1.98e9 / 4.3e12 / 8  # a bit, as that test has it
    return launches, {name.lower(): [float(share) * budget * TYPES[name.lower()][0] for share in of]
                      for name, *of in rows if name.lower() in TYPES}


LAUNCHES, FEW_ROWS = read_tests()


def launches_of(model, packed):
    return LAUNCHES[model.experts > 1] if packed else LAUNCHES[2] + LAUNCHES[model.experts > 1] - LAUNCHES[0]


def bring(card, row_bytes, columns, rows, blocks=1.0):
    """Seconds in which the blocks of a multiprocessor bring rows, one after the other."""
    return blocks * rows * columns / 64 * row_bytes / BRING / card.clock


def compute(card, operations, lanes, tensor=0.0):
    return FACTOR * (operations / (tensor or card.mma) + lanes / (128 * card.processors * card.clock))


def blocks_of(panels, row_blocks, processors, warps=8):
    """Blocks of threads of a product of few rows: decode_share of cuda_product.c."""
    share = 1
    while share < warps and row_blocks * panels * share < 2 * processors * warps:
        share *= 2
    return row_blocks * -(-panels // (warps // share))


def product(card, kind, outputs, columns, rows, experts=1.0, way=TODAY):
    """A product as qdecode.cuh does it, by 1, 8 or 32 rows, fmatmul.cuh, by 8, or qprefill.cuh."""
    bits, row_bytes, _, lanes32, *_ = TYPES[kind]
    weights = outputs * columns * experts
    if kind == "f16":
        times, lanes = -(-rows // 8), FLOAT_ROW if rows == 1 else lanes32
        return way.start(card) + max(way.read(card, 2 * weights * times), compute(card, 0, weights * lanes * times))
    if rows >= (way.many_from if experts == 1 else 8):
        return many_rows(card, kind, outputs, columns, rows, int(-(-experts // 1)), way)
    most = next((n for n in (1, 8) if rows <= n), 32)
    times, lanes = -(-rows // most), {1: FEW_ROWS[kind][0], 8: FEW_ROWS[kind][1], 32: lanes32}[most]
    blocks = blocks_of(int(outputs * experts / 16), times, card.processors) / card.processors
    done = compute(card, 2 * weights * times * max(most, 8), weights * lanes * times)
    return (way.start(card) + max(way.read(card, weights * bits / 8), done) +
            bring(card, row_bytes, columns, min(rows, most), 1 if way.brings_once else blocks))


def attention(card, cache, model, keys, way=TODAY):
    """One row of each sequence, `keys` in all."""
    size, lanes, _ = CACHES[cache]
    heads = keys * model.kv / 128
    return way.start(card) + max(way.read(card, heads * size), compute(card, 0, heads * lanes))


def decode(card, model, kind, rows, keys=KEYS, way=TODAY):
    """Seconds of a step of `rows` sequences."""
    packed = kind != "f16"
    matrices, each = model.matrices(), max(round(rows * model.used / model.experts), 1)
    layer = sum(product(card, kind, n, k, each if e > 1 else rows, met(e, model.used, rows), way)
                for n, k, e in matrices)
    layer += attention(card, "i16" if packed else "f16", model, keys * rows, way)
    layer += (launches_of(model, packed) - len(matrices) - 1) * way.start(card)
    return model.layers * layer + 4 * way.start(card) + product(card, kind, model.vocab, model.width, rows, 1, way)


def many_rows(card, kind, outputs, columns, rows, experts, way):
    """Packed matrices times many rows: blocks of 128 rows, one a multiprocessor at a time, by 192 outputs where there
    is wgmma (qwgmma.cuh; not for few rows of many experts: WG_OF_EXPERT), else by 128 (qprefill.cuh)."""
    warpgroups = card.wgmma and (experts == 1 or rows >= 32)
    today = (TYPES[kind][5], card.wgmma, 192) if warpgroups else (TYPES[kind][4], card.mma, 128)
    size, (lanes, tensor, block) = TYPES[kind][2], way.many or today
    waves = -(-experts * -(-rows // 128) * -(-outputs // block) // card.processors)
    sums = block * columns / size * waves * card.processors  # times 128
    return way.start(card) + compute(card, sums * 2 * 128 * size, sums * lanes, tensor)


def rows_of_step(model):
    rows = CHUNK
    while rows < CHUNK_MOST and 2 * rows * (model.weights(1 << 20) + model.vocab * model.width) <= CHUNK_RATE / 4:
        rows *= 2
    return rows


def prefill(card, model, kind, rows, exact=True, way=TODAY):
    """Seconds of a prompt, step by step."""
    most = rows_of_step(model)
    packed, chunk, steps, layer = kind != "f16", min(most, rows), -(-rows // most), 0.0
    way = dataclasses.replace(way, dependent=False)  # products of many rows are not
    for n, k, e in model.matrices():
        each = -(-chunk * model.used // e) if e > 1 else chunk
        if exact:
            layer += product(card, kind, n, k, each, e, way)
        else:  # packed ones become bfloat16 before, by strips, each a launch and a product of its own
            strips = -(-2 * n * k // STRIP) if packed else 0
            wide = max(2e-12 * n * k / L2, compute(card, 0, n * k * WIDE)) if packed else 0
            layer += e * (max(2 * strips, 1) * way.start(card) + 2 * n * k * each / card.bf16 + wide)
    floats = 16 * model.width + 4 * model.ffn * model.used + 4 * model.kv  # of a row, between products
    layer += launches_of(model, packed) * way.start(card) + chunk * floats * 4 / card.loads
    scores, lanes = rows * rows / 2 * model.width / 128, CACHES["i16" if packed else "f16"][2]
    head = 4 * way.start(card) + product(card, kind, model.vocab, model.width, 1, 1, way)
    return model.layers * (steps * layer + compute(card, 0, scores * lanes)) + steps * head


# ---- what was measured on an H200
MATRICES = ((12288, 4096), (4096, 4096), (22528, 4096), (4096, 11264))  # prototype: q, k, v; o; gate and up; down


def ring(kind, rows, matrices, launch=DEPENDENT):
    """Microseconds of the prototype: one block a multiprocessor, bulk copies."""
    bits, row_bytes, *_ = TYPES[kind]
    return sum(launch + 1e6 * (bring(H200, row_bytes, k, rows) + max(n * k * bits / 8 / H200.peak,
                                                                     compute(H200, 16 * n * k, 1.32 * n * k)))
               for n, k in matrices)


def loop(size, lanes, tensor):
    """TOP/s of an exact prefill loop: lane-instructions of 128 sums, counted in SASS."""
    return 2 * 128 * size / compute(H200, 2 * 128 * size, lanes, tensor) / 1e12


def rows_measured():
    """(name, unit, least, most, predicted, error)"""
    step, rows = "32 layers of 7 B in a graph", []
    both = (("q4_b64", 1), ("q4_b64", 8), ("q8_0", 1), ("q8_0", 8))
    for name, matrices, times, measured in (
            (step + ", a ring a warp", MATRICES, 32, ((1201,), (1389,), (1808,), (2062,))),
            ("gate and up alone", MATRICES[2:3], 1, ((12.6,), (14.6,), (22.0,), (23.4,))),
            ("o alone", MATRICES[1:2], 1, ((4.8, 5.5), (7.1,), (6.2, 7.6)))):
        rows += [(f"{name}: {kind}, {n} row{'s' * (n > 1)}", "µs", us[0], us[-1], times * ring(kind, n, matrices))
                 for (kind, n), us in zip(both, measured)]
    rows.append((step + ", launches not dependent (15 to 20 % longer): q4_b64, 1 row", "µs", 1413, 1501,
                 32 * ring("q4_b64", 1, MATRICES, LAUNCH)))
    rows += [(f"{step}, a ring a block, a warp that chains: {kind}, 1 row", "µs", us, us, 32 * ring(kind, 1, MATRICES))
             for kind, us in (("q4_b64", 1247), ("q8_0", 1844))]
    size = 32 * sum(n * k for n, k in MATRICES)
    rows += [(f"{step}, loads into registers: {kind}, 1 row", "µs", us, us,
              128 * DEPENDENT + 1e6 * TODAY.read(H200, size * TYPES[kind][0] / 8, ring=False))
             for kind, us in (("q4_b64", 1898), ("q8_0", 3049), ("f16", 1e6 * size * 2 / 4.61e12 / 0.42))]
    rows.append(("norm and quantizing of one row", "µs", 3.3, 3.3, LAUNCH))
    for name, tensor, lanes, measured in (("mma.sync", H200.mma, (698, 570, 477), (351, 392, 295)),
                                          ("wgmma, three by turns", H200.wgmma, (512, 384, 384), (507, 643, 365)),
                                          ("wgmma, two, sums doubled", H200.wgmma, (512, 384, 384), (465, 633, 344))):
        rows += [(f"prefill loop, {name}: blocks of {blocks}", "TOP/s", rate, rate, loop(size, n, tensor))
                 for blocks, size, n, rate in zip(("64 with base", "64", "32"), (64, 64, 32), lanes, measured)]
    rows += [(f"llama.cpp, a step of 7 B: {kind}, {n} launches a layer", "µs", us, us,
              1e6 * LLAMA7.weights() * bits / 8 / H200.peak + (32 * n + 3) * LAUNCH)
             for kind, bits, n, us in (("q4_0", 4.5, 19, 2811), ("q8_0", 8.5, 19, 3660), ("f16", 16, 13, 4509))]
    return [(*row, 2 * row[4] / (row[2] + row[3]) - 1) for row in rows]


# ---- the page
def table(head, rows, words=1):
    line = "|" + "---|" * words + "--:|" * (len(head) - words)
    first, *others = ("| " + " | ".join(map(str, row)) + " |\n" for row in [head, *rows])
    return first + line + "\n" + "".join(others) + "\n"


def figure(x):
    return "" if not x else f"{x:,.0f}".replace(",", " ") if x >= 100 else f"{x:.1f}"


def best(kind, rows):
    """Seconds of a step of 7 B that the card cannot go below: reading, or bfloat16 operations of many rows."""
    return max(LLAMA7.weights() * TYPES[kind][0] / 8 / H200.peak, (rows > 8) * 2 * rows * LLAMA7.weights() / H200.bf16)


def bars_table():
    rows, ops = [], 2 * 2048 * (LLAMA7.weights() - LLAMA7.vocab * LLAMA7.width)

    def add(name, t, tokens, least, bar, peer, times):
        share, ratio = least / t, tokens / t / peer if peer else 0
        state = f"not run; predicted: {'met' if share >= bar and ratio >= times else 'missed'}"
        rows.append((name, figure(t * 1e6), figure(tokens / t), f"{share:.2f}", bar, figure(peer), figure(ratio),
                     times or "", state))

    for kind, n, bar, peer, times in (("f16", 1, 0.8, 222, 1.2), ("q8_0", 1, 0.75, 273, 2), ("q4_b64", 1, 0.65, 356, 2),
                                      ("q4_b64", 8, 0.55, 1414, 3), ("q4_b64", 64, 0.42, 5061, 0)):
        t = decode(H200, LLAMA7, kind, n)
        add(f"decode, {kind}, {n} sequence{'s' * (n > 1)}", t, n, best(kind, n), bar, peer, times)
    for cache in ("i16", "q8"):
        t = attention(H200, cache, LLAMA7, 64e6 / 32 / CACHES[cache][0])
        add(f"attention of decode over 64 MB of {cache}", t, 0, 64e6 / H200.peak, 0.75, 0, 0)
    for kind, way, bar, peer, times in (("q4_b64", "on", 0.5, 10864, 2), ("q8_0", "on", 0.36, 11026, 2),
                                        ("q4_b64", "off", 0.5, 0, 0), ("f16", "off", 0.55, 20400, 2)):
        t = prefill(H200, LLAMA7, kind, 2048, way == "on")
        add(f"prefill of 2048, {kind}, --exact {way}", t, 2048, ops / H200.bf16, bar, peer, times)
    return table(("7 B on an H200", "µs", "tokens/s", "share", "bar", "llama.cpp, measured", "times", "bar", ""), rows)


def changes_tables():
    way, rows = TODAY, []
    kinds = (("q4_b64", 1), ("q4_b64", 8), ("q4_b64", 64), ("q8_0", 1), ("f16", 1))
    for name, more in (("64 rows by `qwgmma.cuh`, launches not dependent", {"many_from": 33, "dependent": False}),
                       ("by `qdecode.cuh`", {"many_from": 129}),
                       ("as it is: and dependent launches", {"dependent": True}), ("and bulk copies", {"bulk": True}),
                       ("and activations once a multiprocessor", {"brings_once": True})):
        way = dataclasses.replace(way, **more)
        rows.append((name, *(f"{best(*kind) / decode(H200, LLAMA7, *kind, KEYS, way):.2f}" for kind in kinds)))
    out = table(("decode of 7 B, shares", "q4_b64", "8 sequences", "64", "q8_0", "f16"), rows)
    rows = [(name, *(figure(2048 / prefill(H200, LLAMA7, kind, 2048, True, Way(many=of)))
                     for kind, of in zip(("q4_b64", "q8_0"), many)))
            for name, many in (("by warps: `qprefill.cuh`", ((1780, H200.mma, 128), (982, H200.mma, 128))),
                               ("as it is: `qwgmma.cuh`", ((), ())),
                               ("and 128 outputs a block", ((881, H200.wgmma, 128), (624, H200.wgmma, 128))),
                               ("and the instructions of the measured loop",
                                ((512, H200.wgmma, 128), (384, H200.wgmma, 128))))]
    return out + table(("prefill of 2048, 7 B, tokens/s", "q4_b64", "q8_0"), rows)


def cards_table():
    rows = []
    for card, model in ((card, model) for card in CARDS for model in MODELS if model.fits(card, "q4_b64")):
        cells = [figure(n / decode(card, model, kind, n)) if model.fits(card, kind) else ""
                 for kind, n in (("q4_b64", 1), ("q4_b64", 8), ("q8_0", 1), ("f16", 1))]
        rows.append((card.name, model.name, *cells, figure(2048 / prefill(card, model, "q4_b64", 2048))))
    return table(("tokens/s", "weights", "q4_b64", "8 sequences", "q8_0", "f16", "prefill of 2048, q4_b64"), rows, 2)


def tables():
    measured = [(row[0], row[1], " to ".join(figure(x) for x in sorted({*row[2:4]})), figure(row[4]),
                 f"{100 * row[5]:+.0f} %") for row in rows_measured()]
    parameters = [(name, f"{value} {unit}", source) for name, value, unit, source in PARAMETERS]
    out = "## Parameters\n\n" + table(("parameter", "value", "source"), parameters, 3) + "## Measured\n\n"
    out += table(("on an H200", "", "measured", "predicted", "error"), measured, 2) + "## Predicted, not run\n\n"
    return (out + bars_table() + changes_tables() + cards_table()).rstrip() + "\n"


def text_of_page():
    with open(PAGE, encoding="utf-8") as file:
        text, _, below = file.read().partition(BELOW)
    return text, below


# ---- on a card
def card_of(facts):
    """The known card of that name, or else of its kind, with what was measured."""
    near = [c for c in CARDS if c.name.split()[-1 if "RTX" in c.name else 0] in facts["name"]]
    near = (near or [c for c in CARDS if bool(c.wgmma) == (facts["sm"] == 90)])[0]
    read = facts["read_tb_per_s"] * 1e12
    return dataclasses.replace(near, name=facts["name"], peak=read * near.peak / near.loads, loads=read,
                               processors=facts["multiprocessors"], mma=facts["mma_s8_top_per_s"] * 1e12,
                               gap=facts["graph_launch_us"])


def beside(path):
    """Predictions for the benches that lie beside the facts."""
    with open(path, encoding="utf-8") as file:
        card, rows = card_of(json.load(file)), []
    models = {"llama-1b": MODELS[0], "llama-7b": LLAMA7, "experts": dataclasses.replace(MIXTRAL, layers=8)}
    for bench in sorted(glob.glob(os.path.join(os.path.dirname(path), "bench-*.json"))):
        name, kind, exact = re.match(r"bench-(.*)-(\w+)-(on|off)-\d+\.json", os.path.basename(bench)).groups()
        with open(bench, encoding="utf-8") as file:
            runs = json.load(file)["rows"] if kind in TYPES and name in models else []
        for test, n, keys, measured in (map(run.get, ("test", "batch", "prompt", "tokens_per_s")) for run in runs):
            predicted = (n / decode(card, models[name], kind, n, keys) if test == "decode" else
                         keys / prefill(card, models[name], kind, keys, exact == "on"))
            rows.append((f"{name}, {kind}, --exact {exact}: {test}, prompt of {keys}, {n} sequences", figure(measured),
                         figure(predicted), f"{predicted / measured:.2f}"))
    return table((f"{card.name}, tokens/s", "measured", "predicted", "ratio"), rows)


def check():
    off = [f"{row[0]}: {100 * row[5]:+.0f} %" for row in rows_measured() if abs(row[5]) > MOST]
    if off:
        sys.exit("tools/gpu_model.py:1: over 15 % off what was measured: " + "; ".join(off))
    if text_of_page()[1] != tables():
        sys.exit(f"{PAGE}:1: not what the model says: run tools/gpu_model.py")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--check", action="store_true")
    args.add_argument("--facts", metavar="FILE")
    args = args.parse_args()
    if args.check:
        check()
    elif args.facts:
        print(beside(args.facts), end="")
    else:
        text = text_of_page()[0]
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text + BELOW + tables())


main()
