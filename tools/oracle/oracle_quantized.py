#!/usr/bin/env python3
"""oracle_quantized.py - packed tensors decoded by the README's description alone, compared with what the engine looks
up.

For each type the built-in model is quantized, rows of its token table are decoded here and compared, bit for bit, with
what enters the first layer (`eval hidden --layer 0`).  oracle_quantized.py [--binary build/inferflow] [TYPE ...]"""
import argparse
import json
import os
import re
import struct
import subprocess
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
# code (11: pairs of 11 levels), what is added to it, blocks of 64 columns, has a base
ONE = {"q8_0": (8, -128, 2, 0), "q4_0": (4, -8, 2, 0), "q5_0": (5, -16, 2, 0), "q8_b32": (8, 0, 2, 1),
       "q4_b32": (4, 0, 2, 1),
       "q3_b32": (3, 0, 2, 1), "q2_b32": (2, 0, 2, 1), "q4_1": (4, 0, 2, 1), "q5_1": (5, 0, 2, 1),
       "q8_b64": (8, 0, 1, 1),
       "q6_b64": (6, 0, 1, 1), "q5_b64": (5, 0, 1, 1), "q4_b64": (4, 0, 1, 1), "q3h_b64": (11, 0, 1, 1)}
# code, what is added, columns of a block, has minima
TWO = {"q4_k": (4, 0, 32, 1), "q5_k": (5, 0, 32, 1), "q2_k": (2, 0, 16, 1), "q6_k": (6, -32, 16, 0),
       "q3_k": (3, -4, 16, 0)}
# code, bits of a choice, columns of a choice, span, table in quant_tables.c
CHOICE = {"q4_t": (4, 3, 16, 128, "level_4"), "q3h_t": (3, 4, 8, 512, "level_3h"), "q2_t": (2, 4, 8, 512, "level_2"),
          "q3_t": (3, 4, 16, 512, "level_3")}
IDS = [0, 1, 2, 5, 17, 33, 100, 4095]


def groups(code, lines):
    w = np.zeros((16, 64), np.uint8)
    if code == 8:
        w[:] = lines
    if code in (4, 5):
        w[0::2], w[1::2] = lines[:8] & 15, lines[:8] >> 4
    if code in (2, 3):
        for j in range(4):
            for i in range(4):
                w[4 * j + i] = lines[j] >> 2 * i & 3
    if code in (3, 5):
        for j in range(2):
            for i in range(8):
                w[8 * j + i] |= (lines[len(lines) - 2 + j] >> i & 1) << (code - 1)
    if code == 6:
        for i in range(4):
            for m in range(3):
                w[4 * i + m] = lines[3 * i + m] & 63
                w[4 * i + 3] |= (lines[3 * i + m] >> 6) << 2 * m
    if code == 11:
        last = sum((lines[j] >> 7) << j for j in range(7))
        for i, p in enumerate([*(lines & 127), last]):
            w[2 * i], w[2 * i + 1] = p % 11, p // 11
    return w


