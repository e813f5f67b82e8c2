#!/usr/bin/env python3
"""laboratory.py - holds the laboratory to what it says: rates, delays, losses, cuts, nothing left behind."""
import json
import os
import signal
import subprocess
import sys
import time

from netlab import INSIDE, LAB, all_to_all, finish, host, inside, judge, tell


def ask(bytes_each, reply, rounds, node=1, within=60):
    """Result of `probe ask` from the leader, or None where it took longer than `within` seconds."""
    try:
        done = subprocess.run(["probe", "ask", host(node), str(bytes_each), str(reply), str(rounds)], check=True,
                              capture_output=True, text=True, timeout=within)
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return None


def rate_test(mbit):
    rates = [r["mbit_per_s"] / mbit for r in all_to_all(4, mbit * 40000, 1)]
    mean = sum(rates) / len(rates)
    judge(f"rate of {mbit} Mbit/s, four nodes all to all, mean share", mean, 0.85)
    judge(f"rate of {mbit} Mbit/s, four nodes all to all, mean share", mean, 1.0, least=False)


def delay_test():
    ms = ask(8192, 8192, 50)["ms_p50"]
    judge("8 KiB there and back, 5 ms one way", ms, 10, " ms")
    judge("8 KiB there and back, 5 ms one way", ms, 11, " ms", least=False)
    tell("link", "jitter", 10)
    spread = ask(64, 64, 100)
    judge("jitter of 10 ms, middle of a round trip", abs(spread["ms_p50"] - 20), 4, " ms off 20", least=False)
    judge("jitter of 10 ms, least and most of a round trip", spread["ms_max"] - spread["ms_min"], 8, " ms apart")


def counts():
    """Of the switch so far: frames, lost, cut."""
    log = os.path.join(os.environ["LAB"], "switch.log")
    before = os.path.getsize(log)
    tell("link", "show")
    while os.path.getsize(log) == before:
        time.sleep(0.01)
    with open(log, encoding="ascii") as f:
        return [int(part.split()[-1]) for part in f.read().split("\n")[-2].split(",")[:3]]


def loss_test():
    tell("link", "loss", 5)
    before = counts()
    ask(4000000, 1, 1)
    frames, lost = (now - then for now, then in zip(counts()[:2], before))
    judge("loss of 5 %, share of frames", abs(lost / frames - 0.05), 0.015, " off 0.05", least=False)
    tell("link", "loss", 0)


def cut_test():
    tell("link", "cut", 1)  # a black hole
    judge("answers of a node that is cut off", float(ask(64, 64, 1, within=1) is not None), 0, least=False)
    judge("answers of another node meanwhile", float(ask(64, 64, 1, 2, within=5) is not None), 1)
    tell("link", "join", 1)
    tell("link", "cut", 0, 2)  # between two
    judge("answers over a cut link", float(ask(64, 64, 1, 2, within=1) is not None), 0, least=False)
    judge("answers over another", float(ask(64, 64, 1, within=5) is not None), 1)
    tell("link", "join")
    judge("answers when all is joined", float(ask(64, 64, 1, 2, within=5) is not None), 1)


def left_test(sign):
    """A laboratory that is ended by a signal leaves no process."""
    mark = f"31.4{os.getpid()}{sign:02d}"
    box = subprocess.Popen([LAB, "--nodes", "2", "--delay", "1", "--node", f"sleep {mark}", "--", "sleep", mark],
                           stderr=subprocess.DEVNULL)
    for wanted in True, False:
        for _ in range(200):
            found = subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True).returncode == 0
            if found == wanted:
                break
            time.sleep(0.05)
        if wanted:
            time.sleep(0.5)
            box.send_signal(sign)
            box.wait()
    judge(f"processes left after {signal.Signals(sign).name}", float(found), 0, least=False)


def main():
    if INSIDE:
        test = {"rate": rate_test, "delay": delay_test, "loss": loss_test, "cut": cut_test}[sys.argv[1]]
        test(*map(int, sys.argv[2:]))
    else:
        for mbit in 100, 1000:
            inside("rate", mbit, nodes=4, rate=f"{mbit}mbit")
        inside("delay", nodes=4, delay=5, node="probe answer")
        inside("loss", nodes=1, delay=1, node="probe answer")
        inside("cut", nodes=2, delay=1, node="probe answer")
        for sign in signal.SIGINT, signal.SIGTERM, signal.SIGKILL:
            left_test(sign)
    finish()


main()
