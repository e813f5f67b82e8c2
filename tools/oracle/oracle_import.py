#!/usr/bin/env python3
"""oracle_import.py - specs of the original Inferflow, imported, against transformers.

    oracle_import.py FOLDER [NAME...]     FOLDER holds model_spec*.json files, each in a folder of its model's name
                                          (data/models of github.com/inferflow/inferflow)

For each file a tiny model is built whose tensors have the names and layouts of that original, `inferflow spec import`
converts the file for it, `spec check` must find nothing, and `eval logits` must equal what transformers computes.
Architectures that transformers lacks are made of its parts: a Llama with other norms, fused tensors, or ALiBi. Needs
the packages of oracle.py.
"""
import argparse
import fnmatch
import glob
import json
import os
import struct
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.llama import modeling_llama

from oracle_cases import FULL, hf
from oracle_check import Failure, run
from oracle_model import forward, redraw, tolerance
from oracle_table import CASES, vocab_of

TOKENS = 60


class Plain:
    """A model of an oracle case, stored as transformers stores it."""
    decoder = None      # ids of the decoder's text, in an encoder-decoder

    def __init__(self, case, **over):
        self.case, self.over = case, over

    def model(self):
        case = CASES[self.case]
        args = {**dict(vocab_size=vocab_of(self.case, FULL), bos_token_id=1, eos_token_id=2), **case.make(FULL),
                **self.over}
        config = getattr(transformers, case.config)(**args)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
        redraw(model, case, 77, bool(config.tie_word_embeddings))
        self.edit(model)
        return model

    def edit(self, model):
        """Changes to the network before it is asked and stored."""

    def logits(self, model, ids):
        return forward(model, ids)

    def tensors(self, model):
        """{name in the file: tensor}, as transformers stores them."""
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            return load_file(os.path.join(folder, "model.safetensors"))

    def save(self, model, folder):
        """Writes the model; returns what --model is given."""
        save_file({n: t.contiguous() for n, t in self.tensors(model).items()},
                  os.path.join(folder, "model.safetensors"))
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(self.config(model), f)
        return folder

    def config(self, model):
        c = json.loads(model.config.to_json_string(use_diff=False))
        c["architectures"] = ["Unheard"]
        c["model_type"] = "unheard"
        return c


def fused(tensors, config, name):
    """q, k and v of each layer as one tensor of all q, all k, all v."""
    out = {n: t for n, t in tensors.items() if "_proj" not in n or "self_attn.o_proj" in n or "mlp" in n}
    for i in range(config.num_hidden_layers):
        for kind in ("weight", "bias"):
            parts = [tensors.get(f"model.layers.{i}.self_attn.{r}_proj.{kind}") for r in "qkv"]
            if parts[0] is not None:
                out[name.format(i) + "." + kind] = torch.cat(parts)
    return out


class Baichuan7(Plain):
    """Rows of the head have length one, which the file does not know."""

    def edit(self, model):
        self.stored = model.lm_head.weight.data.clone()
        model.lm_head.weight.data /= model.lm_head.weight.data.norm(dim=1, keepdim=True)

    def tensors(self, model):
        out = fused(super().tensors(model), model.config, "model.layers.{}.self_attn.W_pack")
        return {**out, "lm_head.weight": self.stored}


class Baichuan13(Plain):
    """ALiBi instead of rotation."""

    def logits(self, model, ids):
        heads, n = model.config.num_attention_heads, len(ids)
        slope = 2.0 ** (-8.0 * (torch.arange(heads) + 1) / heads)
        bias = slope[:, None, None] * torch.arange(n)[None, None, :].float()
        mask = torch.full((n, n), torch.finfo(torch.float32).min).triu(1) + bias
        kept = modeling_llama.apply_rotary_pos_emb
        modeling_llama.apply_rotary_pos_emb = lambda q, k, *args, **more: (q, k)
        try:
            with torch.no_grad():
                return model(torch.tensor([ids]), attention_mask=mask[None],
                             use_cache=False).logits[0]
        finally:
            modeling_llama.apply_rotary_pos_emb = kept

    def tensors(self, model):
        return fused(super().tensors(model), model.config, "model.layers.{}.self_attn.W_pack")


