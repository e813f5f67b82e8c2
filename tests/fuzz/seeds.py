#!/usr/bin/env python3
"""seeds.py - writes tests/fuzz/seeds for the checkpoint and JSON fuzzers: small correct files, some hostile pickles.

    python3 tests/fuzz/seeds.py
"""
import hashlib
import json
import math
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
PICKLES = os.path.join(HERE, "..", "vectors", "pickles")


def put(kind, name, data):
    folder = os.path.join(HERE, "seeds", kind)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def safetensors(header, data):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def zeros(shapes):
    """A safetensors file of float32 zeros."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4
        for n in shape:
            size *= n
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return safetensors(header, bytes(at))


def networks():
    """Tensors of tiny models: a Llama, a GPT-2 (fused, transposed), a mixture of experts."""
    block = "model.layers.0."
    llama = {"model.embed_tokens.weight": [3, 4], "model.norm.weight": [4], block + "input_layernorm.weight": [4],
             block + "post_attention_layernorm.weight": [4], block + "self_attn.q_norm.weight": [2],
             **{block + f"self_attn.{x}_proj.weight": [4, 4] for x in "qo"}, block + "self_attn.k_norm.weight": [2],
             **{block + f"self_attn.{x}_proj.weight": [2, 4] for x in "kv"}}
    dense = {block + "mlp.gate_proj.weight": [6, 4], block + "mlp.up_proj.weight": [6, 4],
             block + "mlp.down_proj.weight": [4, 6]}
    moe = {block + "moe.gate.weight": [2, 4], block + "mlp.shared_expert.w1.weight": [6, 4],
           block + "mlp.shared_expert.w3.weight": [6, 4], block + "mlp.shared_expert.w2.weight": [4, 6],
           **{block + f"moe.experts.{j}.{w}.weight": [6, 4] for j in range(2) for w in ("w1", "w3")},
           **{block + f"moe.experts.{j}.w2.weight": [4, 6] for j in range(2)}}
    gpt = {"wte.weight": [3, 4], "wpe.weight": [5, 4], "h.0.ln_1.weight": [4], "h.0.ln_1.bias": [4],
           "h.0.ln_2.weight": [4],
           "h.0.attn.c_attn.weight": [4, 12], "h.0.attn.c_attn.bias": [12], "h.0.attn.c_proj.weight": [4, 4],
           "h.0.mlp.c_fc.weight": [4, 6], "h.0.mlp.c_proj.weight": [6, 4], "ln_f.weight": [4]}
    put("derive", "llama", zeros({**llama, **dense}))
    put("derive", "moe", zeros({**llama, **moe}))
    put("derive", "gpt", zeros(gpt))


def gguf(version, keys, tensors, data, align=32):
    b = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys)
    for name, dims, kind, offset in tensors:
        b += string(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims) + struct.pack("<IQ", kind, offset)
    return b + b"\0" * (-len(b) % align) + data


def llama2c(version, shared):
    dim, hidden, layers, heads, kv, vocab, seq = 4, 6, 1, 2, 1, 3, 2
    if version == 2:
        hidden = 4
    head = struct.pack("<7i", dim, hidden, layers, heads, kv, vocab if shared or version else -vocab, seq)
    sizes = [vocab * dim, dim * dim, dim * dim // 2, dim * dim // 2, dim * dim, hidden * dim, hidden * dim,
             hidden * dim]
    head_size = [] if shared else [vocab * dim]
    if version == 0:
        return head + b"\1\2\3\4" * (sum(sizes) + 3 * dim + seq * dim // heads + sum(head_size))
    b = struct.pack("<Ii", 0x616B3432, version) + head + struct.pack("<B", shared)
    if version == 2:
        b += struct.pack("<i", 4)
    b += b"\0" * (256 - len(b)) + b"\1\2\3\4" * (3 * dim)
    for n in sizes + head_size:
        b += b"\5" * n + b"\1\2\3\4" * (n // 4) if version == 2 else b"\1\2\3\4" * n
    return b


def net():
    """What a connection between processes carries: hellos, and records by their heads."""
    def name(text):
        return bytes([len(text)]) + text.encode()
    hello = struct.pack("<IHHQIBBBI16sBB", 0x4c464e49, 2, 2, 0x123456789abcdef0, 1, 0, 1, 0, 3000, b"t" * 16, 0, 2)
    devices = b"".join(name(n) + name(w) + struct.pack("<QI", 1 << 33, 8) for n, w in (("cpu", "x"), ("cuda:0", "y")))
    put("net_hello", "two", hello + devices)
    put("net_hello", "future", struct.pack("<IHH", 0x4c464e49, 7, 9) + b"whatever")

    def record(size, kind, further, channel, n):
        return struct.pack("<IHHQH", size, kind, further, channel, n)
    small, large = 16368, 40000
    put("net_frame", "small", record(5, 2, 0, 1, 5) + record(small, 2, 0, 2, small) + record(0, 3, 0, 3, 0))
    put("net_frame", "large", record(large, 9, 0, 7, small) + record(3, 2, 0, 1, 3) + record(large, 9, 1, 7, small) +
        record(large, 9, 1, 7, large - 2 * small))
    put("net_frame", "hostile", record(0xffffffff, 9, 0, 7, small))

    def step(number, flags, seqs, wanted=(), copies=()):
        """Messages for the model of tests/step_rig.h; seqs: first position, rows, encoder rows, length admitted."""
        text = struct.pack("<IBHIHII", number, flags, len(seqs), len(wanted), 0, 0, len(copies))
        for i, (first, rows, enc, length) in enumerate(seqs):
            text += struct.pack("<8I", first, rows, first + rows, enc, enc, 2 * i, 2 * i + 1, length)
        for rows in (1, 2):
            text += b"".join(struct.pack("<I", 7) * s[rows] for s in seqs)
        text += b"".join(struct.pack("<I", row) for row in wanted)
        text += b"".join(struct.pack("<BII", *c) for c in copies)
        for group in range(3):
            for i, (first, rows, enc, _) in enumerate(seqs):
                n = ((enc if group == 2 else first + rows) + 63) // 64
                run = struct.pack("<HH", 0, n) + b"".join(struct.pack("<I", 8 * i + k) for k in range(n))
                same = struct.pack("<HH", i + 1, 0)
                text += same if not flags & 1 else struct.pack("<HH", 0, 1) + run if n else struct.pack("<HH", 0, 0)
        return struct.pack("<H", len(text)) + text
    first = step(0, 1, [(0, 70, 9, 0), (0, 3, 0, 300)], (69, 72), ((0, 40, 41), (1, 40, 41)))
    put("net_step", "two", first + step(1, 0, [(70, 1, 0, 0), (3, 1, 0, 300)], (0, 1 | 1 << 31)))
    put("net_step", "gap", first + step(2, 0, [(70, 1, 0, 0)]))

    def text(t):
        return struct.pack("<I", len(t)) + t.encode()
    ask = struct.pack("<32s6I6I4B", b"h" * 32, 1, 2, 4096, 2, 8, 128, 0, 512, 8, 0, 512, 8, 0, 0, 0, 1)
    ask += text("a:7071/cpu;b:7071/cpu") + text("") + text("int6") + text("ring") + text("int8")
    ask += text("[model]\nbase = llama\n")
    tokens = b"t" * 32
    listed_ask = ask + b"l" * 32 + struct.pack("<I", 1000) + tokens
    meets = text("f16") + text("f16") + b"\1" + text("") + b"\0" + text("b:7071")
    good = struct.pack("<i", 0)
    for name, number, message in [
            ("LEASE_2", 32, b"\2" + ask + text("tensors") + tokens), ("LEASE_3", 32, b"\3" + listed_ask),
            ("LEASE_5", 32, b"\5" + listed_ask + meets), ("MEMORY", 33, text("f16") + text("i16")),
            ("READY", 34, struct.pack("<5I", 7, 7, 0, 0, 4) + text("f32") + text("f32")),
            ("JOIN", 38, struct.pack("<I16s", 1, b"t" * 16)),
            ("TRIAL", 40, struct.pack("<2IQ", 1, 2, 4096) + tokens + b"cpu&a:1/cpu"),
            ("TEST", 41, struct.pack("<4IQ", 8, 4096, 128, 5, 1) + b"two_step int6"),
            ("PONG", 3, struct.pack("<2QiB", 12345, 6, -1, 1)), ("DONE", 37, good + struct.pack("<d", 0.5)),
            ("ANSWER", 35, struct.pack("<Bi", 0, -7) + b"no copy"),
            ("ANSWER_MEMORY", 35, b"\x21" + good + struct.pack("<6Q", 1, 2, 3, 4, 5, 6)),
            ("ANSWER_MEASURE", 35, b"\x27" + good + struct.pack("<3d", 1e-3, 2e-3, 1e9)),
            ("ANSWER_TEST", 35, b"\x29" + good + struct.pack("<6dQB", 1e-3, 1e-3, 2e-3, 9, 10, 0.1, 7, 1))]:
        put("net_lease", name, bytes([number]) + message)

    put("net_pieces", "two", struct.pack("<IIQIIQI", 2, 0, 0, 1000, 3, 3000, 500))
    put("net_pieces", "hostile", struct.pack("<IIQI", 1, 0, 2**64 - 1, 2))

    def root(data):
        def part(leaves):
            if len(leaves) == 1:
                return hashlib.sha256(b"\0" + leaves[0]).digest()
            left = 1
            while left * 2 < len(leaves):
                left *= 2
            return hashlib.sha256(b"\1" + part(leaves[:left]) + part(leaves[left:])).digest()
        return part([data[i:i + 1024] for i in range(0, len(data), 1024)])

    def listed(name, kind, dims, given=b"", flat=False):
        size = math.prod(dims) * 4
        digest = hashlib.sha256(given).digest() if flat else root(given or bytes(size))
        return (text(name) + text(kind) + struct.pack("<BB", 0, len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) +
                struct.pack("<Q", size) + digest + struct.pack("<I", len(given)) + given)
    scale = b"\0\0\x80\x3f"
    put("net_catalogue", "two", b"\0" + text("safetensors") + struct.pack("<I", 2) +
        listed("scale", "f32", (1,), scale) + listed("w", "f32", (16, 40)))
    put("net_catalogue", "flat", b"\1" + text("safetensors") + b"a" * 32 + struct.pack("<I", 2) +
        listed("w", "f32", (16, 8), flat=True) + listed("scale", "f32", (1,), scale, True))
    wanted = struct.pack("<IIQIIQI", 2, 0, 100, 700, 1, 3000, 5)
    put("net_proof", "two", struct.pack("<H", len(wanted)) + wanted)
    put("store_journal", "two", b"d" * 32 + struct.pack("<IQIQI", 2, 64, 100, 1 << 40, 5) + b"e" * 32 +
        struct.pack("<IQI", 1, 0, 1 << 20))


def pages():
    """Files of pages of 64 and 128 bytes: of one name, with both groups; of a text, under a window; with a snapshot."""
    def record(name, data):
        digest = hashlib.sha256(b"".join(data.values())).digest()
        return name * 32 + struct.pack("<I", sum(1 << g for g in data)) + digest

    def whole(records, slot=b""):
        head = b"inferflow pages " + (b"2" if slot else b"1") + bytes([1]) + bytes(31)
        head += struct.pack("<4Q", 64, 128, 0, 0) + slot + struct.pack("<I", len(records))
        head += b"".join(record(bytes([65 + i]), r) for i, r in enumerate(records))
        return head + hashlib.sha256(head).digest() + b"".join(b for r in records for b in r.values())

    both = {0: b"a" * 64, 1: b"b" * 128}
    put("page_file", "one", whole([both]))
    put("page_file", "text", whole([{0: b"c" * 64}, {0: b"d" * 64}, both]))
    put("page_file", "empty", whole([]))
    put("page_file", "snapshot", whole([both, {4: b"e" * 32}], struct.pack("<Q", 32)))


def hub():
    """Heads of replies, an empty line, and a body."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    files = ["config.json", "model.safetensors", "x-Q4_K_M.gguf", "BF16/x-00001-of-00002.gguf",
             "BF16/x-00002-of-00002.gguf", "1_Pooling/config.json", "modules.json", "mmproj-F16.gguf"]
    put("hub_reply", "revision", b"HTTP/1.1 200 OK\r\nETag: W/\"5d8c\"\r\nContent-Length: 50\r\n\n" + json.dumps(
        {"sha": commit, "siblings": [{"rfilename": f} for f in files]}).encode())
    put("hub_reply", "tree", b'HTTP/2 200\nLink: </api/models/a/b/tree/c?cursor=x>; rel="next"\n\n' + json.dumps(
        [{"type": "file", "path": f, "oid": commit, "size": 3} for f in files]).encode())
    put("hub_reply", "index", b"HTTP/1.1 302 Found\nX-Linked-Etag: \"5f\"\nX-Linked-Size: 70\nX-Repo-Commit: 01\n"
        b"Content-Range: bytes 3-9/70\n\n" + json.dumps({"weight_map": {"a": "w-1.safetensors", "b": "w-2"}}).encode())
    put("hub_reply", "limit", b'HTTP/1.1 429\nRateLimit: "api";r=0;t=55\nRetry-After: Sat, 28 Nov 2026 14:00:00 GMT\n'
        b"X-Error-Code: GatedRepo\nX-Error-Message: no\nRateLimit: limit=9, remaining=0, reset=50\nRetry-After: 7\n\n")


