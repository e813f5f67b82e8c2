#!/usr/bin/env python3
"""recovery.py - how many round trips a text stands still when a node dies and a spare takes its part, 100 ms there and
back: the longest pause between two tokens beside the same without a delay. It is to be what a new session of the same
text pays, half a round trip in which the end of the node is heard of, and the step that was under way."""
import os
import subprocess
import sys
import time

from netlab import BINARY, INSIDE, devices, finish, host, judge, lab, model, need, nodes_of, tell

ROUND_TRIP, TOKENS, PROMPT = 0.1, 10, [5, 6, 7]


def longest_pause(words):
    """Seconds without a token, when the first node is killed after a third of the text."""
    pause, last, tokens, killed = 0.0, None, 0, False
    with subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        while part := os.read(run.stdout.fileno(), 4096):
            now = time.monotonic()
            tokens += part.count(b",")
            pause = max(pause, now - last) if killed else 0.0
            if tokens > TOKENS // 3 and not killed:
                killed = bool(tell("kill", 1)) or True
            last = time.monotonic()
    if run.returncode or not killed:
        sys.exit(f"recovery: status {run.returncode}, killed: {killed}")
    return pause


def first_token(words):
    begin = time.monotonic()
    subprocess.run([BINARY, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def words_for(layout, ids, tokens):
    return ["run", "-m", path, "--devices", layout, "--key-file", key, "--ids", ",".join(map(str, ids)), "-n",
            str(tokens), "--ignore-eos", "--temperature", "0", "--output", "ids"]


if INSIDE:
    at = sys.argv.index("then")
    print(longest_pause(sys.argv[1:at]), first_token(sys.argv[at + 1:]))
    sys.exit(0)
need("node")
path = model("chain", layers=12, dim=512, heads=8, kv_heads=4, ffn=1408, vocab=2000)
for join in ";", "&":
    options, key = nodes_of(3, path)
    a, b, spare = (f"{host(n)}:7071/cpu" for n in (1, 2, 3))
    words = [*words_for(f"{a}|{spare}{join}{b}", PROMPT, TOKENS), "then",
             *words_for(f"{spare}{join}{b}", PROMPT + list(range(10, 14)), 1)]
    near, far = ([min(x) for x in zip(*(map(float, lab([sys.executable, __file__, *words], delay=delay,
                                                       **options).split()[-2:]) for _ in range(3)))]
                 for delay in (0.05, ROUND_TRIP / 2 * 1000))
    pause, opening = ((long - short) / ROUND_TRIP for short, long in zip(near, far))
    judge(f"a|spare{join}b, round trips that a text stands still, beside {opening:.1f} of a new session", pause,
          opening + 1.5, least=False)
finish()
