"""Heads that are not those of language models: labels of tokens, starts and ends of answers, scores of texts, none.

Each is a case of another table under another class: `make` of that case, `auto` of the head.
"""
from dataclasses import replace

import oracle_cases
import oracle_cases_dense
import oracle_cases_enc
import oracle_cases_encdec
import oracle_cases_kv
import oracle_cases_moe
from oracle_cases import Table, changed
from oracle_cases_enc import BARE, ENCODER, KEY_BIAS, LANGUAGE, SCORED, SPANS, TOKENS, UNUSED, labels

CASES = Table()
SOURCES = [m.CASES for m in (oracle_cases, oracle_cases_dense, oracle_cases_moe, oracle_cases_enc,
                             oracle_cases_encdec, oracle_cases_kv)]
PAD = 0     # no case draws it


def source(name):
    return next(table[name] for table in SOURCES if name in table)


def head(name, base, auto, **more):
    case = replace(source(base), auto=auto, own_head=False, quiet=KEY_BIAS + UNUSED + more.pop("quiet", ()))
    CASES[name] = changed(case, {**(labels(5) if auto == TOKENS else labels(3) if auto == SCORED else {}), **more,
                                 "auto": auto})


KINDS = dict(tokens=TOKENS, spans=SPANS, texts=SCORED, base=BARE)


def heads(base, *kinds, **more):
    for kind in kinds:
        head(f"{base}-{kind}", base, KINDS[kind], **more)


# encoders
for name in ("bert", "roberta", "electra", "distilbert", "albert", "mpnet", "jina3", "modernbert", "roberta-pre",
             "roberta-xl", "ernie", "xlmr", "camembert"):
    heads(name, "tokens", "spans")
for name in ("eurobert", "gte", "nomic"):
    heads(name, "tokens")

# decoders
for name in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gpt2", "mixtral", "phi3"):
    heads(name, "tokens", "texts", "base", pool="last", tie_word_embeddings=False)
for name in ("llama", "qwen3", "gpt2", "qwen3-moe", "neox", "bloom"):
    heads(name, "spans", pool="last")
for name in ("gemma3", "opt-125m", "phi", "starcoder2", "bloom", "neox", "gptj"):
    heads(name, "texts", "base", pool="last")
head("llama-padded", "llama", SCORED, pad_token_id=PAD, padded=True)
head("gpt2-padded", "gpt2", SCORED, pad_token_id=PAD, padded=True)
head("qwen3-base-tied", "qwen3", BARE, pool="last", tie_word_embeddings=True)

# decoders that see later tokens
TWO_WAYS = dict(use_bidirectional_attention=True)
head("gemma3-two-ways", "gemma3", BARE, **TWO_WAYS)
head("gemma3-two-ways-texts", "gemma3", SCORED, **TWO_WAYS)
for name in ("llama", "mistral", "qwen2-window", "gemma2", "qwen3-moe"):
    head(f"{name}-uncausal", name, LANGUAGE, is_causal=False)
head("qwen2-uncausal-base", "qwen2", BARE, is_causal=False)

# modules of sentence-transformers; the last gives rows of the model's own width, beside which the states are compared
head("bert-dense", "bert", BARE, dense=((37, "Tanh"), ("dim", "Identity")))
head("gemma3-dense", "gemma3", BARE, dense=((90, "Identity"), ("dim", "Identity")), **TWO_WAYS)
head("qwen3-dense", "qwen3", BARE, pool="last", dense=(("dim", "ReLU"),))

# encoder-decoders: a text head reads the last end token, which is the last but one of each text; and encoders alone
for name in ("bart", "t5", "t5-gated", "umt5", "mt5"):
    head(f"{name}-texts", name, SCORED, ended=True, eos_token_id=2)
for name in ("bart", "t5", "umt5"):
    heads(name, "spans")
for name in ("t5", "t5-gated", "mt5", "umt5"):
    spec = "t5_encoder" if name.startswith("t5") else "mt5_encoder"
    head(f"{name}-encoder", name, ENCODER, spec=spec)
    heads(name, "tokens", spec=spec)

# later tokens are seen, and keys of earlier layers read
head("gemma4-two-ways", "gemma4", LANGUAGE, use_bidirectional_attention="all")

# encoder-decoders whose decoder begins with the text's last token that is no padding; no case draws 0
for name in ("mbart", "plbart"):
    head(f"{name}-texts", name, SCORED, ended=True, eos_token_id=2, pad_token_id=PAD)
head("mbart-spans", "mbart", SPANS, pad_token_id=PAD)
