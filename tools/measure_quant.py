#!/usr/bin/env python3
"""measure_quant.py - what quantization costs: mean KL divergence from the float model (1 - cosine for embedding
models), per type.

    tools/measure_quant.py --ggml libggml-base.so -o build/quant_kl.md \\
        --model NAME=PATH,TEXT[,embed][,tokenizer=PATH] ...

Every model is written once with all its weights as f32 (`quantize --format f32`); variants replace the matrices that
`quantize` would encode:

    ours     `quantize --format TYPE`, run with float activations, and again with int8 ones
    plain    least and greatest weight of the same block (equation 1 of the Inferflow paper), here in numpy
    ggml     llama.cpp's own encoders, called through a shared library that has ggml_quantize_chunk; rows that are no
    whole
             super-blocks are filled up with zeros for them, so that no type is replaced by a larger one

so that nothing differs between columns but the codes. The table goes into src/tensor/README.md, of which
tools/plot_quant.py makes the plot. TEXT is what is compared on: `eval divergence` in windows of
--ctx, for encoders line by line; a file NAME.ids holds lines of token ids; for embedding models a text a line, 1 -
cosine of the vectors. Needs numpy, and gguf for decoding the ggml types.
"""
import argparse
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

OURS = {  # type -> stored bits
    "q8_b32": 9, "q8_b64": 8.5, "q6_b64": 6.5, "q5_b64": 5.5, "q4_b32": 5, "q4_b64": 4.5, "q3h_b64": 4, "q3_b32": 4,
        "q2_b32": 3,
    "q4_t": 4.25, "q3h_t": 3.5625, "q3_t": 3.3125, "q2_t": 2.5625,
}
PLAIN = {"q8_b32": (32, 255), "q8_b64": (64, 255), "q6_b64": (64, 63), "q5_b64": (64, 31), "q4_b32": (32, 15),
         "q4_b64": (64, 15),
         "q3h_b64": (64, 10), "q3_b32": (32, 7), "q2_b32": (32, 3)}
GGML = {  # type -> id, stored bits
    "q8_0": (8, 8.5), "q6_k": (14, 6.5625), "q5_k": (13, 5.5), "q4_k": (12, 4.5), "q4_0": (2, 4.5), "iq4_nl": (20, 4.5),
        "iq4_xs": (23, 4.25),
    "q3_k": (11, 3.4375), "iq3_s": (21, 3.4375), "iq3_xxs": (18, 3.0625), "q2_k": (10, 2.625), "iq2_s": (22, 2.5625),
}
NEED_IMPORTANCE = {"iq2_s"}  # llama.cpp refuses without; ones are given


def read_safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(n)), f.read()


def write_safetensors(path, head, data):
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def plain(x, block, top):
    rows, cols = x.shape
    fill = -cols % block
    v = np.concatenate([x, np.repeat(x[:, -1:], fill, axis=1)], axis=1).reshape(-1, block)
    low, high = v.min(axis=1, keepdims=True), v.max(axis=1, keepdims=True)
    base = low.astype(np.float16).astype(np.float32)
    scale = ((high - low) / np.float32(top)).astype(np.float16).astype(np.float32)
    q = np.clip(np.rint((v - base) / np.where(scale > 0, scale, 1)), 0, top)
    return (q * scale + base).astype(np.float32).reshape(rows, -1)[:, :cols]


