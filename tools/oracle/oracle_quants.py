#!/usr/bin/env python3
"""oracle_quants.py - quantized folders of the hub: each layout written by its published description, and judged.

    oracle_quants.py [NAME...]          all layouts and refusals, or those that match a pattern
    oracle_quants.py --list
    oracle_quants.py --vectors tests/vectors/stored     the matrices that the tests read

A layout is a row of LAYOUTS: a tiny model, what becomes of each of its matrices (tensors to store, and the numbers
they stand for, in double), and what config.json or hf_quant_config.json says. transformers computes with the decoded
numbers in double; the engine reads the folder. Logits of 5, 20 and 70 random ids within 3e-5 of the largest, 32 greedy
tokens; the same bits in chunks, over threads and on two devices, with float and with int8 activations; what a packed
type holds takes at most 1.05 of the file's bytes; and a GGUF file that is exported gives the logits, and is as small
where GGUF has the type.
"""
import argparse
import fnmatch
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

TOKENS = (5, 20, 70)
BAR, MEMORY = 3e-5, 1.05
FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                0.7229568362236023, 1.0], np.float32).astype(np.float64)


def torch():
    import torch
    return torch


# ---- numbers of few bits

def e4m3(x):
    """(bytes, what they stand for) of the nearest FP8 numbers."""
    t = torch()
    f8 = t.tensor(np.clip(x, -448, 448), dtype=t.float32).to(t.float8_e4m3fn)
    return f8, f8.double().numpy()


def as_type(x, name):
    """A torch tensor of that type, and its values."""
    t = torch().tensor(np.asarray(x, np.float64), dtype=torch().float64).to(getattr(torch(), name))
    return t, t.double().numpy()


def bytes_of(a):
    return torch().tensor(np.ascontiguousarray(a).astype(np.uint8))


def words_of(a):
    return torch().tensor(np.ascontiguousarray(a.astype(np.uint32)).view(np.int32))


def nearest(x, levels):
    return np.abs(x[..., None] - levels).argmin(-1)


def spread(a, rows, cols, shape):
    """A block's number for each weight: blocks of rows x cols, the last ones cut."""
    return np.repeat(np.repeat(a, rows, 0), cols, 1)[:shape[0], :shape[1]]


# ---- FP8