def templates():
    """A template, and behind a byte 0xff its context."""
    put("jinja", "chat", b"""{%- set ns = namespace(n=0) -%}
{% for m in messages if m.role != 'x' %}<|{{ m['role'] }}|>{{ m.content | trim }}{% if not loop.last %}
{% endif %}{% set ns.n = ns.n + 1 %}{% else %}{{ raise_exception('none') }}{% endfor %}
\xff{"messages":[{"role":"user","content":" hi "},{"role":"x","content":[]}]}""")
    put("jinja", "macro", b"""{% macro f(a, b=2) %}{{ a }}{{ caller() if caller }}{{ varargs }}{% endmacro %}
{% call f(1) %}{{ t | tojson(indent=2) }}{% endcall %}{{ '%s %5.2f' % ('a', 1.5) }}{{ '{:>5}'.format(s[::-1]) }}
{{ l|sort|map('string')|join(', ') }}\xff{"t":{"a":[1,2.0,null]},"s":"<s>\\u00e9","l":[2,1]}""")
    put("jinja", "tags", b"""{% raw %}{{{% endraw %}{# c -#} {%- if a is defined and b|d(1) > 0 or not c in [1] -%}
 x {%+ else %}{% filter upper %}y{% endfilter %}{% endif %}{% with a = 1 %}{{ a ~ 'b' 'c' }}{% endwith %}
{{ dict(a=1)|items|list }}""")