class Orion(Plain):
    """Layer norms with biases in a Llama."""

    def edit(self, model):
        g = torch.Generator().manual_seed(5)
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if "RMSNorm" in type(child).__name__:
                    norm = torch.nn.LayerNorm(child.weight.shape[0], eps=child.variance_epsilon)
                    norm.weight.data.copy_(child.weight.data)
                    norm.bias.data.copy_(0.1 * torch.randn(norm.bias.shape, generator=g))
                    setattr(parent, name, norm)


class MiniCpm(Plain):
    """Granite's multipliers under MiniCPM's keys."""

    def config(self, model):
        c = super().config(model)
        for key in ("embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier"):
            del c[key]
        return c


class DeepSeek(Plain):
    """A Llama whose layers from the second on have experts, and experts that all rows go to."""

    def edit(self, model):
        torch.manual_seed(3)
        for layer in model.model.layers[1:]:
            layer.mlp = Experts(model.config)

    def config(self, model):
        return dict(super().config(model), n_routed_experts=Experts.COUNT, num_experts_per_tok=Experts.USED,
                    moe_intermediate_size=28,
                    n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=False)


class Experts(torch.nn.Module):
    """DeepSeekMoE (arXiv 2401.06066): weights are shares of a softmax over all experts, as they are."""
    COUNT, USED = 7, 3

    def __init__(self, c):
        super().__init__()
        self.gate = torch.nn.Linear(c.hidden_size, self.COUNT, bias=False)
        self.experts = torch.nn.ModuleList([self.one(c, 28) for _ in range(self.COUNT)])
        self.shared_experts = self.one(c, 56)
        for p in self.parameters():
            p.data = 2.0 / p.shape[1] ** 0.5 * torch.randn(p.shape)

    @staticmethod
    def one(c, width):
        sized = transformers.LlamaConfig(hidden_size=c.hidden_size, intermediate_size=width, hidden_act="silu",
                                         num_attention_heads=1)
        return modeling_llama.LlamaMLP(sized)

    def forward(self, x):
        weights, best = self.gate(x).softmax(-1).topk(self.USED, -1)
        out = self.shared_experts(x)
        for j, expert in enumerate(self.experts):
            out = out + (weights * (best == j)).sum(-1, keepdim=True) * expert(x)
        return out


class Bert(Plain):
    """The masked language model, under the names of norms that BERT was published with."""

    def model(self):
        torch.manual_seed(11)
        config = transformers.BertConfig(vocab_size=97, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
                                         intermediate_size=92, max_position_embeddings=128, layer_norm_eps=0.003)
        return drawn(transformers.BertForMaskedLM(config))

    def tensors(self, model):
        change = lambda n: n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return {change(n): t for n, t in super().tensors(model).items()}


class M2M100(Plain):
    """An encoder-decoder: logits are those of a decoder's text beside an encoder's."""
    decoder = [2] + list(range(5, 90, 4))

    def model(self):
        torch.manual_seed(12)
        config = transformers.M2M100Config(vocab_size=97, d_model=48, encoder_layers=2, decoder_layers=3,
                                           encoder_ffn_dim=92,
                                           decoder_ffn_dim=76, encoder_attention_heads=4, decoder_attention_heads=6,
                                           max_position_embeddings=128, scale_embedding=True, pad_token_id=1)
        return drawn(transformers.M2M100ForConditionalGeneration(config))

    @torch.no_grad()
    def logits(self, model, ids):
        return model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([self.decoder]),
                     use_cache=False).logits[0]


def drawn(model):
    """Every parameter anew: norms around 1, biases around 0, matrices by the number of their inputs."""
    for name, p in model.named_parameters():
        size = 0.1 if "bias" in name else 0.2 if "norm" in name.lower() else 1.5 / p.shape[-1] ** 0.5
        p.data = size * torch.randn(p.shape) + float(name.lower().endswith("norm.weight"))
    model.tie_weights()
    return model.float().eval()


