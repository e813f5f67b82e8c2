#!/usr/bin/env python3
"""tokenizer_seeds.py - writes seeds of the tokenizer fuzzers: tests/vectors/tokenizers and a few lines of their own.

    python3 tests/fuzz/tokenizer_seeds.py
"""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.join(HERE, "..", "vectors", "tokenizers")


def put(kind, name, data):
    folder = os.path.join(HERE, "seeds", kind)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def read(name):
    return open(os.path.join(VECTORS, name), "rb").read()


def short(data, keep=40):
    """A tokenizer.json with a small vocabulary."""
    t = json.loads(data)
    vocab = t["model"]["vocab"]
    if isinstance(vocab, dict):
        vocab = {p: i for p, i in vocab.items() if i < keep}
        t["model"]["merges"] = [m for m in t["model"].get("merges", []) if all(x in vocab for x in m)
                                and "".join(m) in vocab]
        t["added_tokens"] = [a for a in t["added_tokens"] if a["id"] < keep or a["content"] not in vocab]
    else:
        vocab = vocab[:keep]
    t["model"]["vocab"] = vocab
    return json.dumps(t, separators=(",", ":")).encode()


for i in range(12):
    put("tokenizer_json", f"random{i}", short(read(f"random{i}.json")))
put("tokenizer_json", "steps", json.dumps({
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAAAAAAAAAA"}, {"type": "Nmt"}, {"type": "ByteLevel"},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "ByteLevel", "add_prefix_space": True}, {"type": "UnicodeScripts"},
        {"type": "FixedLength", "length": 3},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"},
                                                 {"type": "Strip", "content": " ", "start": 1, "stop": 1},
                                                  {"type": "CTC"}, {"type": "BPEDecoder", "suffix": "</w>"}]},
    "added_tokens": [{"id": 3, "content": "<s>", "special": True, "lstrip": True, "rstrip": True, "single_word": True}],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "byte_fallback": True}}).encode())
for name in ("bpe.model", "unigram.model", "suffix.model"):
    put("spm", name.split(".")[0], read(name)[:3000] if name == "bpe.model" else read(name))
put("vocab_files", "ranks", b"\0" + read("ranks.tiktoken"))
put("vocab_files", "llama2c", b"\1" + read("llama2c.bin"))
put("vocab_files", "vocab_txt", b"\2" + read("vocab.txt") + b"\xff" + b'{"do_lower_case":false}')
put("vocab_files", "byte_bpe", b"\3" + '{"a":0,"b":1,"ab":2,"Ġ":3,"<|endoftext|>":4}'.encode() + b"\xff"
    + b"#version: 0.2\na b\n")
put("vocab_files", "marian", b"\4" + b'{"</s>":0,"<unk>":1,"the":2,"<pad>":3}' + b"\xff" + read("unigram.model"))
for kind in ("T5", "Pegasus", "Albert", "XLMRoberta", "MBart", "Nllb"):
    put("vocab_files", "spm_" + kind.lower(), b"\5" + b'{"tokenizer_class":"%sTokenizer"}' % kind.encode() + b"\xff" +
        read("bpe.model" if kind == "Nllb" else "unigram.model"))
put("vocab_files", "m2m100", b"\6" + read("m2m100/vocab.json") + b"\xff" + read("m2m100/sentencepiece.bpe.model"))
put("vocab_files", "m2m100_bpe", b"\6" + read("m2m100/vocab.json") + b"\xff" + read("bpe.model"))


def string(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def text_key(key, value):
    return string(key) + struct.pack("<I", 8) + string(value)


def array_key(key, kind, values):
    body = b"".join(string(v) if kind == 8 else struct.pack("<f" if kind == 6 else "<i", v) for v in values)
    return string(key) + struct.pack("<IIQ", 9, kind, len(values)) + body


def gguf(keys):
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys)


T = "tokenizer.ggml."
put("gguf_vocab", "llama", gguf([
    text_key(T + "model", "llama"), array_key(T + "tokens", 8, ["<unk>", "<s>", "</s>", "▁", "a", "▁a", "<0x41>"]),
    array_key(T + "scores", 6, [0.0, 0.0, 0.0, -2.0, -1.0, -0.5, 0.0]),
    array_key(T + "token_type", 5, [2, 3, 3, 1, 1, 4, 6])]))
put("gguf_vocab", "t5", gguf([
    text_key(T + "model", "t5"), array_key(T + "tokens", 8, ["<pad>", "</s>", "<unk>", "▁", "a", "▁a"]),
    array_key(T + "scores", 6, [0.0, 0.0, 0.0, -2.0, -1.0, -0.5]),
    array_key(T + "token_type", 5, [3, 3, 2, 1, 1, 1])]))
put("gguf_vocab", "gpt2", gguf([
    text_key(T + "model", "gpt2"), text_key(T + "pre", "qwen2"), text_key("tokenizer.chat_template", "{{ x }}"),
    array_key(T + "tokens", 8, ["a", "b", "ab", "<|im_end|>"]), array_key(T + "token_type", 5, [1, 1, 1, 3]),
    array_key(T + "merges", 8, ["a b"])]))
put("gguf_vocab", "bert", gguf([
    text_key(T + "model", "bert"), array_key(T + "tokens", 8, ["[UNK]", "[CLS]", "[SEP]", "▁a", "b"]),
    array_key(T + "token_type", 5, [2, 3, 3, 1, 1])]))
units = [0] * 256
units[0] = 1 << 10  # the root's children start at 1 ^ byte
units[1 ^ ord("a")] = ord("a") | 1 << 8 | (1 ^ ord("a") ^ 5) << 10
units[5] = 1 << 31 | 0
put("charsmap", "one", struct.pack("<I", len(units) * 4) + struct.pack("<256I", *units) + b"xy\0" + b"abcaaa  aaaaaaaa")
for i, p in enumerate([r"'s| ?\p{L}+|\s+(?!\S)|\s+", r"[^(\s|[.,!?])]+", r"[\w&&[^a-f\d]]+", r"\d{1,3}+|\b\w\B",
                       r"(?i:'s|[\]a-z[:space:]])$"]):
    put("pattern", str(i), p.encode() + b"\xff" + "it's 12, ab\nﬁé".encode())
for i in range(18):
    put("tokenize", str(i), bytes([i]) + "Hello wörld  <s> 123\n▁x </s> <mask>".encode() + b"\xf0\x9f")
