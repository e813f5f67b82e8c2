#!/usr/bin/env python3
"""oracle_tokenizers.py - compares `inferflow tokenize` and `detokenize` with the library of each vocabulary.

For every vocabulary of a data folder: --count fuzzed strings (scripts, marks, emoji, white space, control characters,
texts of special tokens, long runs), encoded plainly, with the special tokens the reference adds, and with special
texts parsed; the ids are decoded again by both sides. Prints one row per vocabulary and the first differences. Exit
status 1 when anything differs.

  tools/oracle/oracle_tokenizers.py --data ../shared/data --count 2000 --seed 1 [--only llama2,gpt2] [--speed]
  tools/oracle/oracle_tokenizers.py --random 100 --count 100 [--binary build/inferflow]

Needs: tokenizers, sentencepiece, tiktoken, transformers.
"""
import argparse
import base64
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

# ---- strings ----

RANGES = [(0x20, 0x7e), (0xa0, 0x17f), (0x180, 0x24f), (0x250, 0x2ff), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x52f),
          (0x530, 0x58f), (0x590, 0x5ff), (0x600, 0x6ff), (0x700, 0x77f), (0x900, 0x97f), (0x980, 0x9ff),
          (0xa00, 0xbff), (0xc00, 0xdff), (0xe00, 0xe7f), (0xe80, 0xeff), (0xf00, 0xfff), (0x1000, 0x109f),
          (0x10a0, 0x10ff), (0x1100, 0x11ff), (0x1200, 0x137f), (0x13a0, 0x167f),
          (0x1680, 0x169f), (0x1780, 0x17ff), (0x1800, 0x18af), (0x1ab0, 0x1aff), (0x1c80, 0x1cbf), (0x1d00, 0x1dbf),
          (0x1dc0, 0x1dff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x209f), (0x20a0, 0x20cf), (0x20d0, 0x20ff),
          (0x2100, 0x214f), (0x2150, 0x218f), (0x2190, 0x23ff), (0x2400, 0x24ff), (0x2500, 0x27bf), (0x27c0, 0x2bff),
          (0x2c00, 0x2dff), (0x2e00, 0x2e7f), (0x2e80, 0x2fdf), (0x3000, 0x303f), (0x3040, 0x30ff), (0x3100, 0x31ff),
          (0x3200, 0x33ff), (0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xa000, 0xa4cf),
          (0xa4d0, 0xa6ff), (0xa700, 0xa7ff), (0xa800, 0xabff), (0xac00, 0xd7af), (0xd7b0, 0xd7ff), (0xe000, 0xe0ff),
          (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe00, 0xfe6f), (0xfe70, 0xfeff), (0xff00, 0xffef), (0xfff0, 0xffff),
          (0x10000, 0x100ff), (0x10140, 0x10fff), (0x11000, 0x11fff), (0x12000, 0x12543), (0x13000, 0x1342f),
          (0x16800, 0x16fff), (0x1b000, 0x1b16f), (0x1d000, 0x1d7ff), (0x1e000, 0x1efff), (0x1f000, 0x1f0ff),
          (0x1f100, 0x1f2ff), (0x1f300, 0x1f6ff), (0x1f700, 0x1faff), (0x20000, 0x2a6df),
          (0x2a700, 0x2ebef), (0x2f800, 0x2fa1f), (0x30000, 0x3134f), (0xe0000, 0xe01ef), (0x100000, 0x1000ff)]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", " \n", "\n ", "\t ", "\u00a0", "\u2003", "\u3000",
          "\u2028", "\u200b", "\u2060", "\ufeff", "\x0b", "\x0c", "\x85", "\u1680", "\u180e", "\u202f", "\u205f"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇫🇷🇬🇧", "☺️", "1️⃣", "🧑🏿‍🚀", "\u200d", "\ufe0f", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"]
MARKS = [chr(c) for c in range(0x300, 0x340)] + ["\u0591", "\u064b", "\u093c", "\u0947", "\u0e31", "\u0e48", "\u20d0",
                                                 "\u302a", "\u3099"]
