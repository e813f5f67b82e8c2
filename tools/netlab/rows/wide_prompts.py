#!/usr/bin/env python3
"""wide_prompts.py - prompts of 64 sequences through layers on nodes, 100 Mbit/s, int8 on the wire, a model wide in its
dimension alone, so that links are what limits: tokens/s of what a link carries."""
from netlab import bench, devices, finish, judge, model, need, nodes_of

DIM, LINK = 4096, 100e6
need("node")
need("bench", "--wire")
path = model("wide", layers=12, dim=DIM, heads=1, kv_heads=1, head_dim=64, ffn=64, vocab=1000)
bar = 0.85 * LINK / (DIM * 1.023 * 8)
for count, delay, share in (12, None, 1), (4, 50, 0.8):
    options, key = nodes_of(count, path)
    words = ["-m", path, "--weights", "q8", "--devices", devices(count, ";"), "--wire", "int8", "-p", 128, "-n", 0,
             "-b", 64, "--reps", 2]
    rate = bench(words, key, rate="100mbit", delay=delay, **options)["prefill", 64]
    judge(f"{count} nodes{', 100 ms there and back' if delay else ''}, prompts", rate, share * bar, " tokens/s")
finish()
