#!/usr/bin/env python3
"""oracle_import.py - specs of the original Inferflow, imported, against transformers.

    oracle_import.py FOLDER [NAME...]     FOLDER holds model_spec*.json files, each in a folder of its model's name
                                          (data/models of github.com/inferflow/inferflow)

For each file a tiny model is built whose tensors have the names and layouts of that original, `inferflow spec import`
converts the file for it, `spec check` must find nothing, and `eval logits` must equal what transformers computes. The
models are cases of oracle.py, under a name that says nothing of their family. Needs the packages of oracle.py.
"""
import argparse
import fnmatch
import glob
import os
import struct
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import oracle_encoders
from oracle_cases import FULL, rope
from oracle_check import Failure, run
from oracle_encoder_files import old_names
from oracle_model import Pair, compute, make_model, read_json, redraw, save, tolerance, write_json
from oracle_table import CASES, vocab_of

TOKENS = 60


class Plain:
    """A model of an oracle case, stored as the family's files are."""
    decoder = None      # ids of the decoder's text, in an encoder-decoder

    def __init__(self, case, **over):
        self.name, self.case, self.over = case, CASES[case], over

    def model(self):
        model = make_model(self.case, FULL, vocab_of(self.name, FULL), self.over)
        if self.case.auto:
            oracle_encoders.redraw(model, 77)
        else:
            redraw(model, self.case, 77, bool(model.config.tie_word_embeddings))
        return model

    def logits(self, model, ids):
        return compute(model, self.case, Pair(self.decoder, ids) if self.decoder else ids)

    def tensors(self, tensors):
        """{name in the file: tensor} of what transformers or the case's layout stores."""
        return tensors

    def config(self, config):
        return dict(config, architectures=["Unheard"], model_type="unheard")

    def save(self, model, folder):
        """Writes the model; returns what --model is given."""
        save(model, folder, self.case)
        weights = os.path.join(folder, "model.safetensors")
        save_file(self.tensors(load_file(weights)), weights)
        write_json(os.path.join(folder, "config.json"), self.config(read_json(folder, "config.json")))
        return folder


class MiniCpm(Plain):
    """The original takes the factors from the file, not from config.json."""

    def config(self, config):
        return {k: v for k, v in super().config(config).items() if not k.startswith(("scale_", "dim_model"))}


class Bert(Plain):
    """The names of norms that BERT was published with."""

    def tensors(self, tensors):
        return old_names(tensors)


class M2M100(Plain):
    """An encoder-decoder: logits are those of a decoder's text beside an encoder's."""
    decoder = [2] + list(range(5, 90, 4))


class Gguf(Plain):
    """A GGUF file, in which queries and keys lie as neighbours."""

    def save(self, model, folder):
        from oracle_gguf import write_gguf
        write_gguf(os.path.join(folder, "model.gguf"), model, self.name)
        return os.path.join(folder, "model.gguf")


