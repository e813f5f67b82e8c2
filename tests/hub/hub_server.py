#!/usr/bin/env python3
"""hub_server.py SPECS VECTORS LOG - a hub of models on loopback, with the faults that hubs have.

It prints its port. NAME says what a repository holds, ORG what is wrong with it: org/tiny is in order, break/large
breaks each body. Files of weights lead to a second port, as the hub's do to the servers of its files. LOG gets a line
of JSON for each request: method, path, port, range, token, bytes sent.
"""
import hashlib
import json
import os
import struct
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SPECS, VECTORS, LOG = sys.argv[1:4]
CHUNK, COMMIT = 1 << 14, "%040x"
UNREAD = "model.layers.0.self_attn.rotary_emb.inv_freq"
lock = threading.Lock()
counts, ports, made = {}, [], {}


def read(path):
    with open(path, "rb") as f:
        return f.read()


def weights(extra):
    """A small model, with one tensor more that nothing reads."""
    text = read(f"{VECTORS}/models/llama/model.safetensors")
    n = struct.unpack("<Q", text[:8])[0]
    head, data = json.loads(text[8:8 + n]), text[8 + n:]
    head[UNREAD] = {"dtype": "U8", "shape": [extra], "data_offsets": [len(data), len(data) + extra]}
    head = json.dumps(head).encode()
    head += b" " * (-len(head) % 8)
    noise = hashlib.sha256(b"noise").digest() * (extra // 32 + 1)
    return struct.pack("<Q", len(head)) + head + data + noise[:extra]


def shards(outside=""):
    """The same model in two files and an index."""
    text = read(f"{VECTORS}/models/llama/model.safetensors")
    n = struct.unpack("<Q", text[:8])[0]
    head, data = json.loads(text[8:8 + n]), text[8 + n:]
    names = sorted(k for k in head if k != "__metadata__")
    files, index = {}, {}
    for k in range(2):
        part, body = {}, b""
        file = f"{outside}model-0000{k + 1}-of-00002.safetensors"
        for name in names[k::2]:
            a, b = head[name]["data_offsets"]
            part[name] = dict(head[name], data_offsets=[len(body), len(body) + b - a])
            body += data[a:b]
            index[name] = file
        text = json.dumps(part).encode()
        text += b" " * (-len(text) % 8)
        files[f"model-0000{k + 1}-of-00002.safetensors"] = struct.pack("<Q", len(text)) + text + body
    files["model.safetensors.index.json"] = json.dumps({"weight_map": index}).encode()
    return files


def make(name):
    config = read(f"{VECTORS}/models/llama/config.json")
    beside = {"config.json": config, "README.md": b"# a model\n", "onnx/model.onnx": b"x" * 1000, ".gitattributes": b""}
    if name == "tiny":
        return dict(beside, **{"model.safetensors": read(f"{VECTORS}/models/llama/model.safetensors"),
                               "pytorch_model.bin": b"y" * 1000})
    if name == "large":
        return dict(beside, **{"model.safetensors": weights(24 << 20)})
    if name == "changes":
        return dict(beside, **{"model.safetensors": weights(1000 + counts.get("changes", 0))})
    if name == "shards":
        return dict(beside, **shards())
    if name == "leads-out":
        return dict(beside, **shards("../"))
    if name == "many":
        return {k: read(f"{SPECS}/builtin.gguf") for k in ("x-Q8_0.gguf", "x-Q4_0.gguf", "x-Q4_K_M.gguf",
                                                          "mmproj-F16.gguf", "sub/x-Q2_K.gguf")}
    return None


def etag_of(file, body):
    """As the hub names large files, and as git names others."""
    if file.endswith((".safetensors", ".gguf")):
        return hashlib.sha256(body).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


def content(name):
    key = (name, counts.get("changes", 0) if name == "changes" else 0)
    with lock:
        if key not in made:
            files = make(name)
            made[key] = files and {k: (v, etag_of(k, v)) for k, v in files.items()}
        return made[key]


def commit_of(name):
    return COMMIT % (int(hashlib.sha1(name.encode()).hexdigest()[:8], 16) + counts.get("changes", 0))


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, sent):
        line = {"method": self.command, "path": self.path, "port": self.server.server_port == ports[0],
                "range": self.headers.get("Range"), "token": self.headers.get("Authorization"), "sent": sent}
        with lock, open(LOG, "a") as f:
            f.write(json.dumps(line) + "\n")

    def reply(self, status, body=b"", **heads):
        self.send_response(status)
        heads = {k.replace("_", "-"): v for k, v in heads.items() if v is not None}
        heads.setdefault("Content-Length", len(body))
        for k, v in heads.items():
            self.send_header(k, str(v))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
        self.note(len(body) if self.command == "GET" else 0)

    def times(self, what):
        with lock:
            counts[what] = counts.get(what, 0) + 1
            return counts[what]

    def refused(self, org, first):
        """Whether this request was answered by the fault of the repository."""
        if org in ("limited", "retry-after", "retry-date", "busy") and self.times(org + self.path) <= 2:
            heads = {"limited": {"RateLimit": '"api";r=0;t=1'}, "retry-after": {"Retry-After": "1"},
                     "retry-date": {"Retry-After": formatdate(time.time() + 2, usegmt=True)}, "busy": {}}[org]
            self.reply(503 if org == "busy" else 429, b"later", **heads)
        elif org == "limited-long":
            self.reply(429, b"later", RateLimit='"api";r=0;t=4000')
        elif org == "gated":
            self.reply(403, b"{}", X_Error_Code="GatedRepo", X_Error_Message="Access to model is restricted")
        elif org == "closed" and self.headers.get("Authorization") != "Bearer hf_good":
            self.reply(401, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="Invalid username or password.")
        elif org == "absent":
            self.reply(404, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        elif org == "broken":
            self.reply(500, b"oops")
        elif org == "silent":
            self.note(0)
            time.sleep(200)
        elif org == "trickles":
            self.note(0)
            try:
                while True:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 40)
                    time.sleep(0.5)
            except OSError:
                self.close_connection = True
        elif org == "loops":
            self.reply(302, Location=self.path)
        elif org == "elsewhere" and first:
            self.reply(302, Location="file:///etc/passwd")
        elif org == "renamed":
            self.reply(307, Location=self.path.replace("/renamed/", "/org/"))
        else:
            return False
        return True

    def do_GET(self):
        part = self.path.split("/")
        if part[1] == "count":
            self.times("changes")
            self.reply(200)
        elif part[1:3] == ["api", "models"] and part[5] == "tree":
            self.tree(part[3], part[4])
        elif part[1:3] == ["api", "models"]:
            self.listing(part[3], part[4], "/".join(part[6:]).replace("%2F", "/"))
        elif self.server.server_port == ports[1]:
            self.file(part[1], part[2], "/".join(part[3:]))
        elif len(part) > 5 and part[3] == "resolve":
            self.resolve(part[1], part[2], part[4], "/".join(part[5:]))
        else:
            self.reply(404)
    do_HEAD = do_GET

    def listing(self, org, name, revision):
        if self.refused(org, False):
            return
        files = content(name)
        if not files or revision not in ("main", "v1.0", "refs/pr/1", commit_of(name)):
            self.reply(404, b"{}", X_Error_Code="RevisionNotFound" if files else "RepoNotFound")
            return
        names = list(files) + {"climbs": ["../../evil"], "roots": ["/etc/passwd"]}.get(org, [])
        body = {"id": f"{org}/{name}", "sha": "../../x" if org == "odd-commit" else commit_of(name),
                "siblings": [{"rfilename": n} for n in names]}
        if org in ("tree", "tree-away"):
            del body["siblings"]
        text = json.dumps(body).encode()
        if org == "long-list":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" " * (1 << 20))
            except OSError:
                return
        self.reply(200, text[:-5] if org == "torn-list" else text, Content_Type="application/json")

    def tree(self, org, name):
        """As huggingface_hub asks for lists."""
        rows = [dict({"type": "file", "path": k, "oid": etag[:40], "size": len(body)},
                     **({"lfs": {"oid": etag, "size": len(body), "pointerSize": 130}} if len(etag) == 64 else {}))
                for k, (body, etag) in content(name).items()]
        rows.insert(1, {"type": "directory", "path": "onnx", "oid": "0" * 40, "size": 0})
        link = None
        if org in ("tree", "tree-away"):
            at = int(self.path.split("cursor=")[1]) if "cursor=" in self.path else 0
            rows, more = rows[at:at + 2], at + 2 < len(rows)
            host = f"http://127.0.0.1:{ports[0 if org == 'tree' else 1]}"
            path = self.path.split("&cursor=")[0]
            link = f'<{host}{path}&cursor={at + 2}>; rel="next"' if more else None
        self.reply(200, json.dumps(rows).encode(), Content_Type="application/json", Link=link)

    def resolve(self, org, name, commit, file):
        if self.refused(org, file.endswith(".safetensors")):
            return
        files = content(name)
        if not files or file not in files:
            self.reply(404, b"{}", X_Error_Code="EntryNotFound")
            return
        body, etag = files[file]
        if org == "other-commit":
            commit = COMMIT % 1
        if len(etag) == 64 and org != "direct":
            size = len(body) + (5 if org == "wrong-size" else 0)
            self.reply(302, b"moved", Location=f"http://127.0.0.1:{ports[1]}/{org}/{name}/{file}",
                       X_Linked_Etag=f'"{etag}"', X_Linked_Size=size, X_Repo_Commit=commit, ETag='"other"')
            return
        quoted = {"weak": f'W/"{etag}"', "bare": etag, "odd-etag": '"../../x"'}.get(org, f'"{etag}"')
        if org == "renews" and self.command == "GET":
            quoted = '"1234"'
        self.send(org, body, {"ETag": quoted, "X-Repo-Commit": commit})

    def file(self, org, name, file):
        if org == "elsewhere-later":
            self.reply(302, Location=f"ftp://127.0.0.1/{file}")
            return
        body = content(name)[file][0]
        if org == "wrong-hash":
            body = body[:500] + bytes([body[500] ^ 1]) + body[501:]
        self.send(org, body, {"ETag": '"of-this-server"'})

    def send(self, org, body, heads):
        """A body or a range of it; ranges in the middle of the file's bytes."""
        start, end, total = 0, len(body), len(body)
        ranged = self.headers.get("Range") if org != "no-ranges" else None
        if ranged:
            a, b = ranged.split("=")[1].split("-")
            start, end = int(a), min(int(b) + 1, total)
            heads["Content-Range"] = f"bytes {start}-{end - 1}/{total}"
        if org == "other-range" and ranged:
            heads["Content-Range"] = f"bytes {start + 1}-{end}/{total + 1}"
        if org in ("endless", "endless-whole") and self.command == "GET":
            self.close_connection = True
        else:
            heads["Content-Length"] = end - start
        self.send_response(206 if ranged and org != "endless-whole" else 200)
        for k, v in heads.items():
            self.send_header(k, str(v))
        self.end_headers()
        self.pour(org, body, start, end)

    def pour(self, org, body, start, end):
        sent, at = 0, start
        if self.command == "HEAD":
            self.note(0)
            return
        try:
            while at < end:
                n = min(CHUNK, end - at)
                if org == "break" and sent > 6 * CHUNK or org == "crumbles" and sent or org == "drops":
                    self.wfile.write(body[at:at + 7] if org == "crumbles" else b"")
                    self.close_connection = True
                    self.connection.shutdown(2)
                    break
                self.wfile.write(body[at:at + (7 if org == "crumbles" else n)])
                if org == "slow":
                    time.sleep(0.005)
                sent, at = sent + n, at + n
            while org in ("endless", "endless-whole"):
                self.wfile.write(body[:CHUNK])
        except OSError:
            self.close_connection = True
        self.note(sent)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


servers = [Server(("127.0.0.1", 0), Hub) for _ in range(2)]
ports += [s.server_port for s in servers]
threading.Thread(target=servers[1].serve_forever, daemon=True).start()
print(ports[0], flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()  # it ends with its test
servers[0].serve_forever()
