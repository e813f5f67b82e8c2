#!/usr/bin/env python3
"""decode_chain.py - decode through a chain of 3 and of 12 nodes, 100 Mbit/s, 100 ms there and back: how many more round
trips a token takes, and whether 8 queries get on as fast as one.

The fastest repetition counts: on a busy machine the switch lets frames go late (lab.sh link show), up to 0.4 s at load
12, and nothing lets them go early."""
from netlab import devices, finish, judge, model, need, nodes_of, program

ROUND_TRIP = 0.1
need("node")


def fastest(words, key, **options):
    """Tokens/s of decode by number of queries at once."""
    rows = program(["bench", *words], key, **options)["rows"]
    return {r["batch"]: r["tokens_per_s_max"] for r in rows if r["test"] == "decode"}


path = model("chain", layers=12, dim=512, heads=8, kv_heads=4, ffn=1408, vocab=2000)
for count, bar in (3, 2.1), (12, 6.9):
    options, key = nodes_of(count, path)
    words = ["-m", path, "--devices", devices(count, ";"), "-p", 16, "-n", 16, "-b", "1,8", "--reps", 3]
    near = fastest(words, key, rate="100mbit", **options)
    far = fastest(words, key, rate="100mbit", delay=ROUND_TRIP / 2 * 1000, **options)
    added = (1 / far[1] - 1 / near[1]) / ROUND_TRIP
    judge(f"{count} nodes, 100 ms there and back, round trips a token", added, bar, least=False)
    judge(f"{count} nodes, each of 8 queries of one alone", far[8] / 8 / far[1], 0.9)
finish()
