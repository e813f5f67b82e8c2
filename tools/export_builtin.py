#!/usr/bin/env python3
"""Turns the directory written by `train_builtin.py export` into the built-in model file, and makes its golden vectors.

    python tools/export_builtin.py gguf    --hf DIR/hf --file specs/builtin.gguf
    python tools/export_builtin.py check   --hf DIR/hf --file specs/builtin.gguf
    python tools/export_builtin.py vectors --hf DIR/hf --file specs/builtin.gguf --to tests/vectors/builtin.json

The file is GGUF version 3: matrices Q8_0, norms F32, the embedding once (the head is tied to it). The rows of q and k
are reordered from rotary halves, as transformers keeps them, to rotary pairs, as the llama architecture of GGUF has
them. `check` reads the file back through transformers and compares ids and logits; `vectors` writes prompts, ids, the
largest logits and greedy continuations of the dequantized weights, computed by transformers in float32. Needs the
Python packages gguf, torch and transformers.
"""
import argparse
import hashlib
import json
from pathlib import Path

import gguf
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}
PROMPTS = [
    "It was a dark and stormy night, and the",
    "Mr. Holmes",
    "\"I do not know,\" said the captain,",
    "The old house stood at the end of the lane.\n\nNobody",
    "CHAPTER I\n\n",
    "1, 2, 3 caf\u00e9 \u2014 na\u00efve \U0001f600  spaces\n\n\n",
    "",
]
GAP = 0.005  # far above what the order of float32 sums can change
CHATS = [
    [{"role": "user", "content": "Good morning! Where are you going?"}],
    [
        {"role": "system", "content": "They met upon the bridge at midnight."},
        {"role": "user", "content": "Who are you?"},
        {"role": "assistant", "content": "A friend."},
        {"role": "user", "content": "What is your name?"},
    ],
]


