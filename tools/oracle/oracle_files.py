"""The same tiny models in every container: pickles, shards, half precision, GGUF.

Each variant is a folder `<case>@<variant>` of the same form as a case (see oracle_model.py); where weights lose bits,
the expected results are computed by transformers from the weights as stored, widened to float32.
"""
import dataclasses
import os
import re
import shutil

import gguf
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM

from oracle_encoder_files import ENCODERS, POSITIONED, spellings, write_encoder
from oracle_gguf import FILES, OTHER_SPECS, implied, write_gguf
from oracle_model import draw_case, read_json, write_expected, write_json
from oracle_table import CASES

PICKLED = ("llama", "gpt2")            # families whose containers are varied
PREFIXED = {"gpt2": "transformer.", "bloom": "transformer.", "falcon-7b": "transformer.", "opt-125m": "model.",
            "llama-tied": "model."}    # checkpoints on the hub that lack the prefix


def save_pickle(folder, state, zipped=True, name="pytorch_model.bin"):
    torch.save(state, os.path.join(folder, name), _use_new_zipfile_serialization=zipped)


def shards(state, count=3):
    """The state dict cut into `count` parts of about equal bytes, in order."""
    total, done, parts = sum(t.numel() for t in state.values()), 0, [{} for _ in range(count)]
    for name, t in state.items():
        parts[min(count - 1, done * count // total)][name] = t
        done += t.numel()
    return parts


def save_sharded(folder, state, stem, suffix, save):
    parts = shards(state)
    where = {}
    for i, part in enumerate(parts):
        file = f"{stem}-{i + 1:05d}-of-{len(parts):05d}.{suffix}"
        save(part, os.path.join(folder, file))
        where.update({name: file for name in part})
    size = sum(t.numel() * t.element_size() for t in state.values())
    write_json(os.path.join(folder, f"{stem}.{suffix}.index.json"),
               dict(metadata=dict(total_size=size), weight_map=where))


def save_tensors(part, path):
    safetensors.torch.save_file(part, path, metadata=dict(format="pt"))


def as_type(state, dtype):
    return {name: t.to(dtype) for name, t in state.items()}


def with_clutter(state, layers):
    """Buffers old checkpoints carry and readers ignore."""
    extra = {}
    for i in range(layers):
        extra[f"h.{i}.attn.bias"] = torch.ones(1, 1, 8, 8, dtype=torch.uint8)
        extra[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return dict(state, **extra)


def stored_state(folder):
    """What save_pretrained wrote: tied tensors once."""
    return safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))


def start(out, name, variant, config_from):
    folder = os.path.join(out, f"{name}@{variant}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if config_from:
        shutil.copy(os.path.join(config_from, "config.json"), folder)
    return folder


def copy_expected(folder, base, **more):
    for f in ("ids.json", "logits.npy", "hidden.npy", "greedy.json"):
        if os.path.exists(os.path.join(base, f)):
            shutil.copy(os.path.join(base, f), folder)
    facts = dict(read_json(base, "reference.json"), name=os.path.basename(folder), **more)
    write_json(os.path.join(folder, "reference.json"), facts)


def containers(out, name):
    """Variants whose weights are those of the case itself, bit for bit."""
    base = os.path.join(out, name)
    state = stored_state(base)
    layers = 1 + max(int(m.group(1)) for m in (re.search(r"\.(\d+)\.", n) for n in state) if m)
    writers = {}
    if name in PICKLED:
        writers = {"pickle": lambda f: save_pickle(f, state), "legacy": lambda f: save_pickle(f, state, zipped=False),
                   "shards": lambda f: save_sharded(f, state, "model", "safetensors", save_tensors),
                   "pickle-shards": lambda f: save_sharded(f, state, "pytorch_model", "bin", torch.save)}
    if name in PREFIXED:
        bare = {n.removeprefix(PREFIXED[name]): t for n, t in state.items()}
        if name == "gpt2":
            bare = with_clutter(bare, layers)
        writers["bare"] = lambda f: save_tensors(bare, os.path.join(f, "model.safetensors"))
    for kind, write in writers.items():
        folder = start(out, name, kind, base)
        write(folder)
        copy_expected(folder, base)
        yield folder


def own_head(out, name):
    """A head of other values in the file of a model whose configuration says that it is tied: transformers uses it."""
    base, case = os.path.join(out, name), CASES[name]
    folder, state = start(out, name, "own-head", base), stored_state(base)
    table = next(t for n, t in state.items() if n.endswith("embed_tokens.weight"))
    head = torch.randn(table.shape, generator=torch.Generator().manual_seed(5)) * 3 / table.shape[1] ** 0.5
    save_tensors(dict(state, **{"lm_head.weight": head}), os.path.join(folder, "model.safetensors"))
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=case.attention).float().eval()
    assert torch.equal(model.lm_head.weight, head) and model.config.tie_word_embeddings
    write_expected(folder, case, model, read_json(base, "ids.json"))
    return folder


def halves(out, name):
    """Weights in float16 and bfloat16, stored as tensors and as a pickle."""
    for kind, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        model, ids, _, _ = draw_case(name, dtype=dtype)
        folder = start(out, name, kind, None)
        model.config.dtype = dtype
        model.save_pretrained(folder)
        state = as_type(stored_state(folder), dtype)
        os.remove(os.path.join(folder, "model.safetensors"))
        if kind == "f16":
            save_tensors(state, os.path.join(folder, "model.safetensors"))
        else:
            save_pickle(folder, state)
        write_expected(folder, CASES[name], model, ids)
        yield folder


def ggufs(out, name):
    """GGUF with float32 matrices, for `llama` also float16 and Q8_0 (whose decoded values the reference gets)."""
    kinds = [("gguf", None)]
    if name == "llama":
        kinds += [("gguf-f16", gguf.GGMLQuantizationType.F16), ("gguf-q8_0", gguf.GGMLQuantizationType.Q8_0)]
    for kind, to_type in kinds:
        over = implied(name)
        if kind == "gguf-q8_0":
            over = dict(over, hidden_size=64, intermediate_size=96, head_dim=16)
        model, ids, _, _ = draw_case(name, over=over, through=stored_as(to_type))
        folder = start(out, name, kind, None)
        write_gguf(os.path.join(folder, "model.gguf"), model, name, to_type)
        case = dataclasses.replace(CASES[name], spec=OTHER_SPECS.get(name, CASES[name].spec))
        write_expected(folder, case, model, ids, model="model.gguf")
        yield folder


def stored_as(to_type):
    """A function that gives a matrix the values a file of that type holds; None for float32."""
    if to_type is None:
        return None

    def change(p):
        if p.dim() != 2:
            return p
        packed = gguf.quants.quantize(p.detach().numpy(), to_type)
        return torch.from_numpy(gguf.quants.dequantize(packed, to_type).reshape(p.shape).copy())
    return change


def encoders(out, name):
    """Other spellings of an encoder, and GGUF."""
    base = os.path.join(out, name)
    state = stored_state(base)
    for kind, tensors in spellings(base, name, state).items():
        folder = start(out, name, kind, base)
        save_tensors({n: t.contiguous() for n, t in tensors.items()}, os.path.join(folder, "model.safetensors"))
        copy_expected(folder, base)
        yield folder
    if name in ENCODERS:
        folder = start(out, name, "gguf", None)
        write_encoder(os.path.join(folder, "model.gguf"), name, read_json(base, "config.json"), state)
        copy_expected(folder, base, model="model.gguf", spec=POSITIONED.get(name, CASES[name].spec))
        yield folder


def variants(out, name):
    """Writes all variants of a case, one after the other; yields their folders."""
    if CASES[name].auto:
        yield from encoders(out, name)
        return
    yield from containers(out, name)
    if name == "llama-tied":
        yield own_head(out, name)
    if name in PICKLED:
        yield from halves(out, name)
    if name in FILES:
        yield from ggufs(out, name)
