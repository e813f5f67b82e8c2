"""Spellings of the tiny encoders that other files have, and their GGUF.

    bert@old        names of 2018: LayerNorm.gamma and .beta, no prefix, a position_ids buffer, heads that nothing uses
    *@native        tensors named as the modules of transformers are; it saves these families in their first spelling
    *@gguf          GGUF with float32 matrices, tensors named by the gguf package
"""
import gguf
import numpy as np
import torch
import transformers

from oracle_gguf import close


def old_names(state):
    return {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
            for n, t in state.items()}


def old_bert(state):
    more = {"embeddings.position_ids": torch.arange(160)[None], "cls.seq_relationship.weight": torch.ones(2, 56),
            "cls.seq_relationship.bias": torch.ones(2), "cls.predictions.bias": torch.ones(97)}
    return {**old_names(state), **more}


NATIVE = ("nomic-bare", "gte-bare", "jina3-bare")


def spellings(base, name, state):
    """{variant: tensors}"""
    if name == "bert-bare":
        return dict(old=old_bert(state))
    return dict(native=transformers.AutoModel.from_pretrained(base).state_dict()) if name in NATIVE else {}


ENCODERS = {"bert-bare": gguf.MODEL_ARCH.BERT, "xlmr-scores": gguf.MODEL_ARCH.BERT,
            "nomic-bare": gguf.MODEL_ARCH.NOMIC_BERT, "jina3-bare": gguf.MODEL_ARCH.JINA_BERT_V3,
            "modernbert-thirds": gguf.MODEL_ARCH.MODERN_BERT, "eurobert-bare": gguf.MODEL_ARCH.EUROBERT}
POSITIONED = {"xlmr-scores": "bert"}    # stored as BERT: with its positions, served by its spec


def write_encoder(path, name, config, state):
    arch = ENCODERS[name]
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
    close(w)