WORDS = ("the of and I'm don't we'll They've it's HELLO World naïve café Straße İstanbul ſo 'ſ ΣΑΣ ﬁnd №5 ½ 3.14 "
         "1,000,000 2024-01-01 0x1F x_y foo() == != ==== ---- .... ... C++ e.g. http://a.b/c?d=1&e=%20 <div> {\"k\": "
         "[1, 2]} \\n $HOME `ls -l` 你好世界 今日は ありがとう カタカナ 안녕하세요 привет мир γειά σου שלום עולם مرحبا بالعالم नमस्ते "
         "สวัสดี ខ្មែរ አማርኛ ქართული ▁ ▁▁ Ġ Ċ ## ##ing @@ </w> <0x41> <0x0A> [UNK] [CLS] ยินดี ﷺ ㎏ Ⅷ ① ２０２４ Ａｂｃ ﾊﾟｶﾞ "
         "ẛ̣ Å Å 각 각 q̣̇ ").split(" ")


def piece_of_text(r, specials, corpus):
    k = r.randrange(16)
    if k == 0:
        lo, hi = r.choice(RANGES)
        return "".join(chr(r.randint(lo, hi)) for _ in range(r.randint(1, 12)))
    if k == 1:
        return r.choice(SPACES) * r.choice([1, 1, 1, 2, 3, 7, 16])
    if k == 2:
        return r.choice(EMOJI) * r.choice([1, 1, 2, 3])
    if k == 3:
        return r.choice(WORDS) + "".join(r.choice(MARKS) for _ in range(r.randint(1, 4)))
    if k == 4:
        rare = [0xad, 0x61c, 0x200e, 0x202a, 0x2066, 0xfff9, 0xfffd, 0xfffe]
        return chr(r.choice([r.randint(1, 31), 0x7f, r.randint(0x80, 0x9f)] + rare))
    if k == 5 and specials:
        return r.choice(specials) + r.choice(["", " ", "a", "\n"])
    if k == 6:
        unit = r.choice(["a", "=", "-", " ", "\n", "0", ".", "é", "中", "!", "#", "_", "😀", "ab", "A", "\t"])
        return unit * r.choice([2, 3, 5, 17, 33, 70, 150])
    if k == 7:
        return "".join(r.choice("0123456789") for _ in range(r.randint(1, 9)))
    if k == 8:
        return "".join(chr(r.randint(0x21, 0x7e)) for _ in range(r.randint(1, 10)))
    if k in (9, 10, 11):
        at = r.randrange(max(1, len(corpus) - 80))
        return corpus[at:at + r.randint(1, 80)]
    if k == 12:
        while True:
            c = r.randrange(0x110000)
            if not 0xd800 <= c < 0xe000:
                return chr(c)
    return r.choice(WORDS) + r.choice(["", " ", " ", " "])


def fuzz_strings(seed, count, specials, corpus):
    r = random.Random(seed)
    fixed = ["", " ", "  ", "\n", "a", "Hello world", " Hello", "Hello ", "Hello  world", "a" * 10000, " " * 5000,
             "=" * 3000, "ab" * 2000]
    out = fixed[:count]
    while len(out) < count:
        s = "".join(piece_of_text(r, specials, corpus) for _ in range(r.choice([1, 2, 3, 4, 6, 10, 20])))
        out.append("".join(c for c in s if not 0xd800 <= ord(c) < 0xe000 and c != "\0"))
    return out


# ---- references: encode(text, special, parse) -> ids or None (no such mode), decode(ids) -> text ----

# name, adds special tokens, parses their texts
MODES = (("plain", False, False), ("special", True, False), ("parse", False, True))


def attempt(job):
    """What the library gives; None where it panics (its panics are no Exceptions)."""
    try:
        return job()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