def main():
    templates()
    stored = os.path.join(HERE, "..", "vectors", "stored")
    for name in ("fp8-block", "ct-fp8-channel", "nvfp4", "ct-nvfp4", "gpt-oss-mxfp4", "gptq-3", "gptq-4-order",
                 "awq-32", "ct-int4-zeros", "bnb-nf4-nested", "bitnet"):
        config, weights = (open(os.path.join(stored, name, f), "rb").read() for f in ("config.json",
                                                                                     "model.safetensors"))
        put("stored", name, struct.pack("<H", len(config)) + config + weights)
    put("safetensors", "two", safetensors({"__metadata__": {"a": "b"},
                                           "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                                           "y": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [8, 12]}},
                                          b"\0" * 12))
    put("safetensors", "scalar", safetensors({"x": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}, b"\1" * 8))
    put("safetensors", "empty", safetensors({"x": {"dtype": "U8", "shape": [0, 3], "data_offsets": [0, 0]}}, b""))
    own = {"inferflow.layout": "1", "inferflow.spec": "[model]\narch = x\n", "inferflow.file.tokenizer.json": "{}",
           "inferflow.base64.tokenizer.model": "AAEC", "inferflow.tokenizer": "tokenizer.model", "w": "q4_b64.r16",
           "inferflow.shape.w": "3,100", "k": "q6_k.r16", "inferflow.shape.k": "17,300", "r": "q8_0",
           "inferflow.shape.r": "2,2,32",
           "n": "f32"}
    sizes = {"w": 2 * 9 * 64, "k": 2 * (5 * 12 + 2 * 5) * 64, "r": 4 * 34}
    at, header = 0, {"__metadata__": own}
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    header["n"] = {"dtype": "F32", "shape": [1], "data_offsets": [at, at + 4]}
    put("safetensors", "own", safetensors(header, bytes(i * 7 % 256 for i in range(at + 4))))
    key = lambda name, kind, value: string(name) + struct.pack("<I", kind) + value
    values = [key("general.architecture", 8, string("llama")), key("general.alignment", 4, struct.pack("<I", 32)),
              key("b", 7, b"\1"), key("f", 6, struct.pack("<f", 1)),
              key("strings", 9, struct.pack("<IQ", 8, 2) + string("a") + string("bc")),
              key("ints", 9, struct.pack("<IQ", 5, 2) + b"\1\0\0\0\2\0\0\0"), key("u", 10, b"\1" * 8),
              key("d", 12, struct.pack("<d", 2))]
    put("gguf", "values", gguf(3, values, [("x", [32, 2], 8, 0), ("y", [3], 0, 96)], b"\0" * 108))
    put("gguf", "v2", gguf(2, [], [("q", [256], 12, 0)], b"\1" * 144))
    imatrix = [string("general.type") + struct.pack("<I", 8) + string("imatrix")]
    put("importance", "gguf", gguf(3, imatrix,
                                   [("blk.0.attn_q.weight.in_sum2", [4, 1], 0, 0),
                                    ("blk.0.attn_q.weight.counts", [1, 1], 0, 32)],
                                   struct.pack("<4f", 1, 2, 3, 4) + b"\0" * 16 + struct.pack("<f", 2)))
    put("importance", "binary", struct.pack("<ii19sii4fii1s", 1, 19, b"blk.0.attn_q.weight", 2, 4, 2, 4, 6, 8, 1, 1,
                                            b"t"))
    put("gguf", "iq", gguf(3, [], [("q", [256, 1, 1, 1], 16, 0), ("r", [256], 29, 96), ("s", [32], 39, 160)],
                           b"\x55" * 192))
    put("gguf", "vocabulary", gguf(3, values[4:5], [], b""))
    for version in (0, 1, 2):
        for shared in (0, 1):
            put("llama2c", f"v{version}-{shared}", llama2c(version, shared))
    hub()
    names = [n for n in sorted(os.listdir(PICKLES)) if n.endswith(".pt")]
    for n in names:
        with open(os.path.join(PICKLES, n), "rb") as f:
            data = f.read()
        if n.startswith(("good", "legacy", "zip", "bomb-laughs", "v3", "expand")):
            put("torch_file", n, data)
        if n.startswith("zip") or n == "good-plain.pt":
            put("zip", n, data)
        if data.startswith(b"PK\3\4") and not n.startswith(("zip", "name-long")):
            size = struct.unpack_from("<I", data, 22)[0] or len(data)
            start = 30 + struct.unpack_from("<H", data, 26)[0] + struct.unpack_from("<H", data, 28)[0]
            put("pickle", n[:-3], data[start:start + size][:600])
    for i, text in enumerate(['{"a":[1,-2.5e3,true,null,"\\u00e9\\ud83d\\ude00"],"b":{"c":{}}}', "[]", '"x"', "-0.0",
                              '{"a":1,"a":2}',
                              "[1,[2,[3]]]", '{"é":"\\n\\"\\\\"}', "1e-300", "123456789012345678901234567890"]):
        put("json", f"{i}", text.encode())



def machine():
    """Files of control groups; heads of requests; generation_config.json; remembered digests; saved conversations."""
    def lines(*texts, by=b"\xff"):
        return by.join(t.encode() for t in texts)
    stat = "anon 90\nfile 900\ninactive_file 300\nactive_file 200\ntotal_inactive_file 400\n"
    put("cgroup", "v2", lines("0::/a/b\n", "1000000\n", "990000\n", stat, "150000 100000\n"))
    put("cgroup", "v1", lines("4:memory:/job/7\n1:cpu,cpuacct:/a\n0::/\n", "max", "5", "", "max 100000",
                              "9223372036854771712\n", "50000\n", stat, "-1\n", "100000\n"))
    put("cgroup", "infinite", lines("0::/\n", "", "", "", "inf inf\n"))
    put("head", "local", lines("", "", "localhost:8080", "http://localhost:3000", "/v1/models", "GET", "Bearer a",
                               "id-1", by=b"\n"))
    put("head", "listed", lines("https://box:8443, http://x", "name,other", "name:80", "https://box:8443",
                                "http://name/health?x", "OPTIONS", "", "", by=b"\n"))
    put("head", "foreign", lines("", "", "evil.example:8080", "http://evil.example", "/completion", "POST", by=b"\n"))
    put("generation_config", "all", json.dumps(
        {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.0, "typical_p": 1.0,
         "repetition_penalty": 1.05, "bad_words_ids": [[1, 2], [3]], "suppress_tokens": [4, 5], "num_beams": 4,
         "early_stopping": True, "eos_token_id": [1, 2], "forced_bos_token_id": None, "_from_model_config": True,
         "watermarking_config": {"a": []}, "transformers_version": "5.0"}).encode())
    put("generation_config", "odd", b'{"do_sample":false,"top_k":-1e300,"bad_words_ids":[[],[1.5],7,"x",[-1,1e99]],'
        b'"suppress_tokens":[null,2147483648],"num_beams":"1"}')
    sums = struct.pack("<Q", 2) + struct.pack("<4Q", 8, 100, 0, 7) + b"a" * 32 + struct.pack("<4Q", 8, 100, 1, 0) + \
        b"b" * 32
    put("contents_cache", "two", sums)
    put("contents_cache", "twice", struct.pack("<Q", 2) + sums[8:72] + sums[8:72])
    chat = ("{% if tools %}<tools>{{ tools|tojson }}</tools>{% endif %}{% for m in messages %}<|{{ m.role }}|>"
            "{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}"
            "{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}")
    turns = ("{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('x') }}"
             "{%- endif %}[{{ m['content'] | trim }}]{%- endfor %}")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
    talk = json.dumps({"messages": [
        {"role": "user", "content": " a "}, {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "assistant", "content": "b"}], "system": "s",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}).encode()
    odd = json.dumps({"messages": [{"role": "assistant", "content": "x", "tool_calls": [1, {"function": []}]},
                                   {"role": "system", "content": "y", "reasoning_content": {}}], "tools": 5}).encode()
    put("conversation", "chat", chat.encode() + b"\xff" + talk)
    put("conversation", "turns", turns.encode() + b"\xff" + talk)
    put("conversation", "odd", chat.encode() + b"\xff" + odd)


main()
networks()
net()
pages()
machine()
