#!/usr/bin/env python3
"""decode_chain.py - decode through a chain of 3 and of 12 nodes, 100 Mbit/s, 100 ms there and back: how many more round
trips a token takes, and whether 8 queries get on as fast as one."""
from netlab import bench, devices, finish, judge, model, need, nodes_of

ROUND_TRIP = 0.1
need("node")
path = model("chain", layers=12, dim=512, heads=8, kv_heads=4, ffn=1408, vocab=2000)
for count, bar in (3, 2.1), (12, 6.9):
    options, key = nodes_of(count, path)
    words = ["-m", path, "--devices", devices(count, ";"), "-p", 16, "-n", 16, "-b", "1,8", "--reps", 2]
    near = bench(words, key, rate="100mbit", **options)
    far = bench(words, key, rate="100mbit", delay=ROUND_TRIP / 2 * 1000, **options)
    added = (1 / far["decode", 1] - 1 / near["decode", 1]) / ROUND_TRIP
    judge(f"{count} nodes, 100 ms there and back, round trips a token", added, bar, least=False)
    judge(f"{count} nodes, each of 8 queries of one alone", far["decode", 8] / 8 / far["decode", 1], 0.9)
finish()
