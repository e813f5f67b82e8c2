#!/usr/bin/env python3
"""tokenizer_vectors.py - makes tests/vectors/tokenizers: small vocabularies of every kind, trained here on a page of
Shakespeare, and what the libraries they belong to make of a few texts.

  tools/oracle/tokenizer_vectors.py --data ../shared/data    (needs: tokenizers, sentencepiece, tiktoken, transformers)

cases.jsonl has one object a line: {"file", "pre", "mode": "plain"|"special"|"parse", "text", "ids"}, {"file", "pre",
"ids", "decoded"} or {"file", "mode", "input": [one or two texts], "max", "ids", "types"}; "target": true means the
tokenizer of the model's output.
"""
import argparse
import base64
import io
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.dirname(__file__))
import oracle_classes as classes
import oracle_tokenizers as oracle

OUT = "tests/vectors/tokenizers"
CLASSES = ["MPNetTokenizer", "RobertaTokenizer", "T5Tokenizer", "PegasusTokenizer", "AlbertTokenizer",
           "DebertaV2Tokenizer", "XLMRobertaTokenizer", "MBartTokenizer", "NllbTokenizer", "M2M100Tokenizer",
           "MarianTokenizer"]
TEXTS = ["", "Hello world", "  two  spaces ", "First Citizen:\nBefore we proceed any further, hear me speak.",
         "It's 1234.5 o'clock, isn't it?", "naïve café ÀÉ e\u0301 ﬁ Å", "你好 мир שלום สวัสดี 한국어 각", "👩‍👩‍👧‍👦🇩🇪 😀",
         "tab\tnl\n\n\r\n end", "<s>the</s> <mask>x", "aaaaaaaaaaaaaaaa",
         "▁ ▁▁x <0x41>", "\u00a0\u2003\u3000\u200b\ufeff\u180e", "x=f(a,b)**2 # no!\\n", "\x01\x7f\u0085\ufffd",
         "½ ² ǅ ſ İ"]


def cases_of(name, ref, pre, out, texts=TEXTS):
    ids_seen = []
    for mode, special, parse in oracle.MODES:
        for t in texts:
            ids = ref.encode(t, special, parse)
            if ids is None or (hasattr(ref, "plain_leaks") and ref.plain_leaks(t)):
                continue
            out.append({"file": name, "pre": pre, "mode": mode, "text": t, "ids": ids})
            ids_seen.append(ids)
    for a, b, most, special in ((3, 4, 0, True), (3, 4, 0, False), (3, 4, 12, True), (4, 1, 11, True),
                                (1, 3, 10, False), (0, 5, 9, True), (3, None, 8, True), (3, 3, 13, True),
                                (3, 3, 12, True), (3, 3, 9, False)):
        texts = [TEXTS[i] for i in (a, b) if i is not None]
        if hasattr(ref, "encode_input") and not any(ref.plain_leaks(t) for t in texts):
            out.append({"file": name, "pre": pre, "mode": "special" if special else "plain", "input": texts,
                        "max": most,
                        **ref.encode_input(texts[0], texts[1] if texts[1:] else None, special, most)})
    r = random.Random(name)
    top = max(max(i) for i in ids_seen if i)
    for ids in ids_seen[:len(texts)] + [[r.randint(0, top) for _ in range(12)] for _ in range(6)]:
        text = oracle.attempt(lambda: ref.decode(ids))
        if text is not None and "\0" not in text:
            out.append({"file": name, "pre": pre, "ids": ids, "decoded": text})


