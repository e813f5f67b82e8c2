#!/usr/bin/env python3
"""quant_blocks.py - writes quant_blocks.txt: what the Python package gguf (0.18 or later) makes of random blocks of every type.

    python3 tests/vectors/quant_blocks.py > tests/vectors/quant_blocks.txt

decode NAME CRC v0 v1 v2: 64 blocks of random bytes, decoded; CRC-32 of the float32 bits (NaN as 0x7fc00000), and three values.
encode NAME CRC: 64 blocks of random floats, encoded; CRC-32 of the bytes. Bytes come from u = u * 6364136223846793005 +
1442695040888963407 (mod 2^64), u0 = 1, the top byte of each; floats are (top 24 bits - 2^23) * 2^(byte % 8 - 23).
q8_1, q8_k, q1_0 and q2_0 have no decoder in gguf: their three-line definitions are written out here.
"""
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


def main():
    np.seterr(all="ignore")
    kinds = {t.name.lower(): t for t in T if GGML_QUANT_SIZES[t][0] > 1}
    for name in sorted(set(kinds) | set(OWN)):
        weights, size = OWN[name][:2] if name in OWN else GGML_QUANT_SIZES[kinds[name]]
        raw = (stream(BLOCKS * size) >> np.uint64(56)).astype(np.uint8).reshape(BLOCKS, size)
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


main()