def read_json(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def pairs_from_halves(rows, heads):
    """Rows of q or k: within each head, i and i + half become 2i and 2i + 1."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def halves_from_pairs(rows, heads):
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def gguf_name(name):
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{NAMES[part]}.weight"


def write_gguf(args):
    hf = Path(args.hf)
    config, names, tok = (read_json(hf / f) for f in ("config.json", "tokenizer_config.json", "tokenizer.json"))
    part = Path(args.file).with_suffix(".part")
    out = gguf.GGUFWriter(part, "llama")
    out.add_name("inferflow built-in")
    out.add_description("A small model of English novels, made to try the engine with.")
    out.add_license("apache-2.0")
    out.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    out.add_quantization_version(gguf.GGML_QUANT_VERSION)
    out.add_vocab_size(config["vocab_size"])
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_rope_dimension_count(config["head_dim"])
    out.add_rope_freq_base(config["rope_theta"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    tokens = [text for text, _ in sorted(tok["model"]["vocab"].items(), key=lambda item: item[1])]
    special = {added["id"] for added in tok["added_tokens"]}
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(tokens))])
    out.add_token_merges([" ".join(merge) for merge in tok["model"]["merges"]])
    out.add_bos_token_id(config["bos_token_id"])
    out.add_eos_token_id(config["eos_token_id"])
    out.add_add_bos_token(True)
    out.add_add_eos_token(False)
    out.add_chat_template(names["chat_template"])
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name, weight in load_file(hf / "model.safetensors").items():
        part_name = name.split(".")[-2]
        if part_name in heads:
            weight = pairs_from_halves(weight, heads[part_name])
        if weight.ndim == 1:
            out.add_tensor(gguf_name(name), weight)
        else:
            q8 = gguf.quants.quantize(weight, gguf.GGMLQuantizationType.Q8_0)
            out.add_tensor(gguf_name(name), q8, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    part.replace(args.file)
    print(f"{args.file}: {Path(args.file).stat().st_size} bytes")


def dequantized(args):
    """The Hugging Face model with the weights that the GGUF file holds, in float32."""
    model = AutoModelForCausalLM.from_pretrained(args.hf, dtype=torch.float32).eval()
    config = model.config
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    have = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(args.file).tensors}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            data = have.pop(gguf_name(name)).reshape(weight.shape)
            part = name.split(".")[-2]
            weight.copy_(torch.from_numpy(halves_from_pairs(data, heads[part]).copy() if part in heads
                                          else data.copy()))
    if have:
        raise SystemExit(f"{args.file}: tensors without a parameter: {sorted(have)}")
    return model


def prompt_ids(tok):
    """(text, messages or None, ids): plain prompts after BOS, and conversations as the chat template renders them."""
    for text in PROMPTS:
        yield text, None, tok(text)["input_ids"]
    for chat in CHATS:
        text = tok.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        yield text, chat, tok(text, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def check(args):
    """Differences between the f32 directory, our own dequantization and transformers' reading of the GGUF file."""
    where = Path(args.file)
    read = AutoModelForCausalLM.from_pretrained(where.parent, gguf_file=where.name, dtype=torch.float32).eval()
    read_tok = AutoTokenizer.from_pretrained(where.parent, gguf_file=where.name)
    tok = AutoTokenizer.from_pretrained(args.hf)
    float_model, own = AutoModelForCausalLM.from_pretrained(args.hf, dtype=torch.float32).eval(), dequantized(args)
    for text, chat, ids in prompt_ids(tok):
        theirs = read_tok(text, add_special_tokens=False)["input_ids"]
        if theirs != (ids if chat else ids[1:]):
            raise SystemExit(f"ids differ for {text!r}: {ids} and {theirs}")
        row = torch.tensor([ids])
        a, b, c = (m(row).logits[0] for m in (float_model, own, read))
        print(f"{len(ids):3} ids, max |logit| {a.abs().max():.2f}: Q8 noise {(a - b).abs().max():.4f}, "
              f"transformers' own reading differs by {(b - c).abs().max():.2e}")
        if (b - c).abs().max() > 1e-4 * a.abs().max():
            raise SystemExit("the file is read differently by transformers")


@torch.no_grad()
def write_vectors(args):
    tok, model = AutoTokenizer.from_pretrained(args.hf), dequantized(args)
    cases = []
    for text, chat, ids in prompt_ids(tok):
        logits = model(torch.tensor([ids])).logits[0, -1]
        values, order = logits.topk(5)
        greedy = []
        while len(greedy) < args.tokens and (not greedy or greedy[-1] != model.config.eos_token_id):
            best, which = model(torch.tensor([ids + greedy])).logits[0, -1].topk(2)
            if best[0] - best[1] < GAP:
                break
            greedy.append(int(which[0]))
        case = {"prompt": text, "ids": ids, "top": [[int(i), round(float(v), 5)] for i, v in zip(order, values)],
                "greedy": greedy, "text": tok.decode(greedy, skip_special_tokens=True)}
        cases.append({"messages": chat, **case} if chat else case)
    head = {
        "what": "prompts (conversations as the chat template renders them) with their ids, the five largest logits "
                "after the "
                f"last id, and the greedy continuation as far as the two largest logits lie at least {GAP} apart",
        "command": f"python tools/export_builtin.py vectors --hf DIR/hf --file specs/builtin.gguf --tokens "
                   f"{args.tokens} "
                   "--to tests/vectors/builtin.json",
        "sha256": hashlib.sha256(Path(args.file).read_bytes()).hexdigest(),
    }
    body = ",\n".join(json.dumps(case) for case in cases)
    Path(args.to).parent.mkdir(parents=True, exist_ok=True)
    Path(args.to).write_text(json.dumps(head, indent=1)[:-2] + ',\n "cases": [\n' + body + "\n]}\n", encoding="utf-8")
    print(f"{args.to}: {len(cases)} cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what, function in (("gguf", "write the file", write_gguf), ("check", "read it back and compare", check),
                                 ("vectors", "write golden vectors", write_vectors)):
        sub = commands.add_parser(name, help=what)
        sub.set_defaults(function=function)
        sub.add_argument("--hf", required=True, help="directory written by train_builtin.py export")
        sub.add_argument("--file", required=True, help="the GGUF file")
        if name == "vectors":
            sub.add_argument("--to", required=True, help="the JSON file to write")
            sub.add_argument("--tokens", type=int, default=32, help="length of the continuations")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.function(args)


if __name__ == "__main__":
    main()
