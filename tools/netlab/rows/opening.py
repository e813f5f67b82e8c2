#!/usr/bin/env python3
"""opening.py - how many round trips a session over 1, 3 and 12 nodes takes from its start to its first token, 100 ms
there and back: a whole process beside the same without a delay."""
import subprocess
import sys
import time

from netlab import BINARY, INSIDE, devices, finish, judge, lab, model, need, nodes_of

ROUND_TRIP = 0.1
# For the first token itself: half a trip a node and back; two for each of the 12 layers of a tensor-parallel group.
BARS = {(1, ";"): 7, (3, ";"): 8, (12, ";"): 12.5, (3, "&"): 31}


def seconds_of(words):
    begin = time.monotonic()
    subprocess.run([BINARY, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


if INSIDE:  # on nodes that have never heard of the model; the shortest of three on nodes that have
    print(seconds_of(sys.argv[1:]), min(seconds_of(sys.argv[1:]) for _ in range(3)))
    sys.exit(0)
need("node")
path = model("chain", layers=12, dim=512, heads=8, kv_heads=4, ffn=1408, vocab=2000)
for count, join in BARS:
    options, key = nodes_of(count, path)
    words = ["run", "-m", path, "--devices", devices(count, join), "--key-file", key, "--ids", "5,6,7", "-n", "1",
             "--output", "ids"]
    near, far = (list(map(float, lab([sys.executable, __file__, *words], delay=delay, **options).split()[-2:]))
                 for delay in (0.05, ROUND_TRIP / 2 * 1000))
    for which, short, long in zip(("first", "later"), near, far):
        judge(f"{count} nodes joined by {join}, {which} session, round trips to the first token",
              (long - short) / ROUND_TRIP, BARS[count, join], least=False)
finish()