class Panel:
    def __init__(self, data, cols):
        self.data, self.cols, self.at = data, cols, 0

    def take(self, kind, *shape):
        n = int(np.prod(shape)) * np.dtype(kind).itemsize
        self.at += n
        return np.frombuffer(self.data[self.at - n:self.at], kind).reshape(shape)

    def tiles(self, code, k, span):
        """Codes [row][column] of the tiles of the span at column k."""
        n = min(span // 64, (self.cols - k + 63) // 64)
        lines = 7 if code == 11 else 2 * code
        out = []
        for _ in range(n):
            w = groups(code, self.take(np.uint8, lines, 64))
            out.append(w.reshape(16, 16, 4).transpose(1, 0, 2).reshape(16, 64))
        return np.concatenate(out, 1).astype(np.int64)

    def one_level(self, t, k):
        code, zero, blocks, based = ONE[t]
        q = self.tiles(code, k, 64) + zero
        scale = self.take(np.float16, blocks, 16).astype(np.float32)
        base = self.take(np.float16, blocks, 16).astype(np.float32) if based else np.zeros((blocks, 16), np.float32)
        each = 64 // blocks
        return q.astype(np.float32) * np.repeat(scale, each, 0).T + np.repeat(base, each, 0).T

    def two_levels(self, t, k):
        code, zero, width, minima = TWO[t]
        q, blocks, start = self.tiles(code, k, 256) + zero, 256 // width, self.at
        d = self.take(np.float16, 16).astype(np.float32)
        dmin = self.take(np.float16, 16).astype(np.float32) if minima else None
        scale = self.take(np.uint8 if t == "q2_k" else np.int8, blocks // 2, 16, 2)
        low = scale >> 4 if t == "q2_k" else self.take(np.uint8, blocks // 2, 16, 2) if minima else None
        if t == "q2_k":
            scale = scale & 15
        self.at = start + (self.at - start + 63) // 64 * 64
        spread = lambda v: np.repeat(v.transpose(1, 0, 2).reshape(16, blocks).astype(np.float32), width, 1)[:,
                                                                                                            :q.shape[1]]
        out = d[:, None] * spread(scale) * q.astype(np.float32)
        return out - dmin[:, None] * spread(low) if minima else out

    def choices(self, t, k, levels):
        code, bits, width, span, _ = CHOICE[t]
        q = self.tiles(code, k, span)
        words = self.take(np.uint32, (q.shape[1] + 8 * width - 1) // (8 * width), 16)
        scale = words >> 24 if t == "q4_t" else self.take(np.uint8, 4, 16)
        scale = (scale.astype(np.uint16) << 7).view(np.float16).astype(np.float32) / 256
        column = np.arange(q.shape[1])
        choice = words[column // width // 8] >> (bits * (column // width % 8))[:,
                                                                               None].astype(np.uint32) & (1 << bits) - 1
        return levels[choice.T.astype(np.int64) << code | q] * scale[column // 128].T

    def rows(self, t, levels):
        span = 64 if t in ONE else 256 if t in TWO else CHOICE[t][3]
        part = self.one_level if t in ONE else self.two_levels if t in TWO else lambda t, k: self.choices(t, k, levels)
        out = np.concatenate([part(t, k) for k in range(0, self.cols, span)], 1)[:, :self.cols]
        assert self.at == len(self.data), "a panel has other bytes than described"
        return out


def levels_of(name):
    text = open(os.path.join(HERE, "../../src/tensor/quant_tables.c")).read()
    found = re.search(name + r"\[\d+\] = \{(.*?)\};", text, re.S).group(1)
    return np.array([int(v) for v in found.split(",") if v.strip()], np.float32)


def check(binary, t, folder):
    model, values = os.path.join(folder, "q.safetensors"), os.path.join(folder, "v.npy")
    subprocess.run([binary, "quantize", "--format", t, "-o", model], check=True, stdout=subprocess.DEVNULL)
    ids = ",".join(map(str, IDS))
    subprocess.run([binary, "eval", "hidden", "--layer", "0", "--model", model, "--ids", ids, "-o", values], check=True)
    data = open(model, "rb").read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    said = header["__metadata__"]
    assert start % 64 == 0 and said["dec.token"] == t + ".r16"
    rows, cols = map(int, said["inferflow.shape.dec.token"].split(","))
    first, end = header["dec.token"]["data_offsets"]
    each = (end - first) // ((rows + 15) // 16)
    levels = levels_of(CHOICE[t][4]) if t in CHOICE else None
    for i, want in zip(IDS, np.load(values)):
        at = start + first + i // 16 * each
        got = Panel(data[at:at + each], cols).rows(t, levels)[i % 16].astype(np.float32)
        assert np.array_equal(got, want), f"{t}: row {i} differs by {abs(got - want).max()}"
    print("ok", t)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--binary", default="build/inferflow")
    p.add_argument("types", nargs="*")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for t in a.types or [*ONE, *TWO, *CHOICE]:
            check(a.binary, t, folder)


if __name__ == "__main__":
    main()