class Ggml:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path, mode=os.RTLD_LAZY)
        self.lib.ggml_row_size.restype = ctypes.c_size_t
        self.lib.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
        self.lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3,
                                                 ctypes.c_void_p]

    def __call__(self, x, name):
        import gguf

        rows, cols = x.shape
        width = -(-cols // 256) * 256
        v = np.zeros((rows, width), np.float32)
        v[:, :cols] = x
        kind = GGML[name][0]
        out = np.zeros(self.lib.ggml_row_size(kind, width) * rows, np.uint8)
        ones = np.ones(width, np.float32)
        self.lib.ggml_quantize_init(kind)
        self.lib.ggml_quantize_chunk(kind, v.ctypes.data, out.ctypes.data, 0, rows, width,
                                     ones.ctypes.data if name in NEED_IMPORTANCE else None)
        floats = gguf.quants.dequantize(out.reshape(rows, -1), gguf.GGMLQuantizationType(kind))
        return floats.reshape(rows, width)[:, :cols]


class Model:
    """One model: its float form, and how far another form of it is."""

    def __init__(self, text, inferflow, ctx, folder):
        name, rest = text.split("=", 1)
        path, self.text, *more = rest.split(",")
        self.name, self.inferflow, self.ctx, self.folder = name, inferflow, ctx, folder
        self.embed = "embed" in more
        self.pieces = [(["-f", self.text], ctx)]
        if self.text.endswith(".ids"):
            lines = open(self.text).read().split()
            self.pieces = [(["--ids", line], min(ctx, line.count(",") + 1)) for line in lines]
        self.source = ["--model", path] + [w for m in more if m.startswith("tokenizer=") for w
                                           in ("--tokenizer", m[10:])]
        self.float = os.path.join(folder, f"{name}-f32.safetensors")
        self.run("quantize", *self.source, "--format", "f32", "-o", self.float)
        self.head, self.data = read_safetensors(self.float)
        some = self.quantized("q8_b64")
        self.matrices = [k for k, v in read_safetensors(some)[0]["__metadata__"].items() if v.endswith(".r16")]
        self.count = sum(np.prod(self.head[k]["shape"]) for k in self.matrices)
        self.vectors = self.embedding(self.float, "f32") if self.embed else None

    def run(self, *command, lines=None):
        done = subprocess.run([self.inferflow, *command], capture_output=True, text=True, input=lines)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def embedding(self, path, act):
        out = os.path.join(self.folder, "vectors.npy")
        self.run("embed", "--model", path, "--act", act, "-o", out, lines=open(self.text).read())
        return np.load(out).astype(np.float64)

    def quantized(self, kind):
        path = os.path.join(self.folder, f"{self.name}-{kind}.safetensors")
        self.run("quantize", *self.source, "--format", kind, "-o", path)
        return path

    def replaced(self, change):
        data = bytearray(self.data)
        for k in self.matrices:
            t = self.head[k]
            a, b = t["data_offsets"]
            x = np.frombuffer(self.data[a:b], np.float32).reshape(t["shape"])
            data[a:b] = np.ascontiguousarray(change(x), np.float32).tobytes()
        path = os.path.join(self.folder, f"{self.name}-changed.safetensors")
        write_safetensors(path, self.head, bytes(data))
        return path

    def distance(self, path, act="f32"):
        if self.embed:
            v, w = self.vectors, self.embedding(path, act)
            return float(np.mean(1 - (v * w).sum(1) / np.sqrt((v * v).sum(1) * (w * w).sum(1))))
        total = rows = 0
        for what, ctx in self.pieces:
            r = json.loads(self.run("eval", "divergence", "--model", path, "--against", self.float, "--act", act,
                                    "--ctx", str(ctx), *what,
                                    "--json"))
            total += r["kl_mean"] * r["tokens"]
            rows += r["tokens"]
        return total / rows


def measure(model, ggml):
    rows = []

    def add(kind, how, bits, **numbers):
        rows.append({"model": model.name, "type": kind, "how": how, "bits": bits, **numbers})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)

    add("f32", "ours", 32, kl=model.distance(model.float))
    for kind, bits in OURS.items():
        try:
            path = model.quantized(kind)
        except RuntimeError as e:
            print(e, file=sys.stderr)
            continue
        add(kind, "ours", bits, kl=model.distance(path), kl_q8=model.distance(path, "q8"))
        os.remove(path)
    for kind, (block, top) in PLAIN.items():
        add(kind, "plain", OURS[kind], kl=model.distance(model.replaced(lambda x: plain(x, block, top))))
    for kind, (_, bits) in GGML.items() if ggml else ():
        add(kind, "ggml", bits, kl=model.distance(model.replaced(lambda x: ggml(x, kind))))
    return rows