class Gguf(Plain):
    """A GGUF file, in which queries and keys lie as neighbours."""

    def save(self, model, folder):
        from oracle_gguf import write_gguf
        write_gguf(os.path.join(folder, "model.gguf"), model, self.case)
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
    """GLM with fused q, k, v, under ChatGLM2's names and keys."""
    NAMES = {"model.embed_tokens.": "transformer.embedding.word_embeddings.",
             "model.norm.": "transformer.encoder.final_layernorm.",
             "lm_head.": "transformer.output_layer.", "model.layers.": "transformer.encoder.layers.",
             "mlp.gate_up_proj.": "mlp.dense_h_to_4h.", "mlp.down_proj.": "mlp.dense_4h_to_h.",
             "self_attn.o_proj.": "self_attention.dense."}

    def model(self):
        # half of a head is rotated, and the original says which: 64 dimensions
        config = transformers.GlmConfig(**hf(FULL, hidden_size=256, num_attention_heads=2, num_key_value_heads=1,
                                             head_dim=128, rms_norm_eps=0.003, vocab_size=97, tie_word_embeddings=False,
                                             attention_bias=True, pad_token_id=0, eos_token_id=2,
                                             rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                                  partial_rotary_factor=0.5)))
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
        redraw(model, CASES["llama"], 77, False)
        return model

    def tensors(self, model):
        out = {}
        for name, t in fused(super().tensors(model), model.config,
                             "model.layers.{}.self_attention.query_key_value").items():
            for old, new in self.NAMES.items():
                name = name.replace(old, new)
            out[name] = t
        padded = torch.zeros(65024, 256)    # the original's own number of rows
        for name in ("transformer.embedding.word_embeddings.weight", "transformer.output_layer.weight"):
            padded[:97] = out[name]
            out[name] = padded.clone()
        return out

    def logits(self, model, ids):
        got = forward(model, ids)
        return torch.cat([got, torch.zeros(len(ids), 65024 - got.shape[1])], dim=1)

    def config(self, model):
        c = model.config
        return dict(architectures=["Unheard"], model_type="unheard", hidden_size=256, num_layers=c.num_hidden_layers,
                    num_attention_heads=2, multi_query_attention=True, multi_query_group_num=1, kv_channels=128,
                    ffn_hidden_size=c.intermediate_size, layernorm_epsilon=0.003, padded_vocab_size=65024,
                    seq_length=160)


MODELS = {
    "aquila_chat2_34b": Plain("llama"),
    "baichuan2_13b_chat": Baichuan13("llama-mha", hidden_act="silu"),
    "baichuan2_7b_chat": Baichuan7("llama-mha", hidden_act="silu"),
    "bert_base_multilingual_cased": Bert(None),
    "bloomz_3b": Plain("bloom"),
    "chatglm2_6b": ChatGlm(None),
    "deepseek_moe_16b_base": DeepSeek("llama"),
    "facebook_m2m100_418m": M2M100(None),
    "falcon_40b_instruct": Plain("falcon-40b"),
    "falcon_7b_instruct": Plain("falcon-7b"),
    "fusellm_7b": Plain("llama-mha", hidden_act="silu"),
    "gemma_2b_it": Plain("gemma-mqa"),
    "internlm_chat_20b": Plain("llama-bias"),
    "llama2_*_hf": Plain("llama-mha", hidden_act="silu"),
    "llama2.c": Llama2c("llama-mha", hidden_act="silu", rms_norm_eps=1e-5,
                        rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    "llama2_7b_chat.gguf": Gguf("llama"),
    "minicpm_2b_dpo_bf16": MiniCpm("granite", embedding_multiplier=12.0, residual_multiplier=0.25,
                                   logits_scaling=1 / 0.111111,
                                   attention_multiplier=(56 / 4) ** -0.5),
    "mistral_7b_instruct_v0.2": Plain("mistral"),
    "mixtral_8x7b_instruct_v0.1": Plain("mixtral", hidden_act="silu"),
    "open_llama_3b": Plain("llama-mha", hidden_act="silu"),
    "opt_13b": Plain("opt-125m"),
    "opt_350m": Plain("opt-350m"),
    "opt_iml_max_30b": Plain("opt-125m"),
    "orion_14b_chat": Orion("llama"),
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
    for name, value in (("ids.json", ids), ("decoder.json", kind.decoder)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(value, f)
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
