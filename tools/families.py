#!/usr/bin/env python3
"""families.py - writes specs/README.md from the specs and from what is known of trained checkpoints.

    python3 tools/families.py           writes it
    python3 tools/families.py --check   fails where it differs: part of `make lint`
"""
import glob
import os
import re
import sys

PAGE = "specs/README.md"

KINDS = ("Decoders", "Decoders with experts or latent attention", "Encoders", "Encoder-decoders")
# Checkpoints with trained weights that were run, and how each was judged. All else is known from tiny random models
# only.
TRAINED = (
    ("llama", "stories260K (llama2.c, PyTorch, safetensors, GGUF), llama2xs", "greedy text, logits"),
    ("llama", "the built-in model, made by `tools/train_builtin.py`", "logits of transformers"),
    ("gpt2", "gpt-nano-sort", "every tensor of a forward pass by its maker"),
    ("albert", "rxnmapper", "logits computed in float64 by its maker"),
    ("bert", "all-MiniLM-L6-v2", "vectors of sentence-transformers"),
    ("m2m_100", "aren-transliteration (CTranslate2), by a spec of its own", "words expected by its maker"),
)
HEAD = """# Families

For those who want to know whether their model runs. `inferflow spec list` prints the same list. `tools/families.py` writes this page.

Where a checkpoint names one of the classes, `--model PATH` is enough. **All families were compared with transformers on tiny models with random
parameters**, each of them drawn anew, in the containers that the family comes in. Trained checkpoints that were ever run:

| family | checkpoint | judged by |
|---|---|---|
"""
TAIL = """
## Heads

A class is found by its family: `XForSequenceClassification` gives scores of texts (`embed --scores`; a decoder reads the last token that is no
padding), `XForTokenClassification` and `XForQuestionAnswering` a row for each token (`eval logits`: labels, or start and end), `XModel` states and
vectors (`eval hidden`, `embed`). BART's and T5's heads read a text with both parts; mBART's and PLBart's are refused.
Decoders with `is_causal: false`, and Gemma 3 with `use_bidirectional_attention: true` (EmbeddingGemma), see later tokens.

## Under another family's name

Falcon 3, DeepSeek LLM, SmolLM 1 and 2 and today's Yi are Llama; Qwen 1.5 and 2.5 are Qwen2; Phi-1.5 and 2 are Phi; Phi-3.5-mini, Phi-4 and Phi-4-mini are Phi-3; Kimi K2,
R1 and Youtu-LLM are DeepSeek V3; MiniLM, BGE, E5 and cross-encoders are BERT; CamemBERT and XLM-R are RoBERTa; Flan-T5 is T5; NLLB is M2M-100.

The text models in LLaVA, InternVL, Gemma 3, Mistral 3, Llama 4, SmolVLM, Kimi K2.5, Voxtral and everything else whose config.json has a
`text_config` of a family below run by that family's spec; pictures and sound do not. `tools/oracle/oracle_wrappers.py` judged 57 types. PaliGemma is
refused: its text sees its whole prompt.

A family marked ° ships its own Python on the hub and has no class in transformers. It is judged through an equivalent class whose weights
are written in the family's layout (`tools/oracle/oracle_remote.py`).

Quantized folders of the hub run as they are: [which](../src/tensor/README.md).

## What a new family takes

Three decoders that nobody had asked for, to show the cost: the complete spec, and the largest deviation from transformers (3e-5 is allowed).

| family | the spec | deviation |
|---|---|---|
| VaultGemma 1B | base `gemma2`, one line for the block: `x = x + attn(norm.a(x)); x = x + ffn(norm.c(x))` | 4.1e-6 |
| HyperCLOVA X SEED Think | base `granite`, five lines: a norm after each part, a switch for it, its two tensor names, scaled logits | 7e-7 |
| Granite SWA | base `granite`, seven lines: attention sinks, a window in three of four layers, another rotary base or none by layer | 1.2e-6 |

## The built-in model

Without `--model` every command uses a model that travels inside the executable: a Llama-style decoder of 5.5 million parameters (6 layers of width 256, 4 heads, 2 key-value heads,
vocabulary 4096, context 2048; Q8_0, 6 MB), trained by `tools/train_builtin.py` on 55 public-domain novels and stories (27 MB, 7.6 million tokens, two passes). Its perplexity on a book that it
has not seen, Stevenson's *Dr. Jekyll and Mr. Hyde*, is 41.3 per token (2.86 per byte) in windows of 2048 tokens. It exists so that everything can be tried without a download: it
knows nothing, follows no instruction and loses the thread, and it says what characters of such novels say, the prejudices of their time included. Weights and tokenizer are under the Apache License 2.0.
"""


def texts_of(name):
    """The texts of a spec and of its bases, nearest first."""
    with open(f"specs/{name}.ini", encoding="utf-8") as f:
        text = f.read()
    base = value_of(text, "base")
    return [text] + (texts_of(base) if base else [])


def value_of(text, key):
    found = re.search(rf"^{key}\s*=\s*(.*(?:\n +.*)*)$", text, re.M)
    return " ".join(found.group(1).split()) if found else None


def kind_of(texts):
    form = next(filter(None, (value_of(text, "type") for text in texts if "[network]" in text)))
    if form != "decoder_only":
        return KINDS[3] if form == "encoder_decoder" else KINDS[2]
    return KINDS[bool(re.search(r"= (moe|mla)\b", "".join(texts)))]


def page():
    rows = {kind: [] for kind in KINDS}
    for name in sorted(os.path.basename(path)[:-4] for path in glob.glob("specs/*.ini")):
        texts = texts_of(name)
        classes = [c.strip() for c in value_of(texts[0], "arch").split(",") if c.strip()[0].isupper()]
        mark = "°" if value_of(texts[0], "code") == "apart" else ""
        rows[kind_of(texts)].append(f"| [{name}]({name}.ini){mark} | {value_of(texts[0], 'doc')} | {' '.join(classes)} |")
    tables = (f"\n## {kind}\n\n| spec | what it is | classes |\n|---|---|---|\n" + "\n".join(rows[kind]) for kind in KINDS)
    return HEAD + "\n".join(f"| {' | '.join(row)} |" for row in TRAINED) + "\n" + "\n".join(tables) + "\n" + TAIL


if sys.argv[1:] == ["--check"]:
    with open(PAGE, encoding="utf-8") as page_file:
        if page_file.read() != page():
            sys.exit(f"{PAGE}:1: not what the specs say: run tools/families.py")
else:
    with open(PAGE, "w", encoding="utf-8") as page_file:
        page_file.write(page())
