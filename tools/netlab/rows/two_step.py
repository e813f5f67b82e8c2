#!/usr/bin/env python3
"""two_step.py - the two-step all-reduce of four nodes in few bits, beside itself and the ring in f16."""
from netlab import devices, finish, judge, need, nodes_of, program

BARS = {"100mbit": {"int4": 3.4, "int6": 2.35, "int8": 1.85, "ring": 3.2},
        "1gbit": {"int4": 2.8, "int6": 2.0, "int8": 1.65, "ring": 2.8}}
need("node")
need("bench", "allreduce")
options, key = nodes_of(4, "builtin")
words = ["bench", "allreduce", "--devices", devices(4, "&"), "--bytes", "4M,16M", "--codec", "f16,int8,int6,int4",
         "--algorithm", "ring,two_step", "--reps", 5]
for rate, bars in BARS.items():
    rows = program(words, key, rate=rate, **options)["rows"]
    seconds = {(r["algorithm"], r["codec"], r["bytes"] >> 20): r["seconds"] for r in rows}
    for size in 4, 16:
        for codec in "int8", "int6", "int4":
            times = seconds["two_step", "f16", size] / seconds["two_step", codec, size]
            judge(f"{rate}, {size} MiB, two-step {codec}, times f16", times, bars[codec])
        times = seconds["ring", "f16", size] / seconds["two_step", "int4", size]
        judge(f"{rate}, {size} MiB, two-step int4, times the ring in f16", times, bars["ring"])
    more = max(r["socket_bytes"] / r["payload_bytes"] for r in rows)
    judge(f"{rate}, bytes into sockets of payload", more, 1.01, least=False)
    judge(f"{rate}, results equal on all ranks", min(r["equal_on_all_ranks"] for r in rows), 1)
finish()
