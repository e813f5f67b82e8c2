#!/usr/bin/env python3
"""layouts.py - the order of Inferflow's Table 5 over four slowed nodes at 1 Gbit/s, one sequence a step: tensor cuts
are fastest for one query, layers carry most for four."""
from netlab import bench, devices, finish, host, judge, model, need, nodes_of

need("node", "--as")
need("bench", "--step-sequences")
path = model("ttft", layers=4, dim=2048, heads=32, kv_heads=4, ffn=5632, vocab=2000)
options, key = nodes_of(4, path, "--as", "2,500")
a, b, c, d = (f"{host(n)}:7071/cpu" for n in range(1, 5))
layouts = {"tensor": devices(4, "&"), "hybrid": f"{a}&{b};{c}&{d}", "layers": devices(4, ";")}
rates = {}
for name, layout in layouts.items():
    words = ["-m", path, "--devices", layout, "-p", 16, "-n", 32, "-b", "1,4", "--reps", 3, "--step-sequences", 1]
    rates[name] = bench(words, key, rate="1gbit", **options)
for batch, order in (1, ["tensor", "hybrid", "layers"]), (4, ["layers", "hybrid", "tensor"]):
    for more, less in zip(order, order[1:]):
        times = rates[more]["decode", batch] / rates[less]["decode", batch]
        judge(f"decode of {batch} at once, {more}, times {less}", times, 1)
finish()
