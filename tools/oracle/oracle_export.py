"""Judges what `inferflow export` makes of GGUF files: transformers loads the folder and must give the reference's
results.

Families that transformers has no class for (oracle_cases_remote.py) are judged by the files they came from: the same
tensors, and the engine's own logits from the folder.
"""
import os
import shutil
import tempfile

import numpy as np
import safetensors.torch
import torch

from oracle_check import Failure, model_path, read, result_of, run, within

MOST = 1e-5     # of the largest weight of a tensor: what a sum and a difference may cost
RESCALED = ("jais",)    # converters multiply tensors by factors that the configuration had


def loaded(auto, exported, **how):
    """The model of an exported folder. Parameters may neither be missing nor too many, but for a pooler: GGUF has
    none."""
    model, notes = auto.from_pretrained(exported, output_loading_info=True, dtype=torch.float32, **how)
    trained = {n for n, _ in model.named_parameters() if not n.startswith("pooler.")}
    for kind, found in (("missing", trained & set(notes["missing_keys"])),
                        ("unexpected", set(notes["unexpected_keys"]))):
        if found:
            raise Failure(f"transformers: {kind}: {', '.join(sorted(found)[:4])}")
    return model.float().eval()


def near(got, folder):
    """How far a result is from the reference, as a share of what is allowed."""
    off = float(np.abs(got - np.load(os.path.join(folder, "logits.npy"))).max())
    bar = read(folder, "reference.json")["tolerance"]
    if not off <= bar:
        raise Failure(f"transformers: off by {off:.1e}, {off / bar:.0f} times what is allowed")
    return off / bar


def by_transformers(case, exported, folder):
    import transformers
    from oracle_model import Pair, auto_class, compute, how
    model = loaded(auto_class(transformers.AutoConfig.from_pretrained(exported), case), exported, **how(case))
    if case.auto and model.config.pad_token_id is None:
        model.config.pad_token_id = 0       # only fills up rows that a mask hides
    ids = read(folder, "ids.json")
    if os.path.exists(os.path.join(folder, "enc.json")):
        ids = Pair(ids, read(folder, "enc.json"))
    return near(compute(model, case, ids).numpy(), folder)


def by_files(exported, original):
    """The tensors are those that the GGUF file was made of, by name, shape and value."""
    got, want = (safetensors.torch.load_file(os.path.join(d, "model.safetensors")) for d in (exported, original))
    if got.keys() != want.keys():
        raise Failure(f"other tensors: {', '.join(sorted(got.keys() ^ want.keys())[:4])}")
    for name, t in want.items():
        if got[name].shape != t.shape:
            raise Failure(f"{name} is {list(got[name].shape)}, not {list(t.shape)}")
        off = float((got[name].float() - t.float()).abs().max() / max(float(t.float().abs().max()), 1e-9))
        if off > MOST:
            raise Failure(f"{name}: off by {off:.1e} of its largest value")


def judge(binary, exported, folder):
    """How far an exported model is off, as a share of what is allowed."""
    from oracle_gguf import implied
    from oracle_model import draw_case, save
    from oracle_table import CASES
    name = os.path.basename(folder).split("@")[0]
    case = CASES[name]
    again = within(result_of(binary, folder, "--model", exported), folder)
    if not case.layout:
        return max(again, by_transformers(case, exported, folder))
    if name not in RESCALED:
        with tempfile.TemporaryDirectory() as original:     # what the file was made of, not the case itself
            save(draw_case(name, over=implied(name))[0], original, case)
            by_files(exported, original)
    return again


def report(binary, folders):
    """Exports each model and prints one line for it; returns how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders:
            name = os.path.basename(folder)
            exported = os.path.join(scratch, name)
            try:
                run(binary, "export", "--model", model_path(folder), "-o", exported)
                said = f"{judge(binary, exported, folder):.3f}"
            except Failure as e:
                said = f"FAIL {e}"
            except Exception as e:      # whatever transformers raises on reading
                said = f"FAIL transformers: {type(e).__name__}: {e}"
            shutil.rmtree(exported, ignore_errors=True)
            failed += said.startswith("FAIL")
            print(f"{name:24s} {said}", flush=True)
    print(f"{len(folders)} models, {failed} failures")
    return failed
