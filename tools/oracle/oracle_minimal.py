"""Models whose config.json leaves out all that is default in its class, against transformers.

For every class of the tables: a tiny model in which each key has its default where such a model can be built (sizes,
and what depends on them, cannot), saved with a config.json without the keys that the class does not need. The engine
must give the logits that transformers gives.
"""
import dataclasses
import os
import tempfile

import numpy as np
import torch
import transformers

import oracle_encoders
import oracle_model
from oracle_cases import FULL
from oracle_check import Failure, result_of, within
from oracle_defaults import SIZES, attempt, free_keys, said
from oracle_table import CASES, vocab_of

PARAMETERS = 3_000_000
LAYERS = 7          # of families whose layers follow a pattern
WIDTHS = {"neox": 64, "glm4-moe": 64}      # by default a part of a head rotates: an even number of dimensions
# transformers saves the convolution in equal thirds, so they have to be as wide together.
KEPT = {"olmo-hybrid": ("linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads",
                        "linear_num_value_heads")}
TOGETHER = dict(n_group=("topk_group",))


def first_cases(names):
    """The first case of every class, of those chosen."""
    found = {}
    for name in names:
        if not CASES[name].layout:
            found.setdefault(CASES[name].config, name)
    return list(found.values())


def build(case, args, vocab):
    """The model of a case with these arguments; None where there can be none, or only a large one."""
    config = attempt(lambda: getattr(transformers, case.config)(vocab_size=vocab, **args))
    with torch.device("meta"):
        empty = config and attempt(lambda: oracle_model.auto_class(config, case).from_config(config))
    if not empty or sum(p.numel() for p in empty.parameters()) > PARAMETERS:
        return None
    over = dataclasses.replace(case, make=lambda s: args)
    ids = {k: getattr(config, k) for k in ("bos_token_id", "eos_token_id") if hasattr(config, k)}
    return attempt(lambda: oracle_model.make_model(over, FULL, vocab, ids))


def with_defaults(name, case, vocab):
    """(model, arguments that it needs)"""
    args = dict(case.make(FULL), pad_token_id=0)
    if name in WIDTHS:
        args["hidden_size"] = WIDTHS[name]
    works = lambda a: (m := build(case, a, vocab)) and attempt(
        lambda: oracle_model.compute(m, case, ids_of(m, vocab)) is not None)
    for key in [k for k in args if k not in SIZES and k not in KEPT.get(name, ())]:
        less = {k: v for k, v in args.items() if k != key and k not in TOGETHER.get(key, ())}
        if key == "layer_types" and "num_hidden_layers" in args:
            less["num_hidden_layers"] = LAYERS
        if works(less):
            args = less
    return build(case, args, vocab), args


def ids_of(model, vocab):
    rng = np.random.default_rng(7)
    draw = lambda n, most: rng.integers(3, most, n).tolist()
    if model.config.is_encoder_decoder:
        return oracle_model.Pair([oracle_model.DECODER_START] + draw(FULL.tokens - 1, vocab), draw(FULL.source, vocab))
    return draw(FULL.tokens, vocab)


def minimal_config(folder, config_class):
    """Leaves out of config.json what the class does not need; returns the keys."""
    path = os.path.join(folder, "config.json")
    config = oracle_model.read_json(folder, "config.json")
    kept = ("architectures", "model_type", *SIZES)
    free = [k for k in free_keys(config_class, config, kept) if "." not in k]
    keys = list(config)
    whole, gone = said(config_class, config, keys), []
    for key in free:
        less = {k: v for k, v in config.items() if k != key}
        if attempt(lambda: said(config_class, less, keys)) == whole:
            config, gone = less, gone + [key]
    oracle_model.write_json(path, config, indent=1)
    return gone


def judge(binary, name):
    """(share of what is allowed, keys that were left out)"""
    case, vocab = CASES[name], vocab_of(name, FULL)
    model, args = with_defaults(name, case, vocab)
    ids = ids_of(model, vocab)
    for seed in range(1000, 1010):
        if case.auto:
            oracle_encoders.redraw(model, seed)
        else:
            oracle_model.redraw(model, case, seed, bool(getattr(model.config, "tie_word_embeddings", False)))
        if case.auto or oracle_model.steady(model, case, ids):
            break
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        gone = minimal_config(folder, type(model.config))
        oracle_model.write_expected(folder, case, model, ids)
        return within(result_of(binary, folder, "--model", folder), folder), gone


def report(binary, names):
    """Prints a line for every class; returns how many failed."""
    failures = 0
    chosen = first_cases(names)
    for name in chosen:
        try:
            share, gone = judge(binary, name)
            print(f"{name:22s} {share:6.3f}  without {', '.join(gone)}", flush=True)
        except Failure as e:
            failures += 1
            print(f"FAIL {name}: {e}", flush=True)
    print(f"{len(chosen)} classes, {failures} failures")
    return failures
