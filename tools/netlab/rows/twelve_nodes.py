#!/usr/bin/env python3
"""twelve_nodes.py - decode through 12 nodes beside 3, links without limits, nodes as slow as 20 ms a token in all; and
what one link of ours carries."""
from netlab import bench, devices, finish, judge, model, need, nodes_of, program

LAYERS, DIM, HEADS, KV_HEADS, FFN = 12, 512, 8, 4, 1408
need("node", "--as")
path = model("chain", layers=LAYERS, dim=DIM, heads=HEADS, kv_heads=KV_HEADS, ffn=FFN, vocab=2000)
layer_bytes = 2 * DIM * (2 * DIM + 2 * DIM * KV_HEADS // HEADS + 3 * FFN)
rates = {}
for count in 3, 12:
    options, key = nodes_of(count, path, "--as", f"{LAYERS * layer_bytes / 0.02 / 1e9:.3f},1000")
    words = ["-m", path, "--devices", devices(count, ";"), "-p", 16, "-n", 64, "--reps", 3]
    rates[count] = bench(words, key, **options)["decode", 1]
judge("decode through 12 nodes of that through 3", rates[12] / rates[3], 0.85)
need("bench", "link")
options, key = nodes_of(2, path)
link = program(["bench", "link", "--devices", devices(2, ";")], key, **options)["links"][0]
judge("a link without limits, there and back", link["rtt_ms_p50"], 0.1, " ms", least=False)
judge("a link without limits, one connection", link["mbit_per_s"] / 8, 700, " MB/s")
finish()