def blocks_max(w, rows, cols):
    n, k = -(-w.shape[0] // rows), -(-w.shape[1] // cols)
    wide = np.zeros((n * rows, k * cols))
    wide[:w.shape[0], :w.shape[1]] = np.abs(w)
    return wide.reshape(n, rows, k, cols).max((1, 3))


def fp8(rows, cols, scale_name="weight_scale", scale_type="float32", shape=None, more=()):
    def encode(name, w, rng):
        r, c = rows or w.shape[0], cols or w.shape[1]
        scale, value = as_type(blocks_max(w, r, c) / 448, scale_type)
        f8, levels = e4m3(w / spread(value, r, c, w.shape))
        stored = {"weight": f8, scale_name: scale if shape is None else scale.reshape(shape(scale))}
        stored.update({m: torch().tensor(0.5) for m in more})
        return stored, levels * spread(value, r, c, w.shape)
    return encode


# ---- four-bit floats

def pack_nibbles(q):
    return bytes_of(q[..., 0::2] | q[..., 1::2] << 4)


def nvfp4(packed, divides):
    def encode(name, w, rng):
        n, k = w.shape
        most = np.abs(w).reshape(n, k // 16, 16).max(-1)
        second = np.float64(np.float32(most.max() / (448 * 6)))
        scale, value = e4m3(most / 6 / second)
        factor = np.float32(1 / second if divides else second)
        one = value * (1 / np.float64(factor) if divides else np.float64(factor))
        q = nearest(w / np.maximum(np.repeat(one, 16, 1), 1e-12), FP4)
        names = ("weight_packed", "weight_scale", "weight_global_scale") if packed else ("weight", "weight_scale",
                                                                                        "weight_scale_2")
        f = torch().tensor([factor]) if divides else torch().tensor(factor)
        return dict(zip(names, (pack_nibbles(q), scale, f))), FP4[q] * np.repeat(one, 16, 1)
    return encode


def mx_codes(w):
    """Codes and exponents of blocks of 32 along the last axis."""
    most = np.abs(w).reshape(*w.shape[:-1], -1, 32).max(-1)
    e = np.clip(np.floor(np.log2(np.maximum(most, 1e-30))) - 2, -127, 127).astype(int)
    by = np.repeat(2.0 ** e, 32, -1)
    q = nearest(w / by, FP4)
    return q, e + 127, FP4[q] * by


def mxfp4(name, w, rng):
    q, e, value = mx_codes(w)
    return dict(weight_packed=pack_nibbles(q), weight_scale=bytes_of(e)), value


def mxfp4_experts(name, w, rng):
    """gpt-oss: w is [experts, inputs, outputs]; stored by outputs."""
    q, e, value = mx_codes(w.transpose(0, 2, 1))
    blocks = (q[..., 0::2] | q[..., 1::2] << 4).reshape(*q.shape[:2], -1, 16)
    return {"_blocks": bytes_of(blocks), "_scales": bytes_of(e)}, value.transpose(0, 2, 1)


# ---- integers

def int_codes(w, bits, group, sym, scale_type, order=None, rng=None):
    """Codes [n, k], zeros and scales [n, groups], the numbers. order: the group of each column."""
    n, k = w.shape
    group = k if group == -1 else group
    of = np.arange(k) // group if order is None else order
    groups, top = int(of.max()) + 1, 2 ** bits - 1
    q, zero, scale, value = np.zeros((n, k), int), np.zeros((n, groups), int), np.zeros((n, groups)), np.zeros((n, k))
    for g in range(groups):
        part = w[:, of == g]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if sym:
            high = np.maximum(-low, high)
            low = -high
        scale[:, g] = np.maximum((high - low) / top, 1e-6)
    stored, scale = as_type(scale, scale_type)
    for g in range(groups):
        part = w[:, of == g]
        low = np.minimum(part.min(1), 0)
        zero[:, g] = 2 ** (bits - 1) if sym else np.clip(np.rint(-low / scale[:, g]), 1, top)
        q[:, of == g] = np.clip(np.rint(part / scale[:, g:g + 1]) + zero[:, g:g + 1], 0, top)
        value[:, of == g] = (q[:, of == g] - zero[:, g:g + 1]) * scale[:, g:g + 1]
    return q, zero, stored, value


def pack_stream(q, bits):
    """Codes along the last axis as one stream of bits, lowest first, in words of 32."""
    n = q.shape[-1] * bits // 32
    out = np.zeros((*q.shape[:-1], n), np.uint64)
    for i in range(q.shape[-1]):
        word, at = i * bits // 32, i * bits % 32
        out[..., word] |= (q[..., i].astype(np.uint64) << np.uint64(at)) & np.uint64(0xffffffff)
        if at + bits > 32:
            out[..., word + 1] |= q[..., i].astype(np.uint64) >> np.uint64(32 - at)
    return out.astype(np.uint32)


def gptq(bits, group, sym=True, v2=False, order=False, scale_type="float16"):
    def encode(name, w, rng):
        n, k = w.shape
        of = np.arange(k) // (k if group == -1 else group)
        if order:
            of = rng.permutation(of)
        q, zero, scale, value = int_codes(w, bits, group, sym, scale_type, of)
        held = (zero - (0 if v2 else 1)) & (2 ** bits - 1)
        return dict(qweight=words_of(pack_stream(q.T.copy().T, bits).T), qzeros=words_of(pack_stream(held.T, bits)),
                    scales=scale.T.contiguous(), g_idx=torch().tensor(of.astype(np.int32))), value
    return encode


def awq(group):
    def encode(name, w, rng):
        q, zero, scale, value = int_codes(w, 4, group, False, "float16")
        order = [0, 2, 4, 6, 1, 3, 5, 7]

        def pack(a):
            a = a.reshape(a.shape[0], -1, 8)[:, :, order]
            return words_of(sum(a[:, :, i].astype(np.uint32) << np.uint32(4 * i) for i in range(8)))
        return dict(qweight=pack(q.T), qzeros=pack(zero.T), scales=scale.T.contiguous()), value
    return encode


def ct_ints(bits, group, sym=True, order=False, scale_type="bfloat16"):
    def encode(name, w, rng):
        n, k = w.shape
        of = np.arange(k) // (k if group == -1 else group)
        if order:
            of = rng.permutation(of)
        q, zero, scale, value = int_codes(w, bits, group, sym, scale_type, of)
        each = 32 // bits

        def pack(a):
            a = np.pad(a, ((0, 0), (0, -a.shape[1] % each))).reshape(a.shape[0], -1, each)
            return words_of(sum(a[:, :, i].astype(np.uint32) << np.uint32(bits * i) for i in range(each)))
        stored = dict(weight_packed=pack(q), weight_scale=scale, weight_shape=torch().tensor([n, k]))
        if not sym:
            stored["weight_zero_point"] = words_of(pack(zero.T).numpy().view(np.uint32).T)
        if order:
            stored["weight_g_idx"] = torch().tensor(of.astype(np.int32))
        return stored, value
    return encode


def ct_int8(name, w, rng):
    scale, value = as_type(np.abs(w).max(1, keepdims=True) / 127, "float32")
    q = np.clip(np.rint(w / value), -128, 127)
    return dict(weight=torch().tensor(q.astype(np.int8)), weight_scale=scale), q * value


def bnb_int8(name, w, rng):
    scale, value = as_type(np.abs(w).max(1), "float32")
    q = np.rint(w * 127 / value[:, None])
    return dict(weight=torch().tensor(q.astype(np.int8)), SCB=scale,
                weight_format=torch().tensor(0, dtype=torch().uint8)), q * value[:, None] / 127


def bnb_nf4(nested):
    def encode(name, w, rng):
        flat = w.reshape(-1, 64)
        most = np.abs(flat).max(1)
        state = dict(quant_type="nf4", blocksize=64, dtype="bfloat16", shape=list(w.shape))
        more = {}
        if nested:
            code = np.sort(np.concatenate([-np.logspace(-3, 0, 128), np.logspace(-3, 0, 128)])).astype(np.float32)
            offset = np.float32(most.mean())
            state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=float(offset))
            wide = np.zeros(-(-len(most) // 256) * 256)
            wide[:len(most)] = most - offset
            inner = np.abs(wide.reshape(-1, 256)).max(1).astype(np.float32)
            q = nearest(wide / np.repeat(inner, 256).astype(np.float64), code.astype(np.float64))[:len(most)]
            most = code[q].astype(np.float64) * np.repeat(inner, 256)[:len(most)] + np.float64(offset)
            more = {"weight.absmax": bytes_of(q), "weight.nested_absmax": torch().tensor(inner),
                    "weight.nested_quant_map": torch().tensor(code)}
        else:
            most = most.astype(np.float32).astype(np.float64)
            more = {"weight.absmax": torch().tensor(most.astype(np.float32))}
        q = nearest(flat / np.maximum(most[:, None], 1e-12), NF4)
        text = np.frombuffer(json.dumps(state).encode(), np.uint8)
        packed = (q.reshape(-1)[0::2] << 4 | q.reshape(-1)[1::2]).reshape(-1, 1)
        stored = {"weight": bytes_of(packed), "weight.quant_map": torch().tensor(NF4.astype(np.float32)),
                  "weight.quant_state.bitsandbytes__nf4": bytes_of(text), **more}
        return stored, (NF4[q] * most[:, None]).reshape(w.shape)
    return encode


def bitnet(divides):
    def encode(name, w, rng):
        n = w.shape[0]
        mean = np.abs(w).mean()
        scale, value = as_type([1 / mean if divides else mean], "bfloat16")
        q = np.clip(np.rint(w / mean), -1, 1)
        u = (q + 1).astype(np.uint8).reshape(4, n // 4, -1)
        packed = u[0] | u[1] << 2 | u[2] << 4 | u[3] << 6
        return dict(weight=bytes_of(packed), weight_scale=scale), q / value[0] if divides else q * value[0]
    return encode


# ---- models

def llama(hidden=256, ffn=384):
    return "LlamaConfig", dict(hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=2, num_attention_heads=4,
                               num_key_value_heads=2, vocab_size=199, head_dim=hidden // 4, bos_token_id=1,
                               eos_token_id=2, tie_word_embeddings=False)


def qwen3():
    return "Qwen3Config", {**llama()[1], "head_dim": 64}


def qwen3_moe():
    return "Qwen3MoeConfig", {**llama()[1], "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
                              "head_dim": 64}


def gpt_oss():
    return "GptOssConfig", dict(hidden_size=128, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                num_key_value_heads=2, head_dim=32, vocab_size=199, num_local_experts=4,
                                num_experts_per_tok=2, sliding_window=16, bos_token_id=1, eos_token_id=2,
                                layer_types=["sliding_attention", "full_attention"])


# ---- layouts: (model, [(pattern of names, encoder)], quantization_config, hf_quant_config.json, most memory or None)

ALL = r"(q|k|v|o|gate|up|down)_proj"
ATTN, FFN = r"(q|k|v|o)_proj", r"(gate|up|down)_proj"
column = lambda s: (s.shape[0], 1)
one = lambda s: (1,)
scalar = lambda s: ()


def ct(fmt, weights, **more):
    group = dict(targets=["Linear"], weights=weights, input_activations=None, output_activations=None)
    return dict(quant_method="compressed-tensors", format=fmt, config_groups=dict(group_0={**group, **more}),
                ignore=["lm_head"], kv_cache_scheme=None, quantization_status="compressed")


def ct_w(bits, kind, strategy, **more):
    return dict(num_bits=bits, type=kind, strategy=strategy, symmetric=True, dynamic=False, **more)


def gptq_config(bits, group, **more):
    return dict(quant_method="gptq", bits=bits, group_size=group, desc_act=False, sym=True, **more)


def modelopt(algo, **more):
    return dict(producer=dict(name="modelopt", version="0.33.0"),
                quantization=dict(quant_algo=algo, kv_cache_quant_algo="FP8", exclude_modules=["lm_head"], **more))


FP8 = dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3", weight_block_size=[128, 128])
BLOCKS = fp8(128, 128, "weight_scale_inv")
MIXED = {**ct("mixed-precision", None), "config_groups": dict(
    group_0=dict(targets=["re:.*self_attn.*"], format="float-quantized", weights=ct_w(8, "float", "channel")),
    group_1=dict(targets=["re:.*mlp.*"], format="nvfp4-pack-quantized",
                 weights=ct_w(4, "float", "tensor_group", group_size=16)))}


def row(model, encode, config=None, beside=None, memory=MEMORY):
    return model, [(ALL, encode)] if callable(encode) else encode, config, beside, memory


BNB4 = dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False, bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype="bfloat16", bnb_4bit_use_double_quant=False)
LAYOUTS = {
    "fp8-block": row(llama(), BLOCKS, FP8),
    "fp8-block-rest": row(llama(192, 320), BLOCKS, FP8, memory=None),
    "fp8-block-bf16": row(qwen3(), fp8(128, 128, "weight_scale_inv", "bfloat16"), FP8),
    "fp8-tensor": row(llama(), fp8(0, 0, "weight_scale_inv", shape=scalar, more=("activation_scale",)),
                      dict(quant_method="fp8", activation_scheme="static", weight_block_size=None)),
    "fp8-moe": row(qwen3_moe(), BLOCKS, FP8),
    "fp8-silent": row(qwen3(), BLOCKS),
    "fbgemm-fp8": row(llama(), fp8(1, 0), dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0)),
    "ct-fp8-tensor": row(llama(), fp8(0, 0, scale_type="bfloat16", shape=one, more=("input_scale",)),
                         ct("float-quantized", ct_w(8, "float", "tensor"))),
    "ct-fp8-channel": row(qwen3(), fp8(1, 0, scale_type="bfloat16", shape=column),
                          ct("float-quantized", ct_w(8, "float", "channel"))),
    "ct-fp8-block": row(llama(), fp8(128, 128), ct("float-quantized", ct_w(8, "float", "block",
                                                                           block_structure=[128, 128]))),
    "ct-fp8-naive": row(llama(), fp8(1, 0, shape=column), ct("naive-quantized", ct_w(8, "float", "channel"))),
    "modelopt-fp8": row(llama(), fp8(0, 0, shape=scalar, more=("input_scale",)), None, modelopt("FP8")),
    "modelopt-fp8-config": row(qwen3(), fp8(0, 0, shape=scalar, more=("input_scale", "k_scale")),
                               dict(quant_method="modelopt", **modelopt("FP8")["quantization"])),
    "modelopt-fp8-blocks": row(llama(), fp8(128, 128), None, modelopt("FP8_PB_WO")),
    "nvfp4": row(llama(), nvfp4(False, False), None, modelopt("NVFP4", group_size=16)),
    "nvfp4-config": row(qwen3(), nvfp4(False, False), dict(quant_method="modelopt", quant_algo="NVFP4",
                                                           producer=dict(name="modelopt"))),
    "nvfp4-moe": row(qwen3_moe(), nvfp4(False, False), None, modelopt("NVFP4", group_size=16)),
    "nvfp4-mixed": row(qwen3(), [(ATTN, fp8(0, 0, shape=scalar)), (FFN, nvfp4(False, False))], None,
                       modelopt("MIXED_PRECISION")),
    "ct-nvfp4": row(llama(), nvfp4(True, True), ct("nvfp4-pack-quantized", ct_w(4, "float", "tensor_group",
                                                                               group_size=16))),
    "ct-mixed": row(qwen3(), [(ATTN, fp8(1, 0, shape=column)), (FFN, nvfp4(True, True))], MIXED),
    "ct-mxfp4": row(llama(), mxfp4, ct("mxfp4-pack-quantized", ct_w(4, "float", "group", group_size=32))),
    "gpt-oss-mxfp4": row(gpt_oss(), [(r"(gate_up|down)_proj", mxfp4_experts)],
                         dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"])),
    "gptq-4-32": row(llama(), gptq(4, 32), gptq_config(4, 32), memory=None),
    "gptq-4-64": row(qwen3(), gptq(4, 64), gptq_config(4, 64)),
    "gptq-4-128": row(llama(), gptq(4, 128), gptq_config(4, 128)),
    "gptq-4-column": row(llama(), gptq(4, -1), gptq_config(4, -1)),
    "gptq-4-zeros": row(qwen3(), gptq(4, 128, sym=False), gptq_config(4, 128)),
    "gptq-4-v2": row(llama(), gptq(4, 128, sym=False, v2=True), gptq_config(4, 128, checkpoint_format="gptq_v2")),
    "gptq-4-order": row(llama(), gptq(4, 64, order=True), {**gptq_config(4, 64), "desc_act": True}),
    "gptq-4-bf16": row(llama(), gptq(4, 128, scale_type="bfloat16"), gptq_config(4, 128)),
    "gptq-2": row(llama(), gptq(2, 128, sym=False), gptq_config(2, 128)),
    "gptq-3": row(llama(), gptq(3, 128, sym=False), gptq_config(3, 128)),
    "gptq-8": row(llama(), gptq(8, 128), gptq_config(8, 128)),
    "gptq-moe": row(qwen3_moe(), gptq(4, 128), gptq_config(4, 128)),
    "awq-128": row(llama(), awq(128), dict(quant_method="awq", bits=4, group_size=128, zero_point=True,
                                           version="gemm")),
    "awq-32": row(qwen3(), awq(32), dict(quant_method="awq", bits=4, group_size=32, zero_point=True,
                                         version="gemm"), memory=None),
    "awq-moe": row(qwen3_moe(), awq(64), dict(quant_method="awq", bits=4, group_size=64, zero_point=True,
                                              version="gemm")),
    "ct-int4-128": row(llama(), ct_ints(4, 128), ct("pack-quantized", ct_w(4, "int", "group", group_size=128))),
    "ct-int4-f32": row(llama(), ct_ints(4, 128, scale_type="float32"),
                       ct("pack-quantized", ct_w(4, "int", "group", group_size=128)), memory=None),
    "ct-int4-32": row(qwen3(), ct_ints(4, 32), ct("pack-quantized", ct_w(4, "int", "group", group_size=32))),
    "ct-int8-64": row(qwen3(), ct_ints(8, 64), ct("pack-quantized", ct_w(8, "int", "group", group_size=64))),
    "ct-int4-column": row(llama(), ct_ints(4, -1), ct("pack-quantized", ct_w(4, "int", "channel"))),
    "ct-int4-zeros": row(llama(), ct_ints(4, 128, sym=False),
                         ct("pack-quantized", {**ct_w(4, "int", "group", group_size=128), "symmetric": False})),
    "ct-int4-order": row(llama(), ct_ints(4, 64, order=True),
                         ct("pack-quantized", ct_w(4, "int", "group", group_size=64, actorder="group"))),
    "ct-int8-packed": row(llama(), ct_ints(8, 128), ct("pack-quantized", ct_w(8, "int", "group", group_size=128))),
    "ct-int8": row(llama(), ct_int8, ct("int-quantized", ct_w(8, "int", "channel"))),
    "bnb-nf4": row(llama(), bnb_nf4(False), BNB4),
    "bnb-nf4-nested": row(qwen3(), bnb_nf4(True), {**BNB4, "bnb_4bit_use_double_quant": True}, memory=None),
    "bnb-int8": row(llama(), bnb_int8, dict(quant_method="bitsandbytes", load_in_8bit=True, load_in_4bit=False)),
    "bitnet": row(llama(), bitnet(True), dict(quant_method="bitnet", linear_class="bitlinear"), memory=None),
    "bitnet-auto": row(llama(), bitnet(False), dict(quant_method="bitnet", linear_class="autobitlinear",
                                                    quantization_mode="offline"), memory=None),
}
IN_GGUF = ("ct-mxfp4", "gpt-oss-mxfp4", "ct-int4-32")    # of these types
# what the message has to name
REFUSED = {
    "aqlm": (row(llama(), gptq(4, 128), dict(quant_method="aqlm")), "aqlm"),
    "hqq": (row(llama(), gptq(4, 128), dict(quant_method="hqq")), "hqq"),
    "torchao": (row(llama(), fp8(1, 0), dict(quant_method="torchao")), "torchao"),
    "gptq-5": (row(llama(), gptq(4, 128), gptq_config(5, 128)), "5"),
    "awq-gemv": (row(llama(), awq(128), dict(quant_method="awq", bits=4, version="gemv")), "gemv"),
    "ct-marlin": (row(llama(), ct_ints(4, 128), ct("marlin-24", ct_w(4, "int", "group", group_size=128))), "marlin-24"),
}


# ---- making

def build(layout, seed):
    """The model in double with the numbers that are stored, and the tensors of its file."""
    import transformers
    from oracle_cases import CASES
    from oracle_cases_moe import CASES as MOE
    from oracle_model import redraw
    (config, args), encoders = layout[0], layout[1]
    case = (MOE["gpt-oss"] if config == "GptOssConfig" else MOE["qwen3-moe"] if "Moe" in config else CASES["llama"])
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**args),
                                                          attn_implementation="eager",
                                                          experts_implementation="eager").float().eval()
    redraw(model, case, seed, False)
    model = model.double()
    state, rng = {}, np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as tmp:
        model.float().save_pretrained(tmp)
        from safetensors.torch import load_file
        saved = load_file(os.path.join(tmp, "model.safetensors"))
        with open(os.path.join(tmp, "config.json")) as f:
            said = json.load(f)
        decoded = {}
        for name, tensor in saved.items():
            base = name[:-len(".weight")] if name.endswith(".weight") else name
            found = [e for pattern, e in encoders if re.search(pattern + "$", base) and "router" not in base]
            if not found:
                state[name] = tensor
                continue
            stored, value = found[0](name, tensor.double().numpy(), rng)
            for part, t in stored.items():
                state[base + part if part[0] == "_" else f"{base}.{part}"] = t.contiguous()
            decoded[name] = torch().tensor(value)
    model = model.double()
    model.generation_config = transformers.GenerationConfig()
    put_back(model, decoded)
    return model, said, state, sum(t.numel() * t.element_size() for n, t in state.items() if n not in saved or
                                   t.dtype != torch().float32)


def put_back(model, decoded):
    """Sets the decoded matrices; experts that the file has one by one are one parameter of the model."""
    own = dict(model.named_parameters())
    stacks = {}
    for name, value in decoded.items():
        if name in own:
            own[name].data.copy_(value)
            continue
        stem, e, part = re.match(r"(.*\.experts)\.(\d+)\.(\w+)\.weight", name).groups()
        stacks.setdefault(stem, {}).setdefault(part, {})[int(e)] = value
    for stem, parts in stacks.items():
        t = torch()
        stack = {p: t.stack([v[i] for i in range(len(v))]) for p, v in parts.items()}
        own[f"{stem}.gate_up_proj"].data.copy_(t.cat([stack["gate_proj"], stack["up_proj"]], 1))
        own[f"{stem}.down_proj"].data.copy_(stack["down_proj"])


def write(folder, layout, seed=11):
    from safetensors.torch import save_file
    model, said, state, quantized = build(layout, seed)
    if layout[2]:
        said["quantization_config"] = layout[2]
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(said, f)
    if layout[3]:
        with open(os.path.join(folder, "hf_quant_config.json"), "w") as f:
            json.dump(layout[3], f)
    save_file(state, os.path.join(folder, "model.safetensors"), metadata=dict(format="pt"))
    return model, quantized


# ---- judging

class Failure(Exception):
    pass


def run(binary, *args):
    done = subprocess.run([binary, *args], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Failure((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return done.stdout


def logits(binary, folder, ids, *flags):
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "out.npy")
        run(binary, "eval", "logits", "-m", folder, "--ctx", "128", "--ids", ",".join(map(str, ids)), "-o", out, *flags)
        return np.load(out)


FLOATS = ("--act", "f32", "--kv", "f32")
CUTS = (("--chunk", "7", "--threads", "2"), ("--devices", "cpu;cpu"), ("--devices", "cpu&cpu"))


def held_share(binary, folder, quantized):
    """Bytes that weights take in memory over those of the file; `quantized`: those of its coded tensors, which are
    repacked, while all others are used where they lie."""
    plan = json.loads(run(binary, "plan", "-m", folder, "--ctx", "128", "--json"))
    size = os.path.getsize(os.path.join(folder, "model.safetensors"))
    return (sum(r["own_bytes"] for r in plan["ranks"]) + size - quantized) / size


def exported_share(binary, folder, ids, want):
    """Bytes of a GGUF file of the model over those of the folder's; "nothing": it cannot say how experts are picked."""
    out = os.path.join(folder, "out.gguf")
    try:
        run(binary, "export", "-m", folder, "-o", out)
    except Failure as e:
        if "moe" in os.path.basename(folder) and "ffn.route" in str(e):
            return "nothing"
        raise
    off = float(np.abs(logits(binary, out, ids, *FLOATS) - want).max() / np.abs(want).max())
    if not off <= BAR:
        raise Failure(f"the GGUF file is off by {off:.1e} of the largest logit")
    share = os.path.getsize(out) / os.path.getsize(os.path.join(folder, "model.safetensors"))
    os.remove(out)
    if os.path.basename(folder) in IN_GGUF and share > MEMORY:
        raise Failure(f"the GGUF file has {share:.2f} of the file's bytes")
    return f"{share:.2f}"


def judge(binary, folder, layout):
    model, quantized = write(folder, layout)
    ids = np.random.default_rng(3).integers(3, 199, max(TOKENS)).tolist()
    t = torch()
    worst = 0
    with t.no_grad():
        for n in TOKENS:
            want = model(input_ids=t.tensor([ids[:n]]), use_cache=False).logits[0].numpy()
            got = logits(binary, folder, ids[:n], *FLOATS)
            worst = max(worst, float(np.abs(got - want).max() / np.abs(want).max()))
    if not worst <= BAR:
        raise Failure(f"off by {worst:.1e} of the largest logit")
    from oracle_model import greedy
    tokens, margin = greedy(model, ids[:20])
    got = json.loads(run(binary, "run", "-m", folder, "--ctx", "128", "--ids", ",".join(map(str, ids[:20])), "-n", "32",
                         "--temp", "0", "--ignore-eos", "--output", "ids", *FLOATS))
    if got != tokens and margin > 1e-3:
        raise Failure(f"greedy tokens differ: {got[:8]} not {tokens[:8]}")
    for act in (FLOATS, ()):
        base = logits(binary, folder, ids, *act)
        for cut in CUTS:
            if logits(binary, folder, ids, *act, *cut).tobytes() != base.tobytes():
                raise Failure(f"other bits with {' '.join(act + cut)}")
    share = held_share(binary, folder, quantized)
    if layout[4] and share > layout[4]:
        raise Failure(f"{share:.2f} of the file's bytes in memory")
    off = float(np.abs(base - want).max() / np.abs(want).max())
    gguf = exported_share(binary, folder, ids, want)
    return f"{worst:.1e}, int8 {off:.1e}, {share:.2f} of the file's bytes, {gguf} as GGUF"


def refused(binary, folder, layout, name):
    write(folder, layout)
    done = subprocess.run([binary, "run", "-m", folder, "-p", "x"], capture_output=True, text=True, timeout=60)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 1 or len(lines) != 1 or name not in lines[0]:
        raise Failure(f"status {done.returncode}: {done.stderr.strip()[:200]}")
    return lines[0][:100]


# ---- vectors: one matrix a layout, for tests/t_io_stored.c

SHAPE = (32, 128)


def write_vectors(out):
    """Each layout's folder with one matrix, x, the configuration, and want = decoded x times (1, 1/2, 1/3 …)."""
    from safetensors.torch import save_file
    for name, layout in LAYOUTS.items():
        rng = np.random.default_rng(len(name))
        w = rng.standard_normal((2, *SHAPE[::-1]) if "gpt-oss" in name else SHAPE) / 8
        stored, value = layout[1][-1][1]("x", w, rng)
        rows = value.transpose(0, 2, 1).reshape(-1, SHAPE[1]) if value.ndim == 3 else value
        state = {"x" + part if part[0] == "_" else f"x.{part}": t.contiguous() for part, t in stored.items()}
        state["want"] = torch().tensor(rows @ (1 / np.arange(1, SHAPE[1] + 1)))
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        save_file(state, os.path.join(folder, "model.safetensors"))
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(dict(quantization_config=layout[2]) if layout[2] else {}, f)
        if layout[3]:
            with open(os.path.join(folder, "hf_quant_config.json"), "w") as f:
                json.dump(layout[3], f)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="patterns of names")
    parser.add_argument("--binary", default="build/inferflow")
    parser.add_argument("--keep", help="a folder for the models; default: a temporary one")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--vectors", help="writes one matrix of each layout into this folder (tests/vectors/stored)")
    args = parser.parse_args()
    if args.vectors:
        write_vectors(args.vectors)
        return 0
    jobs = {**{n: (judge, x) for n, x in LAYOUTS.items()},
            **{f"no-{n}": (lambda b, f, l, w=x[1]: refused(b, f, l, w), x[0]) for n, x in REFUSED.items()}}
    names = [n for n in jobs if not args.names or any(fnmatch.fnmatch(n, p) for p in args.names)]
    if args.list:
        print("\n".join(names))
        return 0
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch().set_num_threads(1)
    failures = 0
    for name in names:
        with tempfile.TemporaryDirectory() as tmp:
            folder = os.path.join(args.keep or tmp, name)
            os.makedirs(folder, exist_ok=True)
            try:
                said = jobs[name][0](args.binary, folder, jobs[name][1])
            except Failure as e:
                failures += 1
                said = f"FAIL {e}"
        print(f"{name:22s} {said}", flush=True)
    print(f"{len(names)} layouts, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