class HuggingFace:
    def __init__(self, tok):
        self.tok = tok
        tok.no_padding()
        tok.no_truncation()
        self.specials = [t.content for t in tok.get_added_tokens_decoder().values()]
        self.special_ids = {i for i, t in tok.get_added_tokens_decoder().items() if t.special}

    def encode(self, text, special, parse):
        self.tok.encode_special_tokens = not parse
        return self.tok.encode(text, add_special_tokens=special).ids

    def decode(self, ids):
        return self.tok.decode(ids, skip_special_tokens=False)

    def encode_input(self, a, b, special, ids_max):
        """One text (b None) or two, cut to ids_max (0: never): {"ids", "types"}."""
        if ids_max:
            self.tok.enable_truncation(ids_max, strategy="longest_first")
        try:
            self.tok.encode_special_tokens = True
            e = self.tok.encode(a, b, add_special_tokens=special)
            return {"ids": e.ids, "types": e.type_ids}
        finally:
            self.tok.no_truncation()

    def plain_leaks(self, text):
        """The library's plain mode may yield a special id from text (Unigram, WordLevel); ours never does."""
        content = {i: t.content for i, t in self.tok.get_added_tokens_decoder().items()}
        got = {i for i in self.encode(text, False, False) if i in self.special_ids}
        return any(content[i] in text or content[i] not in ("<unk>", "[UNK]") for i in got)


class SentencePiece:
    def __init__(self, path):
        import sentencepiece
        self.sp = sentencepiece.SentencePieceProcessor(model_file=path)
        ids = range(self.sp.get_piece_size())
        self.specials = [self.sp.id_to_piece(i) for i in ids if self.sp.is_control(i) or i < 5][:40]

    def encode(self, text, special, parse):
        return None if special or parse else self.sp.encode(text)

    def decode(self, ids):
        return self.sp.decode(ids)


class Tiktoken:
    def __init__(self, path, pattern, specials=()):
        import tiktoken
        data = gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
        ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in data.splitlines() if line)}
        names = {name: len(ranks) + i for i, name in enumerate(specials)}
        self.enc = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=names)
        self.specials = list(specials)

    def encode(self, text, special, parse):
        if special:
            return None
        return self.enc.encode(text, allowed_special="all" if parse else set(), disallowed_special=())

    def decode(self, ids):
        return self.enc.decode(ids, errors="replace")


class Llama2c:
    """The algorithm of run.c, quadratic as there."""

    def __init__(self, path):
        data = open(path, "rb").read()
        at, self.piece, self.score = 4, [], []
        while at < len(data):
            score, n = struct.unpack_from("<fi", data, at)
            self.piece.append(data[at + 8:at + 8 + n])
            self.score.append(score)
            at += 8 + n
        self.id = {p: i for i, p in reversed(list(enumerate(self.piece)))}
        self.specials = ["<s>", "</s>", "<unk>"]

    def encode(self, text, special, parse):
        if parse:
            return None
        ids = [1] if special else []
        if not text:
            return ids
        toks = [self.id[b" "]]
        for ch in text:
            b = ch.encode()
            toks += [self.id[b]] if b in self.id else [c + 3 for c in b]
        while True:
            best, at = -1e10, -1
            for i in range(len(toks) - 1):
                k = self.id.get(self.piece[toks[i]] + self.piece[toks[i + 1]])
                if k is not None and self.score[k] > best:
                    best, at, new = self.score[k], i, k
            if at < 0:
                return ids + toks
            toks[at:at + 2] = [new]

    def decode(self, ids):
        out, before = b"", 0
        for i in ids:
            p = self.piece[i]
            if before == 1 and p.startswith(b" "):
                p = p[1:]
            if 3 <= i < 259:
                p = bytes([i - 3])
            if i not in (1, 2):
                out += p
            before = i
        return out.decode("utf-8", "replace")


GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
CL100K = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
          r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
QWEN2 = CL100K.replace("{1,3}", "")


def qwen2(folder):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    tok = Tokenizer(models.BPE.from_file(folder + "/vocab.json", folder + "/merges.txt"))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    added = json.load(open(folder + "/tokenizer_config.json"))["added_tokens_decoder"]
    for i, a in sorted(added.items(), key=lambda x: int(x[0])):
        tok.add_tokens([AddedToken(a["content"], single_word=a["single_word"], lstrip=a["lstrip"], rstrip=a["rstrip"],
                                   normalized=a["normalized"], special=a["special"])])
    return HuggingFace(tok)


