#!/usr/bin/env python3
"""ttft.py - time to the first token of 512 over four nodes, at rates where a half and four fifths of it is waiting for
links: what int4 gains, and what steps in flight hide.

c is the share of communication in f16: 1 - time without a limit / time with it. int4 sends 1 / 3.82 of f16's bytes."""
from netlab import bench, devices, finish, judge, model, need, nodes_of

PROMPT, DIM, LAYERS, RANKS = 512, 2048, 8, 4
need("node")
need("bench", "--reduce", "--in-flight")
path = model("ttft8", layers=LAYERS, dim=DIM, heads=32, kv_heads=4, ffn=5632, vocab=2000)
options, key = nodes_of(RANKS, path)


def seconds(reduce, rate, in_flight=1):
    words = ["-m", path, "--devices", devices(RANKS, "&"), "--ends", "away", "-p", PROMPT, "-n", 0, "--reps", 3,
             "--chunk", 128, "--reduce", reduce, "--in-flight", in_flight]
    return PROMPT / bench(words, key, rate=rate, **options)["prefill", 1]


free = seconds("f16", None)
bits = 8 * 2 * LAYERS * 2 * (RANKS - 1) / RANKS * PROMPT * DIM * 2  # that a rank sends: two reductions a layer
for share in 0.5, 0.8:
    rate = f"{bits * (1 - share) / share / free / 1e6:.0f}mbit"
    f16 = seconds("f16", rate)
    c = 1 - free / f16
    gain = f16 / seconds("int4", rate)
    judge(f"{rate}, c = {c:.2f}, int4, times f16", gain, 0.9 / (1 - c + c / 3.82))
    if share == 0.5:
        judge(f"{rate}, c = {c:.2f}, f16 with steps in flight, times itself", f16 / seconds("f16", rate, 2), 1.25)
    else:
        judge(f"{rate}, share of communication", c, 0.76)
        judge(f"{rate}, c = {c:.2f}, int4, times f16", gain, 2.06)
finish()
