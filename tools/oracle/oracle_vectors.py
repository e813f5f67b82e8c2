"""The tiny models that are committed, so that `make test` judges every family without Python.

One folder a case: config.json (as transformers 5 saves it, or as on the hub, in turn), model.safetensors in float16 or
bfloat16 (in turn; the weights are exact in it), and expect.json:
    ids        the test sequence (of an encoder-decoder: what its decoder reads)
    enc        what an encoder reads
    rows       positions whose logits are given
    logits     one list of decimal floats per row
    tolerance  largest absolute difference allowed
    prompt     how many of the ids start the greedy continuation
    greedy     its tokens
Of an encoder (tests/t_models_encoders.c reads it): what is compared, ids, types, lengths (of texts that are the first
ids), tolerance, and `values` of `rows` of the result.
"""
import json
import os
import shutil

import torch
import safetensors.torch

from oracle_cases import SMALL
from oracle_cases_enc import LANGUAGE, MASKED, SCORED, SPANS, TOKENS
from oracle_encoders import LENGTHS, types_of
from oracle_hub import hub_config
from oracle_model import Pair, check_parameters, draw_case, read_json, reference, save, tolerance
from oracle_table import CASES, place_of

ROWS = (0, 1, 13, 40, SMALL.tokens - 1)
ENCODERS = ("bert", "bert-scores", "bert-bare", "bert-single", "roberta", "roberta-head", "roberta-scores",
            "roberta-xl", "roberta-pre", "ernie", "albert", "albert-scores", "albert-groups", "electra",
            "electra-scores", "electra-wide", "distilbert", "distilbert-scores", "mpnet", "mpnet-bare", "nomic",
            "nomic-bare", "gte", "gte-untyped", "jina3", "jina3-bare", "modernbert", "modernbert-thirds",
            "modernbert-biases", "eurobert", "eurobert-scores", "eurobert-bos",
            "bert-tokens", "bert-spans", "modernbert-tokens", "llama-tokens", "llama-spans", "llama-texts",
            "llama-padded", "gpt2-texts", "gpt2-tokens", "gpt2-padded", "gemma2-texts", "qwen3-base",
            "qwen3-base-tied", "gemma3-two-ways", "mistral-uncausal", "qwen2-uncausal-base", "bert-dense",
            "bart-texts", "bart-spans", "t5-texts", "t5-encoder", "umt5-tokens", "qwen3-dense",
            "gemma4-two-ways",
            "deberta", "deberta-narrow", "deberta-rows", "deberta-pooler", "deberta-others", "deberta2-keys",
            "deberta2-odd", "deberta2-tokens", "deberta2-head", "deberta3-bare", "deberta3-spans", "deberta3-scores",
            "deberta3-apart", "deberta2-xlarge", "deberta2-conv", "mbart-texts", "mbart-spans", "plbart-texts")
BY_TOKEN = (MASKED, TOKENS, SPANS, LANGUAGE)

AS_GGUF = ("qwen3.5",)     # what an export cannot write: value heads that are tiled
README = """\
# Tiny models of every family and form

Written by `tools/oracle/oracle.py vectors` (transformers {version}); what lies in a folder is described in
`tools/oracle/oracle_vectors.py`. Every parameter was redrawn after construction and matters; greedy tokens have no
near-ties.
"""


def number(x):
    return float(f"{float(x):.7g}")


def values(result, rows):
    return [[number(x) for x in result[r]] for r in rows]


def expected(case, model, ids, tokens):
    result, _, f64 = reference(model, case, ids)
    bar = number(tolerance(result, f64))
    if case.auto:
        texts = 0 if case.auto in BY_TOKEN else len(LENGTHS)
        rows = list(range(texts)) + ([] if case.auto == SCORED else [texts + r for r in ROWS])
        both = case.auto in (SCORED, SPANS) and model.config.is_encoder_decoder     # both parts read the text
        return dict(what=case.auto, ids=ids, **(dict(enc=ids) if both else {}), types=types_of(model, len(ids)),
                    lengths=LENGTHS, tolerance=bar, rows=rows,
                    values=values(result, rows))
    enc = dict(enc=ids.enc) if isinstance(ids, Pair) else {}
    return dict(ids=ids, **enc, rows=ROWS, tolerance=bar, prompt=case.prompt, greedy=tokens,
                logits=values(result, ROWS))


def write_vector(name, out):
    """Writes the case, returns (bytes, smallest greedy margin)."""
    index, case = place_of(name), CASES[name]
    dtype = (torch.float16, torch.bfloat16)[index % 2]
    model, ids, tokens, margin = draw_case(name, size=SMALL, dtype=dtype)
    check_parameters(model, name, ids)
    expect = expected(case, model, ids, tokens)
    folder = os.path.join(out, "encoders" if case.auto else "models", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if name in AS_GGUF:
        write_as_gguf(os.path.join(out, name + ".gguf"), model, name, dtype)
    save(model.to(dtype), folder, case)
    if os.path.exists(os.path.join(folder, "generation_config.json")):
        os.remove(os.path.join(folder, "generation_config.json"))
    if not case.auto and not case.layout and (index % 4 >= 2 or case.hub or case.renamed):
        use_hub_form(folder, type(model.config), case)
    stored = safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))
    assert all(t.dtype == dtype for t in stored.values()), name
    with open(os.path.join(folder, "expect.json"), "w") as f:
        f.write("{" + ",\n ".join(f'"{k}": {json.dumps(v)}' for k, v in expect.items()) + "}\n")
    return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)), margin


def write_as_gguf(path, model, name, dtype):
    """The same model as llama.cpp's converter lays it out, with matrices of the same type."""
    import gguf
    from oracle_gguf import write_gguf
    types = gguf.GGMLQuantizationType
    write_gguf(path, model, name, types.F16 if dtype is torch.float16 else types.BF16)


def use_hub_form(folder, config_class, case):
    config = hub_config(read_json(folder, "config.json"), config_class, case)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")


def write_readme(out):
    import transformers
    with open(os.path.join(out, "models", "README.md"), "w") as f:
        f.write(README.format(version=transformers.__version__))
