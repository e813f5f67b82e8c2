"""Other containers and spellings of the tiny encoders, and the small ones that are committed.

A variant is a folder `<case>@<variant>` of the same form as a case (oracle_encoders.py):
    bert@old        names of 2018: LayerNorm.gamma and .beta, no prefix, a position_ids buffer, heads that nothing uses
    *@native        tensors named as the modules of transformers are; it saves these families in their first spelling
    *@gguf          GGUF with float32 matrices, tensors named by the gguf package

A committed folder has config.json, model.safetensors in float16 or bfloat16 (in turn; the weights are exact in it) and
expect.json: what is compared, ids, types, lengths (of texts that are the first ids), tolerance, and `values` of `rows`
of the result. tests/t_encoders.c reads it.
"""
import json
import os
import shutil

import gguf
import numpy as np
import safetensors.torch
import torch
import transformers

from oracle_cases import SMALL
from oracle_cases_enc import CASES, MASKED, SCORED

ROWS = (0, 1, 13, 40, SMALL.tokens - 1)


# ---------------------------------------------------------------- spellings

def old_bert(state):
    more = {"embeddings.position_ids": torch.arange(160)[None], "cls.seq_relationship.weight": torch.ones(2, 56),
            "cls.seq_relationship.bias": torch.ones(2), "cls.predictions.bias": torch.ones(97)}
    spelt = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
             for n, t in state.items()}
    return {**spelt, **more}


NATIVE = ("nomic-bare", "gte-bare", "jina3-bare")


# ---------------------------------------------------------------- GGUF

GGUF = {"bert-bare": gguf.MODEL_ARCH.BERT, "xlmr-scores": gguf.MODEL_ARCH.BERT,
        "nomic-bare": gguf.MODEL_ARCH.NOMIC_BERT,
        "jina3-bare": gguf.MODEL_ARCH.JINA_BERT_V3, "modernbert-thirds": gguf.MODEL_ARCH.MODERN_BERT,
        "eurobert-bare": gguf.MODEL_ARCH.EUROBERT}


POSITIONED = {"xlmr-scores": "bert"}    # stored as BERT: with its positions, served by its spec


def write_gguf(path, name, config, state):
    arch = GGUF[name]
    w = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    before = config["pad_token_id"] + 1 if name in POSITIONED else 0      # rows of the table before position 0
    w.add_context_length(config["max_position_embeddings"] - before)
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config.get("num_key_value_heads") or config["num_attention_heads"])
    w.add_vocab_size(config["vocab_size"])
    w.add_pooling_type(gguf.PoolingType.MEAN)
    w.add_causal_attention(False)
    eps = config.get("layer_norm_eps") or config.get("norm_eps")
    if eps:
        w.add_layer_norm_eps(eps)
    else:
        w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config.get("rope_parameters") or {}
    if "full_attention" in rope:
        w.add_rope_freq_base(rope["full_attention"]["rope_theta"])
        w.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        w.add_sliding_window(config["local_attention"])
    elif rope:
        w.add_rope_freq_base(rope["rope_theta"])
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    for tensor, t in state.items():
        if "pooler" in tensor:
            continue
        if name in POSITIONED:
            tensor = tensor.removeprefix("roberta.")
            t = t[before:] if "position_embeddings" in tensor else t
        to = names.get_name(tensor, try_suffixes=(".weight", ".bias"))
        if to is None:
            raise SystemExit(f"oracle: {name}: the gguf package has no name for {tensor}")
        w.add_tensor(to, np.ascontiguousarray(t.float().numpy()))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---------------------------------------------------------------- variants

def start(out, name, kind):
    base, folder = os.path.join(out, name), os.path.join(out, f"{name}@{kind}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for f in ("ids.json", "logits.npy", "reference.json"):
        shutil.copy(os.path.join(base, f), folder)
    return folder


def variants(out, name):
    base = os.path.join(out, name)
    state = safetensors.torch.load_file(os.path.join(base, "model.safetensors"))
    with open(os.path.join(base, "config.json")) as f:
        config = json.load(f)
    spelt = {}
    if name == "bert-bare":
        spelt["old"] = old_bert(state)
    if name in NATIVE:
        spelt["native"] = transformers.AutoModel.from_pretrained(base).state_dict()
    for kind, tensors in spelt.items():
        folder = start(out, name, kind)
        shutil.copy(os.path.join(base, "config.json"), folder)
        tensors = {n: t.contiguous() for n, t in tensors.items()}
        safetensors.torch.save_file(tensors, os.path.join(folder, "model.safetensors"))
    if name in GGUF:
        folder = start(out, name, "gguf")
        write_gguf(os.path.join(folder, "model.gguf"), name, config, state)
        with open(os.path.join(folder, "reference.json")) as f:
            facts = json.load(f)
        with open(os.path.join(folder, "reference.json"), "w") as f:
            json.dump(dict(facts, model="model.gguf", spec=POSITIONED.get(name, facts["spec"])), f)


# ---------------------------------------------------------------- committed

COMMITTED = ("bert", "bert-scores", "bert-bare", "bert-single", "roberta", "roberta-head", "roberta-scores",
             "roberta-xl", "roberta-pre", "ernie", "albert", "albert-scores", "albert-groups", "electra",
             "electra-scores", "electra-wide", "distilbert", "distilbert-scores", "mpnet", "mpnet-bare", "nomic",
             "nomic-bare", "gte", "gte-untyped", "jina3", "jina3-bare", "modernbert", "modernbert-thirds",
             "modernbert-biases", "eurobert", "eurobert-scores", "eurobert-bos")

def number(x):
    return float(f"{float(x):.7g}")


def write_vector(name, out):
    from oracle_encoders import LENGTHS, draw_case
    dtype = (torch.float16, torch.bfloat16)[list(CASES).index(name) % 2]
    model, ids, result, facts = draw_case(name, size=SMALL, through=lambda p: p.to(dtype))
    texts = 0 if CASES[name].auto == MASKED else len(LENGTHS)
    rows = list(range(texts)) + ([] if CASES[name].auto == SCORED else [texts + r for r in ROWS])
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model.to(dtype).save_pretrained(folder)
    expect = dict(what=facts["what"], ids=ids, types=facts["types"], lengths=LENGTHS,
                  tolerance=number(facts["tolerance"]), rows=rows,
                  values=[[number(x) for x in result[r]] for r in rows])
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    with open(os.path.join(folder, "expect.json"), "w") as f:
        f.write("{" + ",\n ".join(f'"{k}": {json.dumps(v)}' for k, v in expect.items()) + "}\n")
    return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
