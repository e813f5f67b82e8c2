#!/usr/bin/env python3
"""kills.py [MINUTES] - nodes that are killed and come back while a server generates: its texts are those of an
undisturbed run. Killed at 30 random moments; cut off; gone for good; with a spare; and once a minute for 10 minutes."""
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from netlab import BINARY, INSIDE, devices, finish, host, inside, judge, need, nodes_of, tell

TOKENS, WAIT = 150, 5
URL = "http://127.0.0.1:8080"


class Server:
    """`inferflow serve` on the leader; `reference` is what it generates undisturbed, which takes `seconds`."""

    def __init__(self, key, layout, *words):
        flags = ["--port", "8080", "--devices", layout, "--key-file", key, *words]
        self.process = subprocess.Popen([BINARY, "serve", *flags])
        until = time.monotonic() + 60
        while self.health().get("status") != "ok":
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"kills: the server ended, or is not ready: {self.health()}")
            time.sleep(0.1)
        self.seconds = 60.0
        for _ in range(3):  # the least: on busy cores one may take twice as long, and a node be killed after its end
            start = time.monotonic()
            self.reference = self.complete()
            self.seconds = min(self.seconds, time.monotonic() - start)

    def get(self, path, body=None):
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as e:
            return json.loads(e.read())
        except OSError:
            return {}

    def health(self):
        return self.get("/health")

    def complete(self):
        """The ids, or the error's message."""
        reply = self.get("/v1/completions", {"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0,
                                             "ignore_eos": True, "return_token_ids": True})
        return reply["choices"][0]["token_ids"] if "choices" in reply else reply.get("error", {}).get("message", "")

    def complete_while(self, disturb):
        """What comes of a query while disturb() runs."""
        results = []
        query = threading.Thread(target=lambda: results.append(self.complete()))
        query.start()
        disturb()
        query.join()
        return results[0]

    def noticed(self):
        """Seconds until /health says that a node is away."""
        start = time.monotonic()
        while self.health().get("status") != "degraded" and time.monotonic() < start + 10:
            time.sleep(0.02)
        return time.monotonic() - start

    def size(self):
        """Its RSS in bytes and its descriptors; (0, 0) where /proc does not show them."""
        proc = f"/proc/{self.process.pid}"
        try:
            with open(proc + "/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(proc + "/fd"))
        except OSError:
            return 0, 0


def kill_and_restart(server, notices, away):
    node = random.randint(1, 3)
    tell("kill", node)
    notices.append(server.noticed())
    time.sleep(away)
    tell("start", node)


def disturb_many(server, name, count, pause):
    """Kills a node `count` times, each at a random moment of a query, and judges texts, notices and sizes."""
    notices, equal, before = [], 0, None
    for _ in range(count):
        start = time.monotonic()

        def disturb():
            time.sleep(random.uniform(0, server.seconds))
            kill_and_restart(server, notices, random.uniform(0, 7))

        equal += server.complete_while(disturb) == server.reference
        before = before or server.size()  # what a first loss needs is there from now on
        time.sleep(max(0, start + pause - time.monotonic()))
    after = server.size()
    judge(f"{name}, texts as undisturbed", equal, count)
    judge(f"{name}, latest notice", max(notices), 3, " s", least=False)
    judge(f"{name}, RSS grew by", (after[0] - before[0]) / 2**20, 8 + before[0] * 0.1 / 2**20, " MiB", least=False)
    judge(f"{name}, descriptors more", after[1] - before[1], 2, least=False)


def moments(key):
    disturb_many(Server(key, devices(3, ";")), "30 kills at random moments", 30, 0)


def minutes(key, count):
    disturb_many(Server(key, devices(3, ";")), f"a kill a minute for {count}", int(count), 60)


def hole(key):
    server, notices = Server(key, devices(3, ";")), []

    def disturb():
        time.sleep(server.seconds / 2)
        tell("link", "cut", 2)
        notices.append(server.noticed())
        time.sleep(5)
        tell("link", "join", 2)

    judge("black hole of 5 s, text as undisturbed", server.complete_while(disturb) == server.reference, 1)
    judge("black hole, noticed", notices[0], 3, " s", least=False)


def gone(key):
    server, times = Server(key, devices(3, ";"), "--peer-wait", str(WAIT)), []

    def disturb():
        time.sleep(server.seconds / 2)
        tell("kill", 2)
        times.append(time.monotonic())
        times.append(server.noticed())

    message = server.complete_while(disturb)
    seconds = time.monotonic() - times[0] - times[1]
    judge("gone for good, seconds from notice to error", seconds, WAIT + 1, " s", least=False)
    judge("gone for good, the error names the node", host(2) in message, 1)
    tell("start", 2)
    deadline = time.monotonic() + 15
    while server.health().get("status") != "ok" and time.monotonic() < deadline:
        time.sleep(0.1)
    judge("back after all, text as undisturbed", server.complete() == server.reference, 1)


def spare(key):
    layout = f"{host(1)}:7071/cpu|{host(4)}:7071/cpu;{host(2)}:7071/cpu;{host(3)}:7071/cpu"
    server = Server(key, layout)

    def disturb():
        time.sleep(server.seconds / 2)
        tell("kill", 1)

    judge("a spare takes over, text as undisturbed", server.complete_while(disturb) == server.reference, 1)


if INSIDE:
    random.seed(15)
    {"moments": moments, "minutes": minutes, "hole": hole, "gone": gone, "spare": spare}[sys.argv[1]](*sys.argv[2:])
else:
    need("node")
    need("serve", "--peer-wait")
    for test in "moments", "hole", "gone", "spare", "minutes":
        options, path = nodes_of(4 if test == "spare" else 3, "builtin")
        inside(test, path, *((sys.argv[1:] or [10]) if test == "minutes" else []), delay=10, **options)
finish()
