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
    """Of the program, the shortest of three runs."""
    best = 1e9
    for _ in range(3):
        begin = time.monotonic()
        subprocess.run([BINARY, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        best = min(best, time.monotonic() - begin)
    return best


if INSIDE:
    print(seconds_of(sys.argv[1:]))
    sys.exit(0)
need("node")
path = model("chain", layers=12, dim=512, heads=8, kv_heads=4, ffn=1408, vocab=2000)
for count, join in BARS:
    options, key = nodes_of(count, path)
    words = ["run", "-m", path, "--devices", devices(count, join), "--key-file", key, "--ids", "5,6,7", "-n", "1",
             "--output", "ids"]
    near, far = (float(lab([sys.executable, __file__, *words], delay=delay, **options).split()[-1])
                 for delay in (0.05, ROUND_TRIP / 2 * 1000))
    judge(f"{count} nodes joined by {join}, round trips to the first token", (far - near) / ROUND_TRIP,
          BARS[count, join], least=False)
finish()
