#!/usr/bin/env python3
"""vectors_rope.py - tests/vectors/rope.json: rotary tables as transformers' LlamaRotaryEmbedding computes them.

python3 tools/oracle/vectors_rope.py > tests/vectors/rope.json   (needs torch and transformers)
"""
import json

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

CASES = [
    # name, dims, max_positions, rope_parameters, sequence length
    ("plain", 64, 4096, {"rope_type": "default", "rope_theta": 10000.0}, 4000),
    ("plain.theta", 36, 4096, {"rope_type": "default", "rope_theta": 1e6}, 4000),
    ("linear", 64, 4096, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}, 4000),
    ("dynamic.short", 32, 64, {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.5}, 60),
    ("dynamic.long", 32, 64, {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.5}, 150),
    ("dynamic.edge", 18, 64, {"rope_type": "dynamic", "rope_theta": 900.0, "factor": 2.5}, 65),
    ("yarn", 64, 4096, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                        "original_max_position_embeddings": 1024}, 4000),
    ("yarn.flat", 64, 4096, {"rope_type": "yarn", "rope_theta": 1e5, "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0,
                             "truncate": False, "original_max_position_embeddings": 512}, 4000),
    ("yarn.mscale", 32, 4096, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "mscale": 0.7,
                               "mscale_all_dim": 1.2, "original_max_position_embeddings": 128}, 4000),
    ("yarn.attention", 32, 4096, {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "attention_factor": 0.9,
                                  "original_max_position_embeddings": 1024}, 4000),
    ("llama3", 64, 8192, {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                          "high_freq_factor": 4.0, "original_max_position_embeddings": 2048}, 8000),
    ("longrope.short", 16, 256, {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 64,
                                 "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0],
                                 "long_factor": [1.0, 1.5, 2.0, 3.5, 5.0, 8.0, 12.0, 20.0]}, 64),
    ("longrope.long", 16, 256, {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 64,
                                "short_factor": [1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5, 2.0],
                                "long_factor": [1.0, 1.5, 2.0, 3.5, 5.0, 8.0, 12.0, 20.0]}, 65),
    ("longrope.factor", 16, 256, {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 32.0,
                                  "original_max_position_embeddings": 64,
                                  "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}, 200),
]

def main():
    out = []
    for name, dims, max_positions, params, length in CASES:
        config = LlamaConfig(hidden_size=dims * 2, num_attention_heads=2, head_dim=dims,
                             max_position_embeddings=max_positions,
                             rope_parameters=dict(params))
        rope = LlamaRotaryEmbedding(config)
        positions = torch.arange(length)[None]
        cos, sin = rope(torch.zeros(1, dtype=torch.float32), positions)
        half = dims // 2
        picked = sorted({1, 7, length // 2, length - 1})

        out.append({"name": name, "dims": dims, "max_positions": max_positions, "length": length, "params": params,
                    "inv_freq": rope.inv_freq.tolist(), "scale": float(rope.attention_scaling), "positions": picked,
                    "cos": [cos[0, p, :half].tolist() for p in picked],
                    "sin": [sin[0, p, :half].tolist() for p in picked]})

    text = json.dumps(out)
    print(text.replace('{"name"', '\n{"name"').replace(', "cos"', ',\n "cos"').replace(', "sin"', ',\n "sin"'))

main()
