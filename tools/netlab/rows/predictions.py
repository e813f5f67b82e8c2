#!/usr/bin/env python3
"""predictions.py - what `plan` says beside what `bench` measures, over ten layouts: on this machine, on slowed nodes,
on links that are slow or far; and whether --peers finds the best."""
import json
import subprocess

from netlab import BINARY, devices, finish, host, judge, lab, model, need, nodes_of

PROMPT, TOKENS = 512, 48
need("plan", "--prompt")
need("node", "--as")
path = model("ttft", layers=4, dim=2048, heads=32, kv_heads=4, ffn=5632, vocab=2000)


def ask(words, key, options):
    """Output of a command as JSON: in a laboratory with these options, or here."""
    words = [BINARY, *map(str, words), "--json"] + (["--key-file", key] if key else [])
    if options:
        return json.loads(lab(words, **options))
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def measured(layout, key, options):
    """Tokens/s of decode and seconds until the first token."""
    rows = ask(["bench", "-m", path, *layout, "-p", PROMPT, "-n", TOKENS, "--reps", 3], key, options)["rows"]
    rate = {row["test"]: row["tokens_per_s"] for row in rows}
    return rate["decode"], PROMPT / rate["prefill"]


def compare(name, layout, key=None, options=None):
    """Judges one layout; its tokens/s as measured."""
    said = ask(["plan", "-m", path, *layout, "-p", PROMPT], key, options)["predicted"]
    decode, first = measured(layout, key, options)
    judge(f"{name}: tokens/s, off by", abs(said["decode_tokens_per_s"] / decode - 1), 0.25, least=False)
    judge(f"{name}: first token, off by", abs(said["ttft_s"] / first - 1), 0.25, least=False)
    return decode


for layout in "cpu:1", "cpu:2", "cpu:1;cpu:1", "cpu:1&cpu:1":
    compare(layout, ["--devices", layout])
slow, key = nodes_of(4, path, "--as", "2,500")
a, b, c, d = (f"{host(n)}:7071/cpu" for n in range(1, 5))
at_1g, at_100m = {**slow, "rate": "1gbit"}, {**slow, "rate": "100mbit", "delay": 2}
rates = [compare("1 Gbit/s, ranks", ["--devices", devices(4, "&")], key, at_1g),
         compare("1 Gbit/s, two groups", ["--devices", f"{a}&{b};{c}&{d}"], key, at_1g),
         compare("1 Gbit/s, layers", ["--devices", devices(4, ";")], key, at_1g)]
compare("100 Mbit/s, 4 ms there and back, layers", ["--devices", devices(4, ";")], key, at_100m)
compare("100 Mbit/s, 4 ms there and back, ranks, int8", ["--devices", devices(4, "&"), "--reduce", "int8"], key,
        at_100m)
compare("100 Mbit/s, two nodes, layers, int8", ["--devices", f"{a};{b}", "--wire", "int8"], key, at_100m)
peers = ["--peers", ",".join(f"{host(n)}:7071" for n in range(1, 5))]
rates.append(measured(["--devices", "cpu:1"], None, None)[0])
judge("1 Gbit/s: --peers, times the best of these", measured(peers, key, at_1g)[0] / max(rates), 0.9)
finish()
