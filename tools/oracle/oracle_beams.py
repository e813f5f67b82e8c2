"""Beam search of transformers on some of the committed models: what the engine's must give, as
tests/vectors/beams.json.

A list of cases: model, what the encoder reads (`enc`, where there is one), prompt, eos ids (taken from what the model
likes to say, so that texts end at various lengths), parameters as generate calls them, and the best text: its tokens
without the end token, its score, whether an end token ended it.
"""
import collections
import json
import os

import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

MODELS = ("t5", "bart", "m2m-100", "marian-two", "gpt2", "gemma2", "lfm2-bias")
# beams, length_penalty, early_stopping, new tokens, tokens of the prompt
SETTINGS = ((4, 1.0, False, 20, 4), (4, 2.0, True, 24, 2), (4, 0.0, "never", 16, 6), (3, -1.0, False, 30, 2),
            (4, 1.0, True, 60, 3), (2, 1.0, False, 1, 5), (4, 0.6, "never", 40, 40))


def load(folder):
    with open(os.path.join(folder, "config.json")) as f:
        seq2seq = json.load(f).get("is_encoder_decoder", False)
    auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
    model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    model.generation_config = transformers.GenerationConfig()       # no forced ends
    return model


def search(model, enc, prompt, eos, beams, penalty, early, new):
    inputs = dict(input_ids=torch.tensor([enc]), decoder_input_ids=torch.tensor([prompt])) if enc else \
        dict(input_ids=torch.tensor([prompt]))
    out = model.generate(**inputs, attention_mask=torch.ones_like(inputs["input_ids"]),
                         generation_config=transformers.GenerationConfig(
                             max_new_tokens=new, num_beams=beams, length_penalty=penalty, early_stopping=early,
                             do_sample=False, eos_token_id=eos, pad_token_id=0, return_dict_in_generate=True,
                             decoder_start_token_id=prompt[0] if enc else None, output_scores=True))
    tokens = out.sequences[0, len(prompt):].tolist()
    ended = next((i for i, t in enumerate(tokens) if t in eos), None)
    return tokens[:ended], float(out.sequences_scores[0]), ended is not None


def cases_of(vectors, name):
    with open(os.path.join(vectors, name, "expect.json")) as f:
        expect = json.load(f)
    model = load(os.path.join(vectors, name))
    liked = [t for t, _ in collections.Counter(expect["greedy"]).most_common()]
    for n, (beams, penalty, early, new, length) in enumerate(SETTINGS):
        eos = [liked[len(liked) // 2], liked[-1]] if n % 2 == 0 else [liked[0]]
        prompt = expect["ids"][:length]
        ids, score, ended = search(model, expect.get("enc"), prompt, eos, beams, penalty, early, new)
        yield dict(model=name, enc=expect.get("enc", []), prompt=prompt, eos=eos, beams=beams, length_penalty=penalty,
                   early_stopping=early, max_tokens=new, ids=ids, score=float(f"{score:.7g}"), ended=ended)


def write_beams(vectors, path):
    cases = [c for name in MODELS for c in cases_of(vectors, name)]
    with open(path, "w") as f:
        f.write("[" + ",\n ".join(json.dumps(c) for c in cases) + "]\n")
    return cases