def write(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def hugging_face(corpus, out):
    from tokenizers import Tokenizer
    made = 0
    for k in range(1000):
        r = random.Random(f"vector {k}")
        tok = oracle.attempt(lambda: oracle.random_tokenizer(r, corpus[:3000]))
        text = tok and json.dumps(json.loads(tok.to_str()), ensure_ascii=False, separators=(",", ":"))
        if not text or len(text) > 14000:
            continue
        name = f"random{made}.json"
        write(name, text.encode())
        cases_of(name, oracle.HuggingFace(Tokenizer.from_str(text)), None, out)
        made += 1
        if made == 12:
            return


def unigram_fallback(corpus, out):
    """Unigram with byte fallback: unknown characters, and the text of the unknown token beside them."""
    from tokenizers import Tokenizer, decoders as D, models, pre_tokenizers as P
    counts = {}
    for word in ("▁" + corpus[:6000].replace(" ", " ▁").replace("\n", " ▁")).split():
        for p in [word, *word]:
            counts[p] = counts.get(p, 0) + 1
    pieces = sorted((p for p in counts if len(p) == 1 or counts[p] > 5), key=lambda p: (-counts[p], p))
    vocab = [("<unk>", 0.0)] + [("<0x%02X>" % i, 0.0) for i in range(256)]
    vocab += [(p, -k / 16 - 2) for k, p in enumerate(pieces)]
    tok = Tokenizer(models.Unigram(vocab, 0, byte_fallback=True))
    tok.pre_tokenizer = P.Metaspace()
    tok.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    tok.add_special_tokens(["<unk>"])
    text = json.dumps(json.loads(tok.to_str()), ensure_ascii=False, separators=(",", ":"))
    write("fallback.json", text.encode())
    cases_of("fallback.json", oracle.HuggingFace(Tokenizer.from_str(text)), None, out,
             TEXTS + ["the\u200d\u0301", "3.14\u033b\u200d\u0301<unk>a", "é<unk>é<unk>", "<unk>é the", "x <unk> y"])


def sentence_piece(corpus, out):
    import sentencepiece
    for name, options in (("bpe.model", dict(model_type="bpe", byte_fallback=True, vocab_size=500,
                                             normalization_rule_name="identity")),
                          ("unigram.model", dict(model_type="unigram", vocab_size=220,
                                                 normalization_rule_name="identity",
                                                 user_defined_symbols=["<sep>", "the"])),
                          ("suffix.model", dict(model_type="unigram", vocab_size=500, byte_fallback=True,
                                                treat_whitespace_as_suffix=True,
                                                remove_extra_whitespaces=False,
                                                normalization_rule_tsv="/tmp/rules.tsv"))):
        with open("/tmp/rules.tsv", "w") as f:  # folds a few characters, one of them of two code points
            for a, b in (("É", "e"), ("e\u0301", "e"), ("ﬁ", "fi"), ("\u00a0", " "), ("A", "a"), ("AB", "xy")):
                f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus[:20000].split("\n")), model_writer=model,
                                                 hard_vocab_limit=False, minloglevel=2, **options)
        write(name, model.getvalue())
        cases_of(name, oracle.SentencePiece(os.path.join(OUT, name)), None, out)


def ranks(corpus, out):
    """Merges learnt naively on a small text."""
    data = corpus[:3000].encode()
    vocab = [bytes([i]) for i in range(256)]
    words = [[bytes([b]) for b in w] for w in data.replace(b" ", b"\0 ").split(b"\0")]
    for _ in range(120):
        count = {}
        for w in words:
            for a, b in zip(w, w[1:]):
                count[a, b] = count.get((a, b), 0) + 1
        a, b = max(count, key=lambda p: (count[p], p))
        vocab.append(a + b)
        for w in words:
            i = 0
            while i + 1 < len(w):
                if (w[i], w[i + 1]) == (a, b):
                    w[i:i + 2] = [a + b]
                i += 1
    write("ranks.tiktoken", b"".join(base64.b64encode(v) + b" %d\n" % i for i, v in enumerate(vocab)))
    cases_of("ranks.tiktoken", oracle.Tiktoken(os.path.join(OUT, "ranks.tiktoken"), oracle.CL100K), "cl100k", out)


