#!/usr/bin/env python3
"""in_flight.py - first token of 512 over four nodes joined by "&", sums in f16, at a rate where 0.4 of the time is
communication: two steps in flight beside one.

Nodes are paced (`node --as`) to 2.5 times what they take here without: they sleep for most of the time in which they
compute, so that four of them share two cores as if each had its own. c = 1 - time without a limit / time with it, with
one step in flight; the rate is corrected once, by the time that rows took."""
from netlab import bench, devices, finish, judge, model, need, nodes_of

PROMPT, DIM, KV, FFN, LAYERS, RANKS, SHARE, SLOWER = 512, 2048, 256, 5632, 4, 4, 0.4, 2.5
need("node", "--as")
need("bench", "--reduce", "--in-flight")
path = model("ttft", layers=LAYERS, dim=DIM, heads=32, kv_heads=4, ffn=FFN, vocab=2000)


def seconds(nodes, rate, in_flight):
    options, key = nodes
    words = ["-m", path, "--devices", devices(RANKS, "&"), "--ends", "away", "-p", PROMPT, "-n", 0, "--reps", 2,
             "--chunk", 128, "--reduce", "f16", "--in-flight", in_flight]
    return PROMPT / bench(words, key, rate=rate, **options)["prefill", 1]


unpaced = seconds(nodes_of(RANKS, path), None, 1)
gop = 2 * PROMPT * LAYERS * (2 * DIM * DIM + 2 * DIM * KV + 3 * DIM * FFN) / RANKS / 1e9
nodes = nodes_of(RANKS, path, "--as", f"1000,{gop / unpaced / SLOWER:.3f}")
free = seconds(nodes, None, 1)
wanted = free * SHARE / (1 - SHARE)
mbit = 8 * 2 * LAYERS * 2 * (RANKS - 1) / RANKS * PROMPT * DIM * 2 / wanted / 1e6
mbit *= (seconds(nodes, f"{mbit:.0f}mbit", 1) - free) / wanted
rate = f"{mbit:.0f}mbit"
one, two = seconds(nodes, rate, 1), seconds(nodes, rate, 2)
judge(f"{rate}, c = {1 - free / one:.2f}, f16, two steps in flight, times one ({one:.2f} s)", one / two, 1.25)
finish()
