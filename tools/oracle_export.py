"""Judges what `inferflow export` makes of GGUF files: transformers loads the folder and must give the logits of the reference.

Families that transformers has no class for (oracle_cases_remote.py) are judged by the files they came from: the same
tensors, and the engine's own logits from the folder.
"""
import os
import shutil

import numpy as np
import safetensors.torch
import torch
import transformers

from oracle_check import Failure, logits_of, model_path, read, run, within
from oracle_model import Pair, auto_class, forward
from oracle_table import CASES

MOST = 1e-5     # of the largest weight of a tensor: what a sum and a difference may cost
RESCALED = ("jais",)    # converters multiply tensors by factors that the configuration had


def sequence(folder):
    ids = read(folder, "ids.json")
    enc = os.path.join(folder, "enc.json")
    return Pair(ids, read(folder, "enc.json")) if os.path.exists(enc) else ids


def by_transformers(case, exported, folder):
    """How far transformers' logits of the exported folder are from the reference, as a share of the tolerance. Buffers may be
    missing from the file, parameters not."""
    config = transformers.AutoConfig.from_pretrained(exported)
    model, notes = auto_class(config).from_pretrained(exported, attn_implementation=case.attention,
                                                      experts_implementation="eager", output_loading_info=True,
                                                      dtype=torch.float32)
    trained = {n for n, _ in model.named_parameters()}
    for kind, found in (("missing", trained & set(notes["missing_keys"])),
                        ("unexpected", set(notes["unexpected_keys"]))):
        if found:
            raise Failure(f"transformers: {kind}: {', '.join(sorted(found)[:4])}")
    got = forward(model.float().eval(), sequence(folder)).numpy()
    off = float(np.abs(got - np.load(os.path.join(folder, "logits.npy"))).max())
    bar = read(folder, "reference.json")["tolerance"]
    if not off <= bar:
        raise Failure(f"transformers: off by {off:.1e}, {off / bar:.0f} times what is allowed")
    return off / bar


def by_files(exported, original):
    """The largest difference from the tensors that the GGUF file was made of; names and shapes must be theirs."""
    got, want = (safetensors.torch.load_file(os.path.join(d, "model.safetensors")) for d in (exported, original))
    if got.keys() != want.keys():
        raise Failure(f"other tensors: {', '.join(sorted(got.keys() ^ want.keys())[:4])}")
    worst = 0.0
    for name, t in want.items():
        if got[name].shape != t.shape:
            raise Failure(f"{name} is {list(got[name].shape)}, not {list(t.shape)}")
        off = float((got[name].float() - t.float()).abs().max() / max(float(t.float().abs().max()), 1e-9))
        worst = max(worst, off)
        if off > MOST:
            raise Failure(f"{name}: off by {off:.1e} of its largest value")
    return worst


def check_export(binary, out, folder):
    """Exports the model of a folder and returns how far off it is, as a share of what is allowed."""
    name = os.path.basename(folder).split("@")[0]
    case = CASES[name]
    shutil.rmtree(out, ignore_errors=True)
    run(binary, "export", "--model", model_path(folder), "-o", out)
    again = within(logits_of(binary, folder, "--model", out), folder)
    if name in RESCALED:
        return again
    if case.layout:
        by_files(out, os.path.join(os.path.dirname(folder), name))
        return again
    return max(again, by_transformers(case, out, folder))


def report(binary, folders, scratch):
    """Prints one line for each folder; returns how many failed."""
    failed = 0
    for folder in folders:
        name = os.path.basename(folder)
        try:
            said = f"{check_export(binary, os.path.join(scratch, name), folder):.3f}"
        except Failure as e:
            said = f"FAIL {e}"
        except Exception as e:      # whatever transformers raises on reading
            said = f"FAIL transformers: {type(e).__name__}: {e}"
        failed += said.startswith("FAIL")
        print(f"{name:24s} {said}", flush=True)
    print(f"{len(folders)} models, {failed} failures")
    return failed