def gpt2_files(folder):
    from tokenizers import ByteLevelBPETokenizer, Tokenizer
    tok = Tokenizer.from_str(ByteLevelBPETokenizer(folder + "/vocab.json", folder + "/merges.txt").to_str())
    tok.add_special_tokens(["<|endoftext|>"])
    return HuggingFace(tok)


def bert_vocab(path):
    from tokenizers import BertWordPieceTokenizer, Tokenizer
    return HuggingFace(Tokenizer.from_str(BertWordPieceTokenizer(path, lowercase=True).to_str()))


class Marian:
    def __init__(self, folder):
        from transformers import MarianTokenizer
        work = tempfile.mkdtemp()
        for a, b in (("vocab.json", "vocab.json"), ("vocab.joint.spm", "source.spm"), ("vocab.joint.spm", "target.spm"),
                     ("tokenizer_config.json", "tokenizer_config.json")):
            with open(os.path.join(work, b), "wb") as f:
                f.write(open(os.path.join(folder, a), "rb").read())
        self.path = work
        self.tok = MarianTokenizer.from_pretrained(work)
        self.specials = [">>fra<<", "</s>", "<unk>", "<pad>"]

    def encode(self, text, special, parse):
        return None if parse else self.tok.encode(text, add_special_tokens=special, split_special_tokens=True)

    def decode(self, ids):
        return self.tok.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


# ---- tokenizer.json files put together at random from the parts of the library ----

