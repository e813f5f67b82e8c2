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
"""
import json
import os
import shutil

import torch
import safetensors.torch

from oracle_cases import SMALL
from oracle_hub import hub_config
from oracle_model import Pair, draw_case, reference, save, tolerance, weak_parameters
from oracle_table import CASES, place_of

ROWS = (0, 1, 13, 40, SMALL.tokens - 1)

README = """\
# Tiny models of every family and form

Written by `tools/oracle/oracle.py vectors` (transformers {version}); what lies in a folder is described in
`tools/oracle/oracle_vectors.py`. Every parameter was redrawn after construction and matters; greedy tokens have no
near-ties.
"""


def number(x):
    return float(f"{float(x):.7g}")


def write_vector(name, out):
    """Writes the case, returns (bytes, smallest greedy margin)."""
    index = place_of(name)
    dtype = (torch.float16, torch.bfloat16)[index % 2]
    case = CASES[name]
    model, ids, tokens, margin = draw_case(name, size=SMALL, dtype=dtype)
    logits, _, f64 = reference(model, ids)
    weak = weak_parameters(model, case, ids, logits, tolerance(logits, f64))
    if weak:
        raise SystemExit(f"oracle: {name}: parameters that hardly matter: {', '.join(weak)}")
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    save(model.to(dtype), folder, case)
    os.remove(os.path.join(folder, "generation_config.json"))
    if not case.layout and (index % 4 >= 2 or case.hub or case.renamed):
        use_hub_form(folder, type(model.config), case)
    stored = safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))
    assert all(t.dtype == dtype for t in stored.values()), name
    enc = dict(enc=ids.enc) if isinstance(ids, Pair) else {}
    expect = dict(ids=ids, **enc, rows=ROWS, tolerance=number(tolerance(logits, f64)), prompt=case.prompt,
                  greedy=tokens,
                  logits=[[number(x) for x in logits[r]] for r in ROWS])
    with open(os.path.join(folder, "expect.json"), "w") as f:
        f.write("{" + ",\n ".join(f'"{k}": {json.dumps(v)}' for k, v in expect.items()) + "}\n")
    return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)), margin


def use_hub_form(folder, config_class, case):
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = hub_config(json.load(f), config_class, case)
    with open(path, "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")


def write_readme(out):
    import transformers
    with open(os.path.join(out, "README.md"), "w") as f:
        f.write(README.format(version=transformers.__version__))
