#!/usr/bin/env python3
"""one_way.py - 8 KiB reduced by four nodes at 5 ms one way: once across in one step, twice in two; judged beside plain
sockets that carry the same bytes in the same laboratory."""
import json
import subprocess
import sys

from netlab import BINARY, INSIDE, all_to_all, devices, finish, inside, judge, need, nodes_of


def compare(key):
    plain = {"one_shot": max(r["ms_p50"] for r in all_to_all(4, 8192, 50)),
             "two_step": 2 * max(r["ms_p50"] for r in all_to_all(4, 2048, 50))}
    for algorithm, ms in plain.items():
        words = ["bench", "allreduce", "--devices", devices(4, "&"), "--key-file", key, "--bytes", "8K", "--codec",
                 "f16", "--algorithm", algorithm, "--reps", "50", "--json"]
        done = subprocess.run([BINARY, *words], check=True, stdout=subprocess.PIPE, text=True)
        judge(f"8 KiB at 5 ms one way, {algorithm}, of plain sockets ({ms:.2f} ms)",
              json.loads(done.stdout)["rows"][0]["seconds"] * 1e3 / ms, 1.1, least=False)


if INSIDE:
    compare(sys.argv[1])
else:
    need("node")
    need("bench", "allreduce")
    options, path = nodes_of(4, "builtin")
    inside(path, delay=5, **options)
finish()