def random_tokenizer(r, corpus):
    """A small trained tokenizer of random parts, so that all normalizers, pre-tokenizers, models and decoders meet."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, processors, trainers
    from tokenizers import decoders as D, normalizers as N, pre_tokenizers as P

    norms = [N.NFC, N.NFD, N.NFKC, N.NFKD, N.Lowercase, N.StripAccents,
             lambda: N.Strip(left=r.random() < .7, right=r.random() < .7), N.Nmt, lambda: N.Prepend("▁"),
             lambda: N.Replace(" ", "▁"), lambda: N.Replace(Regex(r"[aeiou]+$|\s{2,}"), "_"),
             lambda: N.Replace("e", ""),
             lambda: N.BertNormalizer(clean_text=r.random() < .7, handle_chinese_chars=r.random() < .7,
                                      strip_accents=r.choice([None, True, False]), lowercase=r.random() < .5)]
    behaviours = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    patterns = [Regex(CL100K), Regex(r"\p{L}+"), Regex(r"[\p{P}\p{S}]"), Regex(r"\d{1,2}+|\w"),
                Regex(r"[^(\s|[.,!?…。，、।۔،])]+"), Regex(r"\s+$|^\s"), Regex(r"[\w&&[^a-f\d]]+"), Regex(r"(?i:the|s)"),
                Regex(r"\b"), Regex(r"x*"), " ", "e", "the"]
    pres = [lambda: P.ByteLevel(add_prefix_space=r.random() < .5, use_regex=r.random() < .5), P.Whitespace,
            P.WhitespaceSplit, P.BertPreTokenizer, lambda: P.Punctuation(r.choice(behaviours)),
            lambda: P.Digits(individual_digits=r.random() < .5), lambda: P.CharDelimiterSplit(r.choice("e -")),
            lambda: P.Metaspace(prepend_scheme=r.choice(["always", "never", "never" if tok.normalizer else "first"]),
                                split=r.random() < .7),
            lambda: P.Split(r.choice(patterns), r.choice(behaviours), invert=r.random() < .3), P.UnicodeScripts,
            lambda: P.FixedLength(length=r.randint(1, 6))]
    decs = [D.ByteLevel, lambda: D.WordPiece(cleanup=r.random() < .5),
            lambda: D.Metaspace(prepend_scheme=r.choice(["always", "never"])),
            lambda: D.BPEDecoder(suffix=r.choice(["</w>", "e"])), D.ByteFallback, D.Fuse, lambda: D.Strip(" ", 1, 0),
            lambda: D.Replace("▁", " "), lambda: D.Replace(Regex(r"[a-c]+"), "<"),
            lambda: D.CTC(pad_token="e", word_delimiter_token="t")]
    kind = r.choice(["bpe", "bpe", "bpe", "unigram", "wordpiece", "wordlevel"])
    model = {"bpe": lambda: models.BPE(unk_token=r.choice([None, "<unk>"]), fuse_unk=r.random() < .5,
                                       byte_fallback=r.random() < .5, ignore_merges=r.random() < .3,
                                       continuing_subword_prefix=r.choice([None, None, "##"]),
                                       end_of_word_suffix=r.choice([None, None, "</w>"])),
             "unigram": models.Unigram,
             "wordpiece": lambda: models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=r.choice([100, 5])),
             "wordlevel": lambda: models.WordLevel(unk_token="<unk>")}[kind]()
    tok = Tokenizer(model)
    chosen = lambda parts, *counts: [r.choice(parts)() for _ in range(r.choice(counts))]
    joined = lambda room, parts: room.Sequence(parts) if len(parts) > 1 else parts[0] if parts else None
    tok.normalizer = joined(N, chosen(norms, 0, 0, 1, 1, 2, 3))
    tok.pre_tokenizer = joined(P, chosen(pres, 0, 1, 1, 1, 2, 3) or [P.Metaspace()] * (kind == "unigram"))
    tok.decoder = joined(D, chosen(decs, 0, 1, 1, 2, 3))
    special = ["<unk>", "[UNK]", "<s>", "</s>"]
    special += ["<0x%02X>" % i for i in range(256)] if r.random() < .4 and kind != "wordpiece" else []
    sample = [corpus[i:i + 200] for i in range(0, 6000, 200)] + WORDS
    size = r.choice([300, 600])
    common = dict(vocab_size=size, special_tokens=special, show_progress=False)
    trainer = {"bpe": lambda: trainers.BpeTrainer(
                   **common, continuing_subword_prefix=model.continuing_subword_prefix or "",
                   end_of_word_suffix=model.end_of_word_suffix or ""),
               "unigram": lambda: trainers.UnigramTrainer(**common, unk_token="<unk>"),
               "wordpiece": lambda: trainers.WordPieceTrainer(**common),
               "wordlevel": lambda: trainers.WordLevelTrainer(**common)}[kind]()
    tok.train_from_iterator(sample, trainer)
    saved = json.loads(tok.to_str())
    saved["added_tokens"] = [a for a in saved["added_tokens"] if not a["content"].startswith("<0x")]
    # trainers leave holes, and the library then gives an id to two tokens
    if isinstance(saved["model"]["vocab"], dict):
        pieces = sorted(saved["model"]["vocab"], key=saved["model"]["vocab"].get)
        saved["model"]["vocab"] = {p: i for i, p in enumerate(pieces)}
        for a in saved["added_tokens"]:
            a["id"] = saved["model"]["vocab"][a["content"]]
    tok = Tokenizer.from_str(json.dumps(saved))
    for text in r.sample(["the", "<mask>", "ab", "  ", "É", "Hello World", "1", "\n", "▁x", "ǅ"], r.choice([0, 1, 3])):
        tok.add_tokens([AddedToken(text, single_word=r.random() < .3, lstrip=r.random() < .4, rstrip=r.random() < .4,
                                   normalized=r.random() < .5, special=text == "<mask>")])
    if r.random() < .6:
        ids = [(n, tok.token_to_id(n)) for n in ("<s>", "</s>")]
        template = lambda single, pair: processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)
        tok.post_processor = r.choice([
            template("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"),
            processors.BertProcessing(ids[1], ids[0]), processors.RobertaProcessing(ids[1], ids[0]),
            processors.Sequence([processors.ByteLevel(), template("$A </s>", "$A $B")]),
            template("$A:2 <s>:1", "<s>:3 $B:1 </s> $A:0 </s>:1"), template("$A", "$B </s> $A </s> $B:1"),
            processors.Sequence([template("$A </s>", "$A $B"), template("<s> $A", "<s> $A $B:1")]),
            processors.Sequence([template("$A </s>", "$A $B"), processors.ByteLevel()]),
            processors.Sequence([processors.BertProcessing(ids[1], ids[0]),
                                 processors.RobertaProcessing(ids[0], ids[1])])])
    if kind == "unigram" and r.random() < .5:
        saved = json.loads(tok.to_str())
        saved["model"]["byte_fallback"] = True
        tok = Tokenizer.from_str(json.dumps(saved))
    return tok


def differing_inputs(ref, ours, texts):
    """Inputs of one and two texts, whole and cut, that the library takes: (how many, the first that differs)."""
    r = random.Random(len(texts))
    texts = [t[:60] for t in texts]  # the library keeps every combination of what it cut off
    inputs = [[a, r.choice(texts)] for a in texts] + texts[:len(texts) // 4]
    inputs = [i for i in inputs if not any(ref.plain_leaks(t) for t in ([i] if isinstance(i, str) else i))]
    count, first = 0, None
    for ids_max, special in ((0, True), (0, False), (8, True), (9, True), (31, True), (7, False)):
        got = ours.run("tokenize", ["--types", "--max-ids", str(ids_max)] + ([] if special else ["--no-special"]),
                       inputs)
        for i, g in zip(inputs, got):
            a, b = (i, None) if isinstance(i, str) else i
            w = attempt(lambda: ref.encode_input(a, b, special, ids_max))
            if w is not None and w != g:
                count += 1
                first = first or (f"input max {ids_max} special {special}", str(i), str(w), str(g))
    return count, first


def compare_random(args, corpus):
    """--random N: N such tokenizers, a few hundred strings each; those on which the library panics are left out."""
    bad = tried = 0
    for k in range(args.random):
        r = random.Random(f"{args.seed} {k}")
        tok = attempt(lambda: random_tokenizer(r, corpus))
        if tok is None:
            continue
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "tokenizer.json")
        tok.save(path)
        ref = HuggingFace(type(tok).from_file(path))
        if tok.normalizer and any(a.normalized and not tok.normalizer.normalize_str(a.content)
                                  for a in tok.get_added_tokens_decoder().values()):
            continue  # a token matches the empty text everywhere: the library then cuts text into single characters
        ours = Ours(args.binary, path, None)
        texts = [t[:400] for t in fuzz_strings(f"{args.seed} {k}", args.count, ref.specials, corpus)]
        try:
            got = {m: ours.run("tokenize", flags_of(special, parse), texts) for m, special, parse in MODES}
        except RuntimeError as e:
            print(f"random {k}: ours failed: {e}\n  {path}")
            bad += 1
            continue
        tried += 1
        wrong, some, ids = 0, None, []
        for m, special, parse in MODES:
            for t, g in zip(texts, got[m]):
                w = attempt(lambda: ref.encode(t, special, parse))
                ids += [] if w is None else [w]
                if w is not None and w != g and not ref.plain_leaks(t):
                    wrong += 1
                    some = some or (m, t, w, g)
        decoded = [(i, attempt(lambda: ref.decode(i))) for i in r.sample(ids, min(len(ids), args.count))]
        decoded = [(i, w) for i, w in decoded if w is not None]
        try:
            back = ours.run("detokenize", [], [i for i, _ in decoded])
        except RuntimeError as e:
            back, wrong = [w for _, w in decoded], wrong + 1
            some = some or ("decode", str(e), [], [])
        for (i, w), g in zip(decoded, back):
            if w != g:
                wrong += 1
                some = some or ("decode", str(i[:30]), w, g)
        if not wrong:
            wrong, some = differing_inputs(ref, ours, texts[:40])
        if wrong:
            bad += 1
            d = first_difference(some[2], some[3])
            print(f"random {k}: {wrong} differ, {some[0]}: {some[1][:100]!r}\n  want …{some[2][max(0, d - 4):d + 8]}\n"
                  f"  got  …{some[3][max(0, d - 4):d + 8]}\n  {path}")
        elif not args.keep:
            os.remove(path)
            os.rmdir(folder)
    print(f"random: {tried - bad} of {tried} tokenizers equal, seed {args.seed}")
    return bad


def vocabularies(data):
    from tokenizers import Tokenizer
    d = data + "/tokenizers/"
    m = data + "/models/"
    hf = lambda path: HuggingFace(Tokenizer.from_file(path))
    yield "gpt2 tokenizer.json", d + "gpt2/tokenizer.json", None, lambda p: hf(p)
    yield "llama2 tokenizer.json", d + "llama2/tokenizer.json", None, lambda p: hf(p)
    yield "t5 tokenizer.json", d + "t5/tokenizer.json", None, lambda p: hf(p)
    yield "minilm tokenizer.json", d + "bert/all-minilm-l6-v2.json", None, lambda p: hf(p)
    yield "llama2 tokenizer.model", d + "llama2/tokenizer.model", None, SentencePiece
    yield "mistral v1 .model", d + "mistral/tokenizer.model.v1", None, SentencePiece
    yield "mistral v3 .model", d + "mistral/mistral_instruct_tokenizer_240323.model.v3", None, SentencePiece
    yield "tok512 .model", m + "stories260K/tok512.model", None, SentencePiece
    yield "pegasus .model", d + "unigram-spm/pegasus.model", None, SentencePiece
    yield "test .model", d + "unigram-spm/test_model.model", None, SentencePiece
    yield "test ja .model", d + "unigram-spm/test_ja_model.model", None, SentencePiece
    yield "marian .spm", d + "marian/vocab.joint.spm", None, SentencePiece
    yield "llama2 tokenizer.bin", d + "llama2/tokenizer.bin", None, Llama2c
    yield "tok512 .bin", m + "stories260K/tok512.bin", None, Llama2c
    yield "llama3 ranks", d + "llama3/tokenizer.model", "llama3", lambda p: Tiktoken(p, CL100K, [
        "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
        "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>"])
    yield "deepseek ranks", d + "deepseek/deepseek_base.tiktoken.gz", "cl100k", lambda p: Tiktoken(p, CL100K)
    yield "gpt2 vocab.json", d + "gpt2/vocab.json", None, lambda p: gpt2_files(os.path.dirname(p))
    yield "qwen2 folder", d + "qwen2", None, qwen2
    yield "bert vocab.txt", d + "bert/bert-base-uncased-vocab.txt", None, bert_vocab
    yield "marian folder", d + "marian", None, Marian


# ---- the comparison ----

class Ours:
    def __init__(self, binary, path, pre):
        if path.endswith(".gz"):
            unpacked = tempfile.NamedTemporaryFile(delete=False)
            unpacked.write(gzip.open(path).read())
            unpacked.close()
            path = unpacked.name
        self.base = ["--tokenizer", path] + (["--pre", pre] if pre else [])
        self.binary = binary

    def run(self, command, flags, lines):
        p = subprocess.run([self.binary, command, *self.base, "--jsonl", *flags],
                           input="".join(json.dumps(x) + "\n" for x in lines),
                           capture_output=True, text=True)
        if p.returncode:
            raise RuntimeError(p.stderr.strip())
        out = [json.loads(line) for line in p.stdout.split("\n") if line]
        if len(out) != len(lines):
            raise RuntimeError(f"{len(lines)} lines in, {len(out)} out")
        return out


def flags_of(special, parse):
    return ([] if special else ["--no-special"]) + (["--parse-special"] if parse else [])


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def compare(name, path, pre, reference, args, corpus):
    ref = reference(path)
    ours = Ours(args.binary, getattr(ref, "path", path), pre)
    texts = fuzz_strings(args.seed, args.count, ref.specials, corpus)
    row = {"name": name, "strings": len(texts)}
    shown = 0
    ids_to_decode = []
    for mode, special, parse in MODES:
        if isinstance(ref, Llama2c):
            texts = [t if len(t) < 1000 else t[:300] for t in texts]
        want = [ref.encode(t, special, parse) for t in texts]
        if want[0] is None:
            row[mode] = "-"
            continue
        got = ours.run("tokenize", flags_of(special, parse), texts)
        same = left_out = 0
        for t, w, g in zip(texts, want, got):
            if w == g:
                same += 1
            elif not parse and hasattr(ref, "plain_leaks") and ref.plain_leaks(t):
                left_out += 1
            elif shown < args.show:
                shown += 1
                i = first_difference(w, g)
                print(f"  {name} {mode}: {t[:120]!r}\n    want …{w[max(0, i - 3):i + 8]}\n"
                      f"    got  …{g[max(0, i - 3):i + 8]}", file=sys.stderr)
        row[mode] = f"{same}/{len(texts)}" + (f" ({left_out} leaks)" if left_out else "")
        row["bad"] = row.get("bad", 0) + len(texts) - same - left_out
        ids_to_decode += want
    r = random.Random(args.seed)
    top = max((max(w) for w in ids_to_decode if w), default=0)
    ids_to_decode = r.sample(ids_to_decode, min(len(ids_to_decode), args.count))
    ids_to_decode += [[r.randint(0, top) for _ in range(r.randint(1, 30))] for _ in range(args.count // 4)]
    want = [ref.decode(i) for i in ids_to_decode]
    got = ours.run("detokenize", [], ids_to_decode)
    same = sum(w == g for w, g in zip(want, got))
    for i, w, g in zip(ids_to_decode, want, got):
        if w != g and shown < 2 * args.show:
            shown += 1
            k = first_difference(w, g)
            print(f"  {name} decode: {i[:40]}\n    want …{w[max(0, k - 10):k + 20]!r}\n"
                  f"    got  …{g[max(0, k - 10):k + 20]!r}", file=sys.stderr)
    if hasattr(ref, "encode_input"):
        differ, first = differing_inputs(ref, ours, texts[:200])
        row["bad"] += differ
        if first:
            print(f"  {name} {first[0]}: {first[1][:120]}\n    want {first[2]}\n    got  {first[3]}", file=sys.stderr)
    row["decode"] = f"{same}/{len(want)}"
    row["bad"] = row.get("bad", 0) + len(want) - same
    if args.speed:
        row["speed"] = speed(ref, ours, args)
    return row


def speed(ref, ours, args):
    """Ours against the library, one thread's CPU time, the same text, interleaved; best of 5. Both may cache words."""
    text = open(args.text or args.data + "/text/wikitext-2-raw/wiki.test.raw", encoding="utf-8").read()[:1 << 20]
    if isinstance(ref, (Llama2c, Marian)):
        return "-"
    size = len(text.encode())
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as f:
        f.write(text)
        f.flush()
        theirs, mine = [], []
        for _ in range(5):
            t = time.thread_time()
            ref.encode(text, False, False)
            theirs.append(time.thread_time() - t)
            p = subprocess.run([ours.binary, "tokenize", *ours.base, "--no-special", "--speed", "--file", f.name],
                               capture_output=True, text=True)
            mine.append(float(p.stdout.split()[0]))
    return f"{size / min(mine) / 1e6:.1f} / {size / min(theirs) / 1e6:.1f} MB/s = {min(theirs) / min(mine):.1f}x"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="../shared/data")
    p.add_argument("--binary", default="build/inferflow")
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="")
    p.add_argument("--show", type=int, default=3)
    p.add_argument("--speed", action="store_true")
    p.add_argument("--text", help="text to measure speed with")
    p.add_argument("--random", type=int, default=0,
                   help="compare this many tokenizer.json files of random parts instead")
    p.add_argument("--keep", action="store_true", help="leave the files of --random")
    args = p.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    path = args.data + "/text/tinyshakespeare.txt"
    corpus = open(path, encoding="utf-8").read() if os.path.exists(path) else open(__file__, encoding="utf-8").read()
    if args.random:
        sys.exit(1 if compare_random(args, corpus) else 0)
    bad = 0
    print(f"{'vocabulary':24} {'plain':>12} {'special':>12} {'parse':>12} {'decode':>12}  "
          f"{'speed' if args.speed else ''}   seed {args.seed}")
    for name, path, pre, reference in vocabularies(args.data):
        if args.only and not any(o in name for o in args.only.split(",")):
            continue
        if not os.path.exists(path):
            print(f"{name:24} skipped: {path} is absent")
            continue
        try:
            row = compare(name, path, pre, reference, args, corpus)
        except RuntimeError as e:
            print(f"{name:24} failed: {e}")
            bad += 1
            continue
        bad += row["bad"]
        print(f"{name:24} {row['plain']:>12} {row['special']:>12} {row['parse']:>12} {row['decode']:>12}  "
              f"{row.get('speed', '')}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