def llama2c(corpus, out):
    import sentencepiece
    sp = sentencepiece.SentencePieceProcessor(model_file=os.path.join(OUT, "bpe.model"))
    pieces = []
    for i in range(sp.get_piece_size()):
        p = sp.id_to_piece(i)
        p = "\n<s>\n" if i == 1 else "\n</s>\n" if i == 2 else p
        pieces.append((sp.get_score(i), p.replace("▁", " ").encode()))
    write("llama2c.bin", struct.pack("<I", max(len(p) for _, p in pieces))
          + b"".join(struct.pack("<fi", s, len(p)) + p for s, p in pieces))
    cases_of("llama2c.bin", oracle.Llama2c(os.path.join(OUT, "llama2c.bin")), None, out)


def bert(corpus, out):
    words = sorted({w.lower() for w in corpus[:4000].split() if w.isalpha()})[:120]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:!?'éàß中国"
    vocab = classes.BERT + words + list(letters) + ["##" + c for c in letters] + ["##ing", "##s", "##ed"]
    write("vocab.txt", "".join(v + "\n" for v in vocab).encode())
    cases_of("vocab.txt", oracle.bert_vocab(os.path.join(OUT, "vocab.txt")), None, out)


def class_folders(corpus, out):
    """Bare files of several classes, as tools/oracle/oracle_classes.py makes and judges them; ordinary text."""
    import transformers
    classes.SIZE[0], classes.FOLDING[0] = 90, "identity"
    texts = ["Hello world", "First Citizen: Before we proceed any further, hear me speak.",
             "It's 12 o'clock, isn't it?"]
    for name, settings, file, make in classes.cases():
        folder = name.replace("Tokenizer", "").lower()
        if name not in CLASSES or folder in [c["file"] for c in out] or name == "MarianTokenizer" and not settings:
            continue
        path = os.path.join(OUT, folder)
        classes.build(name, settings, file, make, corpus[:9000], path)
        ref = classes.Pieces(name, path, settings) if name == "NllbTokenizer" \
            else getattr(transformers, name).from_pretrained(path)
        for a, b, most in ((0, None, 0), (1, None, 0), (2, None, 7), (0, 2, 0), (2, 1, 12)):
            if most and b and name in classes.TRANSLATION:
                continue
            more = dict(truncation="longest_first", max_length=most) if most else {}
            e = ref(texts[a], texts[b] if b else None, return_token_type_ids=True, **more)
            types = [0] * len(e["input_ids"]) if name in classes.TRANSLATION else e["token_type_ids"]
            out.append({"file": folder, "mode": "special", "input": [texts[a]] + ([texts[b]] if b else []), "max": most,
                        "ids": e["input_ids"], "types": types})
        for t in texts if settings.get("separate_vocabs") else []:
            ids = ref(text_target=t)["input_ids"]
            out.append({"file": folder, "target": True, "mode": "special", "text": t, "ids": ids})
            out.append({"file": folder, "target": True, "ids": ids,
                        "decoded": ref.decode(ids, clean_up_tokenization_spaces=False)})


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="../shared/data")
    p.add_argument("--only", default="", help="make the vocabularies of one function anew and keep the others")
    args = p.parse_args()
    corpus = open(args.data + "/text/tinyshakespeare.txt", encoding="utf-8").read()
    os.makedirs(OUT, exist_ok=True)
    out = []
    for make in (hugging_face, unigram_fallback, sentence_piece, ranks, llama2c, bert, class_folders):
        if args.only in ("", make.__name__):
            make(corpus, out)
    if args.only:
        made = {c["file"] for c in out}
        out = [c for c in map(json.loads, open(os.path.join(OUT, "cases.jsonl"))) if c["file"] not in made] + out
    with open(os.path.join(OUT, "cases.jsonl"), "w") as f:
        for c in out:
            f.write(json.dumps({k: v for k, v in c.items() if v is not None}, separators=(",", ":")) + "\n")
    print(len(out), "cases")


if __name__ == "__main__":
    main()
