"""What of the tiny models is an encoder's own: how its parameters are drawn, and what is compared.

That is, by the class a case names, `logits` of the masked-language head [tokens, vocab], labels of tokens, or starts
and ends [tokens, 2]; or the scores of a classifier for texts that are the first 1, 2, ... ids, of token types 0 and 1
by turns [texts, labels]; or, of a bare model, mean-pooled states of unit length (or the last) of the same texts,
computed by transformers as one padded batch, then the last hidden states of the whole sequence [texts + tokens, dim].
All of them lie in logits.npy; reference.json names the class.
"""
import json
import os

import safetensors.torch
import torch

from oracle_cases_enc import LANGUAGE, MASKED, SCORED, SPANS, TOKENS

ACTIVATIONS = dict(Tanh=torch.tanh, Identity=lambda x: x, ReLU=torch.relu, GELU=torch.nn.functional.gelu)
LENGTHS = (1, 2, 3, 17, 40, 66)
FFN_IN = ("intermediate.dense", "lin1", ".ffn", "mlp.gate_proj", "mlp.up_proj", "fc1", "Wi")
SCORES = ("query", "key", "query_proj", "key_proj", "in_proj", "pos_proj", "pos_q_proj",
          "q_lin", "k_lin", "attn.q", "attn.k", "q_proj", "k_proj", "Wqkv")


def gain(name):
    return 2.0 if name.endswith(FFN_IN) else 1.5 if name.endswith(SCORES) else 1.0


def redraw(model, seed):
    """Draws every parameter anew; the last norm before a head is uneven, or a tied head would hide it."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda p, mean, std: p.data.copy_(mean + std * torch.randn(p.shape, generator=g))
    seen, norms = set(), []
    for name, module in model.named_modules():
        kind = type(module).__name__
        for part, p in module.named_parameters(recurse=False):
            if id(p) in seen:
                continue
            seen.add(id(p))
            if "Norm" in kind:
                draw(p, 1.0 if part == "weight" else 0.0, 0.2 if part == "weight" else 0.1)
                norms.append(module)
            elif "Embedding" in kind:
                draw(p, 0.0, 0.7)
            elif part in ("bias", "q_bias", "v_bias"):
                draw(p, 0.0, 0.3)
            else:
                draw(p, 0.0, gain(name) / p.shape[1] ** 0.5)
    assert all(id(p) in seen for p in model.parameters())
    model.tie_weights()
    norms[-1].weight.data.add_(0.35 * torch.cos(torch.arange(len(norms[-1].weight)).float()))


def types_of(model, n):
    return [i % 2 if (getattr(model.config, "type_vocab_size", 0) or 0) > 1 else 0 for i in range(n)]


def call(model, ids, types, mask=None):
    """One forward of a batch; token types only where the model takes them."""
    more = dict(token_type_ids=torch.tensor(types)) if any(map(any, types)) else {}
    if mask is not None:
        more["attention_mask"] = torch.tensor(mask)
    return model(torch.tensor(ids), **more)


def dense_of(case, width):
    """(matrix, bias, activation) of each Dense module of a case, exact in float16."""
    g = torch.Generator().manual_seed(5)
    dim = width
    for out, activation in case.dense:
        out = dim if out == "dim" else out
        draw = lambda *shape: torch.randn(shape, generator=g).half().float()
        yield (draw(out, width) / 4, draw(out), activation)
        width = out


def write_modules(folder, case, width):
    """The files of sentence-transformers: pooling, Dense modules with weights of their own, unit length."""
    write = lambda path, value: (os.makedirs(os.path.dirname(path), exist_ok=True),
                                 open(path, "w").write(json.dumps(value)))
    n = len(case.dense)
    names = ["", "1_Pooling"] + [f"{i + 2}_Dense" for i in range(n)] + [f"{n + 2}_Normalize"]
    kinds = ["Transformer"] + [n.split("_")[1] for n in names[1:]]
    write(os.path.join(folder, "modules.json"),
          [dict(idx=i, name=str(i), path=n, type=f"sentence_transformers.models.{k}")
           for i, (n, k) in enumerate(zip(names, kinds))])
    write(os.path.join(folder, "1_Pooling", "config.json"),
          dict(word_embedding_dimension=width, pooling_mode_mean_tokens=case.pool == "mean",
               pooling_mode_lasttoken=case.pool == "last"))
    for name, (matrix, bias, activation) in zip(names[2:], dense_of(case, width)):
        module = "linear" if activation == "Identity" else "activation"
        write(os.path.join(folder, name, "config.json"),
              dict(in_features=matrix.shape[1], out_features=matrix.shape[0], bias=True,
                   activation_function=f"torch.nn.modules.{module}.{activation}"))
        safetensors.torch.save_file({"linear.weight": matrix.half(), "linear.bias": bias.half()},
                                    os.path.join(folder, name, "model.safetensors"))


@torch.no_grad()
def outputs(model, case, ids):
    """What is compared; see the head of this file."""
    types = types_of(model, len(ids))
    if case.auto in (LANGUAGE, MASKED, TOKENS):
        return call(model, [ids], [[0] * len(ids)]).logits[0]
    if case.auto == SPANS:
        answer = call(model, [ids], [[0] * len(ids)])
        return torch.stack([answer.start_logits[0], answer.end_logits[0]], dim=1)
    if case.auto == SCORED:
        return torch.stack([call(model, [ids[:n]], [types[:n]]).logits[0] for n in LENGTHS])
    longest = max(LENGTHS)
    pad = model.config.pad_token_id or 0
    fill = lambda row, n, with_: row[:n] + [with_] * (longest - n)
    if getattr(model.config, "use_bidirectional_attention", False):     # rows of padding would be no numbers
        batch = [call(model, [ids[:n]], [types[:n]]).last_hidden_state[0] for n in LENGTHS]
    else:
        batch = call(model, [fill(ids, n, pad) for n in LENGTHS], [fill(types, n, 0) for n in LENGTHS],
                     [fill([1] * longest, n, 0) for n in LENGTHS]).last_hidden_state
    pooled = torch.stack([batch[i][n - 1] if case.pool == "last" else batch[i][:n].mean(0)
                          for i, n in enumerate(LENGTHS)])
    whole = call(model, [ids], [[0] * len(ids)]).last_hidden_state[0]
    for matrix, bias, activation in dense_of(case, pooled.shape[1]):
        pooled = ACTIVATIONS[activation](pooled @ matrix.to(pooled.dtype).T + bias.to(pooled.dtype))
    return torch.cat([pooled / pooled.norm(dim=1, keepdim=True), whole])
