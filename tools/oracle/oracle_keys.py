"""oracle_keys.py - other legal values of each key of config.json, beside transformers.

In the committed models each key takes other values of its type, one at a time: numbers next to it, 0, 1, negative and
doubled ones, the other flag, lists turned round, a number for null. transformers, in double, and the engine compute the
logits, or the hidden states, of a few ids. The engine may refuse, with a line that names the key; other numbers are a
failure. Values that transformers refuses, or computes no finite numbers with, are not judged.
"""
import json
import os
import shutil
import tempfile
import warnings

import numpy as np

from oracle_check import Failure, run

IDS = (13, 37, 11, 22, 39, 14, 25, 18, 21, 34, 17, 26)      # no ids that a key may make special
DECODER_IDS = (10, 15, 29, 14, 32, 27, 13, 36)
BAR = 2e-4                                                  # of the largest number; eps of 0 cost float32 that much
KEPT = {"architectures", "model_type", "transformers_version", "dtype", "torch_dtype", "id2label", "label2id"}
WORDS = dict(hidden_act=("gelu", "relu", "silu", "gelu_new"), mamba_hidden_act=("silu", "gelu", "relu2"),
             mlp_hidden_act=("relu2", "silu", "gelu", "relu"), conv_act=("tanh", "gelu", "relu"),
             position_embedding_type=("rope", "nope", "absolute"))
KNOWN = {                                   # (end of the key, value): why transformers' numbers do not count
    ("rescale_prenorm_residual", True): "Mamba 2's class divides loaded matrices once more",
    ("window_size", 0): "GPT-Neo masks all keys of all rows",
    ("sliding_window", 0): "Gemma 3 both ways: a row sees itself alone",
    ("sliding_window", 1): "Gemma 3 both ways: a row sees itself alone",
}


def others(key, value):
    """Other values of the type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [v for v in (value + 1, 0, 1, -1, 2 * value) if v != value]
    if isinstance(value, float):
        return [v for v in (1.5 * value, 0.0, 1.0, -value) if v != value]
    if isinstance(value, str):
        return [w for w in WORDS.get(key, ()) if w != value]
    if isinstance(value, list) and value and not isinstance(value[0], (list, dict)):
        grown = () if isinstance(value[0], str) else ([1.5 * v if isinstance(v, float) else v + 1 for v in value], [])
        return [v for v in (value[::-1], *grown) if v != value]
    return [1, 2, 2.5, True] if value is None else []


def keys_of(config, inside=()):
    """(path, value) of every key, also inside objects."""
    for key, value in config.items():
        if isinstance(value, dict) and key not in KEPT:
            yield from keys_of(value, inside + (key,))
        elif key not in KEPT:
            yield inside + (key,), value


def changed(config, path, value):
    other = json.loads(json.dumps(config))
    at = other
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return other


def theirs(folder, attention):
    """(numbers, whether they are logits) by transformers; an exception where it refuses."""
    import torch
    import transformers
    with open(os.path.join(folder, "config.json")) as f:
        kind = getattr(transformers, json.load(f)["architectures"][0])
    model, found = kind.from_pretrained(folder, dtype=torch.float64, output_loading_info=True,
                                        attn_implementation=attention, experts_implementation="eager")
    if any(found.get(k) for k in ("missing_keys", "mismatched_keys", "unexpected_keys")):
        raise ValueError("tensors that do not fit")
    given = dict(input_ids=torch.tensor([IDS]))
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.tensor([DECODER_IDS])
    with torch.no_grad():
        out = model.eval()(**given)
    logits = getattr(out, "logits", None)
    result = (out.last_hidden_state if logits is None else logits)[0].numpy()
    if not np.isfinite(result).all():
        raise ValueError("no finite numbers")
    return result, logits is not None


def ours(binary, folder, logits, both):
    ids = ("--ids", ",".join(map(str, IDS)), *(("--decoder-ids", ",".join(map(str, DECODER_IDS))) if both else ()))
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "out.npy")
        run(binary, "eval", "logits" if logits else "hidden", "-m", folder, *ids, "--ctx", "20", "--kv", "f32",
            "--act", "f32", "-o", out)
        return np.load(out)


def fault(binary, folder, key, attention, both):
    """What is wrong with the changed model; None for nothing."""
    try:
        want, logits = theirs(folder, attention)
    except Exception:                       # of any kind: classes check what they are given in many ways
        return None
    try:
        got = ours(binary, folder, logits, both)
    except Failure as e:
        return None if key in str(e) else f"refused, key not named: {e}"
    most = np.abs(want).max()
    apart = np.abs(got.reshape(want.shape) - want).max() if got.size == want.size else np.inf
    return None if apart <= BAR * most + 1e-20 else f"off by {apart / most if most else apart:.1e} of the largest"


def check_model(binary, folder, attention):
    """(changes tried, lines about those that failed); no changes: transformers has no class, or gives no such rows."""
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(folder, "expect.json")) as f:
        both = "enc" in json.load(f)
    try:
        want, logits = theirs(folder, attention)
        if ours(binary, folder, logits, both).size != want.size:
            return 0, []
    except Exception:
        return 0, []
    n, failed = 0, []
    with tempfile.TemporaryDirectory() as tmp:
        copy = shutil.copytree(folder, os.path.join(tmp, "model"))
        for path, value in keys_of(config):
            for other in others(path[-1], value):
                with open(os.path.join(copy, "config.json"), "w") as f:
                    json.dump(changed(config, path, other), f)
                n += 1
                why = fault(binary, copy, path[-1], attention, both)
                if why and (path[-1], other) not in KNOWN:
                    failed.append(f"{'.'.join(path)} {json.dumps(value):.20s} -> {json.dumps(other):.20s}: {why}")
    return n, failed


def report(binary, vectors, attention):
    """Prints a line a model and what failed; how many changes failed. attention: by the names of the models."""
    import transformers
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    total, wrong = 0, 0
    for kind in ("models", "encoders"):
        for name in sorted(os.listdir(os.path.join(vectors, kind))):
            folder = os.path.join(vectors, kind, name)
            if name not in attention or not os.path.isdir(folder):
                continue
            n, failed = check_model(binary, folder, attention[name])
            print(f"{name:22s} {f'{n} changes' if n else 'not judged'}", flush=True)
            for line in failed:
                print("    " + line, flush=True)
            total, wrong = total + n, wrong + len(failed)
    print(f"{total} changes, {wrong} failures")
    return wrong
