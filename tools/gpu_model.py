#!/usr/bin/env python3
"""gpu_model.py - predicts the CUDA backend's speed on a card from bytes, instructions and launches.

    tools/gpu_model.py            tables of predictions, as cuda/SPEED.md has them
    tools/gpu_model.py --check    the model beside what an H200 measured; exit status 1 where a row is off by over 15 %

A kernel of decode takes a ramp, what it reads at the card's read peak, and a part of the time of its instructions and
of its reads of shared memory: that part, and the ramp, are fitted to measured rows. A kernel of prefill takes the
slower of its tensor instructions and what follows each block of sums, where different warps do both (wgmma), else their
sum (mma.sync).
"""
import sys

# An H200 (driver 580.159): read peak and rates as measured.
PEAK = 4.61e12                       # bytes a second
CLOCK, SMS = 1.98e9, 132
ISSUE = 128 * SMS * CLOCK            # lane-instructions a second
SHARED = 128 * SMS * CLOCK           # bytes of shared memory a second
MMA, WGMMA = 1028e12, 1657e12        # int8 operations a second
BF16 = 790e12
NODE = 0.55e-6                       # from a kernel to the next one of a graph
# Fitted to the rows of MEASURED.
RAMP = 1.25e-6                       # of a kernel, with its tail
ISSUED, SHARE_READ = 0.75, 2.0       # parts that reading does not hide
FOLLOWS = {"mma": 6.0, "wgmma": 6.3}  # clocks of 128 sums: conversion, scales, one fused multiply-add each
BASE = {"mma": 1.3, "wgmma": 1.8}    # and of a base

# Bits a weight, lane-instructions a weight (up to 8 rows), columns of a block, whether it has a base.
TYPES = {"q4_b64": (4.5, 1.44, 64, True), "q8_0": (8.5, 1.75, 32, False), "q6_b64": (6.5, 2.75, 64, True),
         "f16": (16, 2.8, 0, False)}
# Layers, width, elements of queries, of keys, of the feed-forward, vocabulary.
SHAPES = {"1.1 B": (22, 2048, 2048, 256, 5632, 32000), "7 B": (32, 4096, 4096, 4096, 11008, 32000)}


def decode_kernel(weights, kind, rows):
    """Seconds of y = W x for so many weights, and rows of activations."""
    bits, instructions, _, _ = TYPES[kind]
    tiles = (rows + 7) // 8
    reads = weights * bits / 8 / PEAK
    issue = weights * instructions * (1 + 0.6 * (tiles - 1)) / ISSUE
    shared = weights * min(rows, 8) / 8 * 0.5 * tiles / SHARED
    return RAMP + max(reads, issue) + ISSUED * min(reads, issue) + SHARE_READ * shared


def prefill_rate(kind, way):
    """Operations a second of packed weights times many rows."""
    _, _, block, base = TYPES[kind]
    per_clock = {"mma": MMA, "wgmma": WGMMA}[way] / SMS / CLOCK
    tensor = 2 * 128 * block / per_clock
    follows = FOLLOWS[way] + (BASE[way] if base else 0)
    return 2 * 128 * block / (max(tensor, follows) if way == "wgmma" else tensor + follows) * SMS * CLOCK


LAYER = (12288 * 4096, 4096 * 4096, 22528 * 4096, 4096 * 11264)
# What was measured: name, seconds (or operations a second), and what the model says of it.
MEASURED = [(f"32 layers of 7 B, {k}, {r} row{'s' * (r > 1)}", us * 1e-6,
             32 * sum(decode_kernel(w, k, r) for w in LAYER))
            for k, r, us in (("q4_b64", 1, 1201), ("q4_b64", 8, 1389), ("q8_0", 1, 1808), ("q8_0", 8, 2062))]
MEASURED += [(f"gate and up, {k}, {r} row{'s' * (r > 1)}", us * 1e-6, decode_kernel(LAYER[2], k, r))
             for k, r, us in (("q4_b64", 1, 12.6), ("q4_b64", 8, 14.6), ("q8_0", 1, 22.0), ("q8_0", 8, 23.4))]
