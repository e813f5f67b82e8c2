"""Families whose code lies beside their weights on the hub, so that transformers has no class for them.

Each is computed by an equivalent class of transformers, changed where needed by `build`, and then written under the
family's own tensor names and configuration keys (`layout`): what is fused, transposed, scaled or called otherwise in
its files is so here. Sources are the configurations and tensor lists of the published models, and the papers named
in the specs.
"""
import copy
import math
import re

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.llama.modeling_llama import repeat_kv
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer


# ---------------------------------------------------------------- what transformers' classes lack

def alibi_slopes(heads):
    """2^(-8 k / n) for the power of two n below the number of heads, then every other one of 2 n."""
    below = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (k + 1) / below) for k in range(below)]
    return slopes + [2 ** (-4 * (2 * k + 1) / below) for k in range(heads - below)]


def alibi_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
    """Attention with linear biases (arXiv 2108.12409) in place of the class's own."""
    key, value = (repeat_kv(x, module.num_key_value_groups) for x in (key, value))
    slopes = torch.tensor(alibi_slopes(query.shape[1]), dtype=query.dtype)[None, :, None, None]
    scores = query @ key.transpose(2, 3) * scaling + slopes * torch.arange(key.shape[2], dtype=query.dtype)
    weights = torch.softmax(scores + attention_mask, dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


AttentionInterface.register("alibi", alibi_attention)
AttentionMaskInterface.register("alibi", eager_mask)


def without_rope(model):
    for name in ("inv_freq", "original_inv_freq"):
        getattr(model.model.rotary_emb, name).zero_()


class UnitLinear(nn.Linear):
    """Baichuan 2's head: rows are normalised when it is used, not in the file."""

    def forward(self, x):
        return nn.functional.linear(x, nn.functional.normalize(self.weight))


def unit_head(model):
    model.lm_head = UnitLinear(model.config.hidden_size, model.config.vocab_size, bias=False)


class ScaledEmbedding(nn.Embedding):
    scale = 2.3

    def forward(self, ids):
        return super().forward(ids) * self.scale


class ScaledLinear(nn.Linear):
    scale = 0.6

    def forward(self, x):
        return super().forward(x) * self.scale


def jais(model):
    """Llama with layer norms, biases, alibi, scores over d, scaled embeddings and logits."""
    c = model.config
    without_rope(model)
    norm = lambda: nn.LayerNorm(c.hidden_size, eps=c.rms_norm_eps)
    for layer in model.model.layers:
        layer.input_layernorm, layer.post_attention_layernorm = norm(), norm()
        layer.self_attn.scaling = 1 / layer.self_attn.head_dim
    model.model.norm = norm()
    model.model.embed_tokens = ScaledEmbedding(c.vocab_size, c.hidden_size)
    model.lm_head = ScaledLinear(c.hidden_size, c.vocab_size, bias=False)
    model.tie_weights()


OPENELM_HEADS, OPENELM_KV, OPENELM_FFN = (4, 6, 6), (2, 2, 3), (0.9, 1.3, 1.7)


def divisible(v, by):
    """v rounded to a multiple of `by`, but not down by more than a tenth."""
    near = max(by, int(v + by / 2) // by * by)
    return near + by if near < 0.9 * v else near


def openelm(model):
    """Qwen 3 whose layers have other numbers of heads and widths."""
    for i in range(len(model.model.layers)):
        c = copy.deepcopy(model.config)
        c.num_attention_heads, c.num_key_value_heads = OPENELM_HEADS[i], OPENELM_KV[i]
        c.intermediate_size = divisible(OPENELM_FFN[i] * c.hidden_size, 16)
        model.model.layers[i] = Qwen3DecoderLayer(c, i)


# ---------------------------------------------------------------- layouts: (configuration, tensors) to the family's own

def renamed(state, *pairs):
    """Every tensor's name with the patterns replaced, one after the other."""
    out = {}
    for name, t in state.items():
        for pattern, new in pairs:
            name = re.sub(pattern, new, name)
        out[name] = t
    return out


def fused(state, parts, into, join=torch.cat):
    """Tensors whose names differ in one of `parts` only become one under `into`."""
    out = {}
    for name, t in state.items():
        part = next((p for p in parts if p in name), None)
        if part is None:
            out[name] = t
        elif part == parts[0]:
            out[name.replace(part, into)] = join([state[name.replace(part, p)] for p in parts])
    return out


def by_group(groups):
    """Joins q, k, v so that each key/value head comes after the query heads that use it."""
    return lambda qkv: torch.cat([t.reshape(groups, -1, *t.shape[1:]) for t in qkv], dim=1).reshape(-1,
                                                                                                    *qkv[0].shape[1:])


QKV = ("q_proj", "k_proj", "v_proj")
KEPT = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "rms_norm_eps", "intermediate_size",
        "hidden_act", "bos_token_id", "eos_token_id", "tie_word_embeddings")


def named(c, architecture, model_type, keep=KEPT, **more):
    """A configuration with the architecture's name, the usual keys and what else is given."""
    return {**dict(architectures=[architecture], model_type=model_type, auto_map={}, transformers_version="4.30.0"),
            **{k: c[k] for k in keep}, **more}


def old_rope(c):
    """rope_theta and rope_scaling of rope_parameters."""
    rope = dict(c["rope_parameters"])
    theta, kind = rope.pop("rope_theta"), rope.pop("rope_type")
    return dict(rope_theta=theta, **({} if kind == "default" else dict(rope_scaling=dict(type=kind, **rope))))


def baichuan_7b(c, state):
    return (named(c, "BaiChuanForCausalLM", "baichuan", max_position_embeddings=c["max_position_embeddings"]),
            fused(state, QKV, "W_pack"))


def baichuan_13b(c, state):
    return (named(c, "BaichuanForCausalLM", "baichuan", model_max_length=c["max_position_embeddings"]),
            fused(state, QKV, "W_pack"))


def baichuan2(c, state):
    return (named(c, "BaichuanForCausalLM", "baichuan", max_position_embeddings=c["max_position_embeddings"],
                  model_max_length=c["max_position_embeddings"], z_loss_weight=0), fused(state, QKV, "W_pack"))


def internlm(c, state):
    rope = c["rope_parameters"]
    rotary = dict(base=rope["rope_theta"], type="origin")
    if rope["rope_type"] == "dynamic":
        rotary.update(type="dynamic", scaling_factor=rope["factor"])
    return (named(c, "InternLMForCausalLM", "internlm", max_position_embeddings=c["max_position_embeddings"],
                  bias=c["attention_bias"], rotary=rotary), state)


def internlm2(c, state):
    kv = c["num_key_value_heads"]
    state = fused(state, QKV, "wqkv", by_group(kv))
    return (named(c, "InternLM2ForCausalLM", "internlm2", max_position_embeddings=c["max_position_embeddings"],
                  num_key_value_heads=kv, bias=c["attention_bias"], **old_rope(c)),
            renamed(state, (r"self_attn\.", "attention."), (r"o_proj", "wo"), (r"input_layernorm", "attention_norm"),
                    (r"post_attention_layernorm", "ffn_norm"), (r"mlp\.gate_proj", "feed_forward.w1"),
                    (r"mlp\.up_proj", "feed_forward.w3"), (r"mlp\.down_proj", "feed_forward.w2"),
                    (r"embed_tokens", "tok_embeddings"), (r"lm_head", "output")))


def as_llama(architecture, model_type, **more):
    """A family whose tensors are called as Llama's."""
    def layout(c, state):
        return (named(c, architecture, model_type, num_key_value_heads=c["num_key_value_heads"],
                      max_position_embeddings=c["max_position_embeddings"], **old_rope(c), **more), state)
    return layout


def yi(c, state):
    return (as_llama("YiForCausalLM", "Yi")(c, state)[0],
            renamed(state, (r"input_layernorm", "ln1"), (r"post_attention_layernorm", "ln2")))


def orion(c, state):
    c = dict(c, rms_norm_eps=c["layer_norm_eps"])
    return (named(c, "OrionForCausalLM", "orion", num_key_value_heads=c["num_key_value_heads"],
                  max_position_embeddings=c["max_position_embeddings"], rope_theta=c["rope_parameters"]["rope_theta"],
                  rope_scaling=None, attention_bias=False), state)


def chatglm(c, state):
    """The base of the frequencies is 10000 times a ratio."""
    config = named(c, "ChatGLMModel", "chatglm", ("hidden_size", "num_attention_heads", "eos_token_id",
                                                  "tie_word_embeddings"),
                   padded_vocab_size=c["vocab_size"], num_layers=c["num_hidden_layers"], kv_channels=c["head_dim"],
                   multi_query_attention=True, multi_query_group_num=c["num_key_value_heads"],
                   ffn_hidden_size=c["intermediate_size"], layernorm_epsilon=c["rms_norm_eps"], rmsnorm=True,
                   add_qkv_bias=c["attention_bias"], add_bias_linear=False, post_layer_norm=True,
                   apply_residual_connection_post_layernorm=False, seq_length=c["max_position_embeddings"],
                   rope_ratio=c["rope_parameters"]["rope_theta"] / 10000)
    state = fused(state, QKV, "query_key_value")
    return config, renamed(
        state, (r"^model\.layers", "transformer.encoder.layers"), (r"self_attn\.o_proj", "self_attention.dense"),
        (r"self_attn\.", "self_attention."), (r"gate_up_proj", "dense_h_to_4h"), (r"down_proj", "dense_4h_to_h"),
        (r"^model\.embed_tokens", "transformer.embedding.word_embeddings"), (r"^lm_head", "transformer.output_layer"),
        (r"^model\.norm", "transformer.encoder.final_layernorm"))


def minicpm(c, state):
    """The factors of Granite, said by the sizes of the small model that the settings were found with."""
    return (named(c, "MiniCPMForCausalLM", "minicpm", num_key_value_heads=c["num_key_value_heads"],
                  max_position_embeddings=c["max_position_embeddings"], scale_emb=c["embedding_multiplier"],
                  scale_depth=c["residual_multiplier"] * math.sqrt(c["num_hidden_layers"]),
                  dim_model_base=c["hidden_size"] / c["logits_scaling"], **old_rope(c)), state)


def exaone(c, state):
    config = named(c, "ExaoneForCausalLM", "exaone", ("vocab_size", "hidden_size", "num_attention_heads",
                                                      "intermediate_size", "eos_token_id", "tie_word_embeddings"),
                   num_layers=c["num_hidden_layers"], num_key_value_heads=c["num_key_value_heads"],
                   activation_function=c["hidden_act"], layer_norm_epsilon=c["rms_norm_eps"],
                   head_dim=c["head_dim"], max_position_embeddings=c["max_position_embeddings"], **old_rope(c))
    return config, renamed(
        state, (r"^model\.layers", "transformer.h"), (r"self_attn\.o_proj", "attn.attention.out_proj"),
        (r"self_attn\.", "attn.attention."), (r"input_layernorm", "ln_1"), (r"post_attention_layernorm", "ln_2"),
        (r"gate_proj", "c_fc_0"), (r"up_proj", "c_fc_1"), (r"down_proj", "c_proj"),
        (r"^model\.embed_tokens", "transformer.wte"), (r"^model\.norm", "transformer.ln_f"))


def jais_layout(c, state):
    config = dict(architectures=["JAISLMHeadModel"], model_type="jais", vocab_size=c["vocab_size"],
                  n_embd=c["hidden_size"], n_layer=c["num_hidden_layers"], n_head=c["num_attention_heads"],
                  n_inner=c["intermediate_size"], n_positions=c["max_position_embeddings"],
                  layer_norm_epsilon=c["rms_norm_eps"], activation_function="swiglu", position_embedding_type="alibi",
                  scale_attn_weights=True, tie_word_embeddings=c["tie_word_embeddings"],
                  eos_token_id=c["eos_token_id"], mup_embeddings_scale=ScaledEmbedding.scale, mup_output_alpha=1.2,
                  mup_width_scale=ScaledLinear.scale / 1.2, mup_scale_qk_dot_by_d=True)
    state = renamed(
        fused(state, QKV, "c_attn"), (r"^model\.layers", "transformer.h"), (r"self_attn\.o_proj", "attn.c_proj"),
        (r"self_attn\.", "attn."), (r"input_layernorm", "ln_1"), (r"post_attention_layernorm", "ln_2"),
        (r"gate_proj", "c_fc2"), (r"up_proj", "c_fc"), (r"down_proj", "c_proj"),
        (r"^model\.embed_tokens", "transformer.wte"), (r"^model\.norm", "transformer.ln_f"))
    across = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight", ".c_fc2.weight")
    return config, {n: t.T.contiguous() if n.endswith(across) else t for n, t in state.items()}


def openelm_layout(c, state):
    layers = c["num_hidden_layers"]
    config = dict(architectures=["OpenELMForCausalLM"], model_type="openelm", vocab_size=c["vocab_size"],
                  model_dim=c["hidden_size"], num_transformer_layers=layers, head_dim=c["head_dim"],
                  num_query_heads=list(OPENELM_HEADS[:layers]), num_kv_heads=list(OPENELM_KV[:layers]),
                  ffn_multipliers=list(OPENELM_FFN[:layers]), ffn_dim_divisor=16, ffn_with_glu=True,
                  activation_fn_name="swish", normalization_layer_name="rms_norm", normalize_qk_projections=True,
                  share_input_output_layers=True, max_context_length=c["max_position_embeddings"],
                  rope_freq_constant=c["rope_parameters"]["rope_theta"], rope_max_length=4096,
                  bos_token_id=c["bos_token_id"], eos_token_id=c["eos_token_id"])
    state = fused(fused(state, QKV, "qkv_proj"), ("gate_proj", "up_proj"), "proj_1")
    return config, renamed(
        state, (r"^model\.", "transformer."), (r"embed_tokens", "token_embeddings"), (r"self_attn", "attn"),
        (r"o_proj", "out_proj"), (r"input_layernorm", "attn_norm"), (r"post_attention_layernorm", "ffn_norm"),
        (r"mlp\.", "ffn."), (r"down_proj", "proj_2"))