class Llama2c(Plain):
    """A file of llama2.c (version 0): seven numbers, then all matrices of a kind, layer by layer."""
    ORDER = ("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
             "post_attention_layernorm", "mlp.gate_proj", "mlp.down_proj", "mlp.up_proj")

    def save(self, model, folder):
        c, w = model.config, {n: p.detach() for n, p in model.named_parameters()}
        width = c.hidden_size // c.num_attention_heads
        neighbours = lambda t: t.view(-1, 2, width // 2, t.shape[1]).transpose(1, 2).reshape(t.shape)
        turn = lambda n, t: neighbours(t) if "q_proj" in n or "k_proj" in n else t
        parts = [w["model.embed_tokens.weight"]]
        for name in self.ORDER:
            parts += [turn(name, w[f"model.layers.{i}.{name}.weight"]) for i in range(c.num_hidden_layers)]
        parts += [w["model.norm.weight"], torch.zeros(2, c.max_position_embeddings, width // 2), w["lm_head.weight"]]
        path = os.path.join(folder, "model.bin")
        with open(path, "wb") as f:
            f.write(struct.pack("<7i", c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.num_attention_heads,
                                c.num_key_value_heads, -c.vocab_size, c.max_position_embeddings))
            for t in parts:
                f.write(t.contiguous().numpy().astype("<f4").tobytes())
        return path


class ChatGlm(Plain):
    """Half of a head is rotated, and the original says which: 64 dimensions; and how many rows the tables have."""
    ROWS = 65024

    def tensors(self, tensors):
        pad = lambda t: torch.cat([t, torch.zeros(self.ROWS - len(t), t.shape[1])])
        return {n: pad(t) if "word_embeddings" in n or "output_layer" in n else t for n, t in tensors.items()}

    def config(self, config):
        return dict(super().config(config), padded_vocab_size=self.ROWS)

    def logits(self, model, ids):
        got = super().logits(model, ids)
        return torch.cat([got, torch.zeros(len(ids), self.ROWS - got.shape[1])], dim=1)


MODELS = {
    "aquila_chat2_34b": Plain("llama"),
    "baichuan2_13b_chat": Plain("baichuan-13b"),
    "baichuan2_7b_chat": Plain("baichuan2"),
    "bert_base_multilingual_cased": Bert("bert"),
    "bloomz_3b": Plain("bloom"),
    "chatglm2_6b": ChatGlm("chatglm", hidden_size=256, num_attention_heads=2, num_key_value_heads=1, head_dim=128,
                           rope_parameters=rope(10000.0, partial_rotary_factor=0.5)),
    "deepseek_moe_16b_base": Plain("deepseek"),
    "facebook_m2m100_418m": M2M100("m2m-100", activation_function="relu"),
    "falcon_40b_instruct": Plain("falcon-40b"),
    "falcon_7b_instruct": Plain("falcon-7b"),
    "fusellm_7b": Plain("llama-mha", hidden_act="silu"),
    "gemma_2b_it": Plain("gemma-mqa"),
    "internlm_chat_20b": Plain("llama-bias"),
    "llama2_*_hf": Plain("llama-mha", hidden_act="silu"),
    "llama2.c": Llama2c("llama-mha", hidden_act="silu", rms_norm_eps=1e-5,
                        rope_parameters=rope(10000.0)),
    "llama2_7b_chat.gguf": Gguf("llama"),
    "minicpm_2b_dpo_bf16": MiniCpm("minicpm", embedding_multiplier=12.0, residual_multiplier=0.25,
                                   logits_scaling=1 / 0.111111),
    "mistral_7b_instruct_v0.2": Plain("mistral"),
    "mixtral_8x7b_instruct_v0.1": Plain("mixtral", hidden_act="silu"),
    "open_llama_3b": Plain("llama-mha", hidden_act="silu"),
    "opt_13b": Plain("opt-125m"),
    "opt_350m": Plain("opt-350m"),
    "opt_iml_max_30b": Plain("opt-125m"),
    "orion_14b_chat": Plain("orion"),
    "phi_2": Plain("phi"),
    "qwen1.5_*": Plain("qwen2"),
    "xverse_13b_chat": Plain("llama"),
    "yi_*": Plain("llama"),
}


def build(kind, folder):
    """Writes model and ids; returns the model's path, the expected logits and what they may be off by."""
    model = kind.model()
    ids = np.random.default_rng(7).integers(3, min(97, model.config.vocab_size), TOKENS).tolist()
    logits = kind.logits(model, ids)
    write_json(os.path.join(folder, "ids.json"), ids)
    write_json(os.path.join(folder, "decoder.json"), kind.decoder)
    return kind.save(model, folder), logits.numpy(), tolerance(logits, 0)


def check(binary, spec, kind):
    with tempfile.TemporaryDirectory() as folder:
        path, want, bar = build(kind, folder)
        converted, out = os.path.join(folder, "converted.ini"), os.path.join(folder, "logits.npy")
        run(binary, "spec", "import", spec, "--model", path, "-o", converted)
        run(binary, "spec", "check", converted)
        decoder = ("--decoder-ids", "@" + os.path.join(folder, "decoder.json")) if kind.decoder else ()
        run(binary, "eval", "logits", "--spec", converted, "--ctx", "100", "--weights", "f32", "--ids",
            "@" + os.path.join(folder, "ids.json"), *decoder, "-o", out)
        got = np.load(out)
        if got.shape != want.shape:
            raise Failure(f"logits are {got.shape}, not {want.shape}")
        off = float(np.abs(got - want).max())
        if not off <= bar:
            raise Failure(f"off by {off:.1e}, {off / bar:.0f} times what is allowed")
        return off / bar


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--binary", default="build/inferflow")
    args = parser.parse_args()
    failures = 0
    for spec in sorted(glob.glob(os.path.join(args.folder, "*", "model_spec*.json"))):
        name = os.path.basename(os.path.dirname(spec))
        if args.names and not any(fnmatch.fnmatch(name, p) for p in args.names):
            continue
        kind = next((k for pattern, k in MODELS.items() if fnmatch.fnmatch(name, pattern)), None)
        label = f"{name}/{os.path.basename(spec)}"
        try:
            if kind is None:
                raise Failure("no model of this name in MODELS")
            print(f"{label:60s} {check(args.binary, spec, kind):.3f} of the tolerance", flush=True)
        except Failure as e:
            failures += 1
            print(f"{label:60s} FAIL {e}", flush=True)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