def table(rows):
    models = list(dict.fromkeys(r["model"] for r in rows))
    by = {(r["model"], r["type"], r["how"]): r for r in rows}
    out = ["| type | stored bits | " + " | ".join(models) + " |", "|---|--:|" + "--:|" * len(models)]
    number = lambda v: "–" if v is None else f"{v:.2e}" if v < 1e-3 else f"{v:.4f}" if v < 0.1 else f"{v:.3f}"
    get = lambda m, kind, how, key: by.get((m, kind, how), {}).get(key)
    kinds = [(k, "ours", b) for k, b in OURS.items()] + [(k, "ggml", b) for k, (_, b) in GGML.items()]
    for kind, how, bits in sorted(kinds, key=lambda k: (-k[2], k[1])):
        if not any((m, kind, how) in by for m in models):
            continue
        cells = []
        for m in models:
            cell = number(get(m, kind, how, "kl"))
            if how == "ours" and get(m, kind, "ours", "kl_q8") is not None:
                cell += " / " + number(get(m, kind, "ours", "kl_q8"))
            if get(m, kind, "plain", "kl") is not None and how == "ours":
                cell += " (" + number(get(m, kind, "plain", "kl")) + ")"
            cells.append(cell)
        label = f"**{kind}**" if how == "ours" else f"ggml {kind}"
        out.append(f"| {label} | {bits:g} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def checks(rows):
    """What the table has to show; prints what does not hold."""
    by = {(r["model"], r["type"], r["how"]): r for r in rows}
    bad = 0
    for m in dict.fromkeys(r["model"] for r in rows):
        kl = lambda kind, how="ours": by[m, kind, how]["kl"]
        claims = [(f"{a} < {b}", kl(a), kl(b)) for a, b in zip(("q8_b32", "q6_b64", "q5_b64", "q4_b64", "q3h_b64"),
                                                               ("q6_b64", "q5_b64", "q4_b64", "q3h_b64", "q3_b32"))]
        claims += [(f"{k} fitted < plain", kl(k), kl(k, "plain")) for k in PLAIN if not k.startswith("q8")]
        for k in OURS:
            if not k.startswith("q8") and (m, k, "ours") in by:
                more = by[m, k, "ours"]["kl_q8"] - kl(k)
                claims.append((f"{k}: int8 activations", more, min(1e-3, 0.15 * kl(k))))
        for two, most in (("q2_t", 2.7), ("q3_t", 3.5), ("q4_t", 4.3)):
            claims += [(f"{two} < {g}", kl(two), kl(g, "ggml")) for g, (_, b) in GGML.items()
                       if (m, g, "ggml") in by and (m, two, "ours") in by and OURS[two] <= b <= most]
        for what, a, b in claims:
            if not a < b:
                bad += 1
                print(f"NOT SO: {m}: {what}: {a:.3g}, {b:.3g}")
    return bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--inferflow", default="build/inferflow")
    p.add_argument("--ggml", help="shared library with ggml_quantize_chunk")
    p.add_argument("--model", action="append", default=[], help="NAME=PATH,TEXT[,embed][,tokenizer=PATH]")
    p.add_argument("--ctx", type=int, default=256)
    p.add_argument("--types", help="only these, divided by commas")
    p.add_argument("--rows", help="JSON lines of earlier runs (standard error of this program), instead of or besides "
                                  "measuring")
    p.add_argument("-o", "--output", help="the table, as Markdown")
    a = p.parse_args()
    rows = [json.loads(line) for line in open(a.rows) if line.startswith("{")] if a.rows else []
    if a.types:
        for kinds in (OURS, PLAIN, GGML):
            for k in set(kinds) - set(a.types.split(",")):
                del kinds[k]
    with tempfile.TemporaryDirectory() as folder:
        for text in a.model:
            rows += measure(Model(text, a.inferflow, a.ctx, folder), Ggml(a.ggml) if a.ggml else None)
    print(table(rows))
    if a.output:
        open(a.output, "w").write(table(rows))
    sys.exit(0 if a.types else checks(rows) > 0)


main()
