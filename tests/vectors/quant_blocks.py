#!/usr/bin/env python3
"""quant_blocks.py - writes quant_blocks.txt: what the Python package gguf (0.18 or later) makes of random blocks of every type.

    python3 tests/vectors/quant_blocks.py > tests/vectors/quant_blocks.txt

decode NAME CRC v0 v1 v2: 64 blocks of random bytes, decoded; CRC-32 of the float32 bits (NaN as 0x7fc00000), and three values.
encode NAME CRC: 64 blocks of random floats, encoded; CRC-32 of the bytes. Bytes come from u = u * 6364136223846793005 +
1442695040888963407 (mod 2^64), u0 = 1, the top byte of each; floats are (top 24 bits - 2^23) * 2^(byte % 8 - 23).
q8_1, q8_k, q1_0 and q2_0 have no decoder in gguf: their three-line definitions are written out here, and so are the
formats of the Inferflow paper (LINEAR) and this project's own (TABLES), whose levels are read from src/tensor/quant_tables.c.
"""
import re
import zlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES

BLOCKS = 64
OWN = {  # name -> (weights, bytes, decode)
    "q8_1": (32, 36, lambda b: f16(b[:, 0:2]) * b[:, 4:36].view(np.int8).astype(np.float32)),
    "q8_k": (256, 292, lambda b: b[:, 0:4].copy().view(np.float32) * b[:, 4:260].view(np.int8).astype(np.float32)),
    "q1_0": (128, 18, lambda b: np.where(np.unpackbits(b[:, 2:], axis=1, bitorder="little") > 0, f16(b[:, 0:2]), -f16(b[:, 0:2]))),
    "q2_0": (64, 18, lambda b: f16(b[:, 0:2]) * (((b[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3).reshape(len(b), 64)
                                                 .astype(np.float32) - 1)),
}


def f16(b):
    return b.copy().view(np.float16).astype(np.float32)


def stream(n):
    u, out = 1, np.empty(n, np.uint64)
    for i in range(n):
        u = (u * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out[i] = u
    return out


def crc(x):
    return f"{zlib.crc32(x.tobytes()):08x}"


LINEAR = {  # name -> (weights, top, widths of the bit planes, upper first); pairs: of 32 codes below 121
    "q8_b32": (32, 255, (8,)), "q8_b64": (64, 255, (8,)), "q6_b64": (64, 63, (2, 4)), "q5_b64": (64, 31, (1, 4)),
    "q4_b32": (32, 15, (4,)), "q4_b64": (64, 15, (4,)), "q3h_b64": (64, 10, (1, 2, 4)), "q3_b32": (32, 7, (1, 2)),
    "q2_b32": (32, 3, (2,)),
}


def linear_sizes(name):
    weights, _, planes = LINEAR[name]
    return weights, 4 + (weights // 2 if name == "q3h_b64" else weights) * sum(planes) // 8


def linear_decode(name, b):
    weights, _, planes = LINEAR[name]
    n, at, q = weights // 2 if name == "q3h_b64" else weights, 4, 0
    for i, width in enumerate(planes):
        bits = np.unpackbits(b[:, at : at + n * width // 8], axis=1, bitorder="little").reshape(len(b), n, width)
        q = q + ((bits << np.arange(width)).sum(axis=2) << sum(planes[i + 1 :]))
        at += n * width // 8
    if name == "q3h_b64":
        q = np.stack([q % 11, np.minimum(q // 11, 10)], axis=2).reshape(len(b), weights)
    return q.astype(np.float32) * f16(b[:, 2:4]) + f16(b[:, 0:2])


def linear_encode(name, x):
    weights, top, planes = LINEAR[name]
    x = x.reshape(-1, weights)
    low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    base, scale = low.astype(np.float16), ((high - low) / np.float32(top)).astype(np.float16)
    q = (x - base.astype(np.float32)) / scale.astype(np.float32)
    q = np.clip(np.rint(np.where(np.isnan(q), 0, q)), 0, top).astype(np.int64)
    if name == "q3h_b64":
        q = q[:, 0::2] + 11 * q[:, 1::2]
    out, below = [base.view(np.uint8), scale.view(np.uint8)], sum(planes)
    for width in planes:
        below -= width
        part = q >> below & ((1 << width) - 1)
        bits = (part[:, :, None] >> np.arange(width) & 1).astype(np.uint8).reshape(len(x), -1)
        out.append(np.packbits(bits, axis=1, bitorder="little"))
    return np.concatenate(out, axis=1)


TABLES = {  # name -> (bits of a code, weights of a choice, bits of a choice, name of the levels in the source)
    "q4_t": (4, 16, 3, "level_4"), "q3h_t": (3, 8, 4, "level_3h"), "q3_t": (3, 16, 4, "level_3"), "q2_t": (2, 8, 4, "level_2"),
}


def tables_size(name):
    bits, sub, choice, _ = TABLES[name]
    return 1 + 128 // sub * choice // 8 + 16 * bits


def tables_decode(name, b):
    bits, sub, choice, source = TABLES[name]
    text = re.search(r"int8_t %s\[\d+\] = \{(.*?)\}" % source, open("src/tensor/quant_tables.c").read(), re.S).group(1)
    level = np.array([int(v) for v in re.findall(r"-?\d+", text)])
    field = lambda at, n, width: (np.unpackbits(b[:, at : at + n * width // 8], axis=1, bitorder="little").reshape(len(b), n, width)
                                  << np.arange(width)).sum(axis=2)
    at = 1 + 128 // sub * choice // 8
    code = field(at, 128, bits) if bits != 3 else field(at, 128, 1) << 2 | field(at + 16, 128, 2)
    index = np.repeat(field(1, 128 // sub, choice), sub, axis=1) << bits | code
    scale = (b[:, :1].astype(np.uint16) << 7).view(np.float16).astype(np.float32) / 256
    return level[index].astype(np.float32) * scale


def main():
    np.seterr(all="ignore")
    kinds = {t.name.lower(): t for t in T if GGML_QUANT_SIZES[t][0] > 1}
    for name in sorted(set(kinds) | set(OWN) | set(LINEAR) | set(TABLES)):
        if name in LINEAR:
            weights, size = linear_sizes(name)
        elif name in TABLES:
            weights, size = 128, tables_size(name)
        else:
            weights, size = OWN[name][:2] if name in OWN else GGML_QUANT_SIZES[kinds[name]]
        raw = (stream(BLOCKS * size) >> np.uint64(56)).astype(np.uint8).reshape(BLOCKS, size)
        if name in LINEAR:
            y = linear_decode(name, raw)
        elif name in TABLES:
            y = tables_decode(name, raw)
        else:
            y = OWN[name][2](raw) if name in OWN else quants.dequantize(raw, kinds[name])
        y = np.ascontiguousarray(y, np.float32).reshape(-1)
        assert len(y) == BLOCKS * weights
        bits = y.view(np.uint32).copy()
        bits[np.isnan(y)] = 0x7FC00000
        print("decode", name, crc(bits), *[f"{v:.9g}" for v in y[[0, weights - 1, weights]]])
    u = stream(BLOCKS * 32)
    x = ((u >> np.uint64(40)).astype(np.int64) - 2**23).astype(np.float32) * np.exp2((u % np.uint64(8)).astype(np.float32) - 23)
    x = np.concatenate([x.astype(np.float32), np.zeros(32, np.float32)])
    for name in ("bf16", "f16", "mxfp4", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"):
        t = getattr(T, name.upper())
        print("encode", name, crc(x.astype(np.float16) if name == "f16" else quants.quantize(x.reshape(1, -1), t)))
    for name in LINEAR:
        print("encode", name, crc(linear_encode(name, x[: BLOCKS * 32])))


main()
