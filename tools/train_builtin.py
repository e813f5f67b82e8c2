#!/usr/bin/env python3
"""Trains the small built-in model: a Llama-style decoder of a few million parameters on public-domain novels.

    python tools/train_builtin.py prepare  --data books.txt.xz --out DIR     clean text, tokenizer, token files
    python tools/train_builtin.py train    --out DIR --minutes 75            constant learning rate, resumable
    python tools/train_builtin.py cooldown --out DIR --minutes 25            learning rate to zero, from the checkpoint
    python tools/train_builtin.py eval     --out DIR                         held-out perplexity per token, byte, word
    python tools/train_builtin.py sample   --out DIR --prompt "It was"       look at what it writes
    python tools/train_builtin.py export   --out DIR                         Hugging Face directory DIR/hf

The text is one file of books, separated by <|endoftext|>, each opening with "Title:" lines and a rule of dashes. One
whole book is held out. The schedule is warm-up, constant, decay (Hu et al. 2024, "MiniCPM", section 4): `train` can
be called again and again and always goes on from DIR/stable.pt; `cooldown` starts from that file, leaves it alone and
writes DIR/cooled.pt, so that a usable model exists whenever it is wanted and a later, longer run loses nothing. The
matrices of the blocks are trained by Muon (Jordan et al. 2024), the rest by AdamW. Rows of 256 tokens teach most per
second on a CPU; in the last part of the cooldown every other step uses rows of 2048, so that the whole context works:
with little time left, copy cooled.pt to stable.pt of another DIR and cool that down from a low rate with --long-from 0.
A tenth of the rows are conversations, cut from runs of quoted speech, in the form of the chat template.

Uses a GPU where torch finds one (there, --micro 65536 --length 512). On a CPU one thread at low priority is enough:
nice -n 19. A stopped run loses at most --check steps. tools/export_builtin.py turns the exported weights into
specs/builtin.gguf. Needs the Python packages torch (2.9 or newer), numpy, tokenizers and safetensors.
"""
import argparse
import json
import lzma
import math
import os
import re
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BOS, EOS, USER, ASSISTANT = range(4)
SPECIALS = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>"]
SHAPE = {"vocab": 4096, "dim": 256, "layers": 6, "heads": 4, "kv_heads": 2, "ffn": 704, "context": 2048}
HELD_OUT = "The Strange Case of Dr. Jekyll and Mr. Hyde"
# Scripture, plays, verse, a heap of clippings: not laid out as a novel is, which is all that so small a model can
# learn.
LEFT_OUT = {
    "The Quran", "Poems: Three Series", "Twelfth Night", "Julius Caesar", "The Cherry Orchard", "Faust",
    "The Book of the Damned",
}
# Turns are opened by <|user|> or <|assistant|> and closed by <|eos|>. A system message is narration ahead of the talk.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<|user|>' + message['content'] + eos_token }}"
    "{% elif message['role'] == 'assistant' %}{{ '<|assistant|>' + message['content'] + eos_token }}"
    "{% else %}{{ message['content'] + '\\n\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


# ---------------------------------------------------------------------------------------------------------------- text


def clean(text):
    """Plain quotes and spaces, UTF-8 that was read as Latin-1 repaired, at most one empty line between paragraphs."""

    def repair(match):
        try:
            return match.group(0).encode("latin-1").decode("utf-8")
        except UnicodeError:
            return match.group(0)

    text = re.sub("[\xc2-\xef][\x80-\xbf]{1,2}", repair, text.replace("\r\n", "\n"))
    text = text.translate({0x2018: "'", 0x2019: "'", 0xB4: "'", 0x201C: '"', 0x201D: '"', 0xA0: " ", 0x09: " ",
                           0xFEFF: None})
    text = re.sub("[\x00-\x09\x0b-\x1f\x7f-\x9f]", "", text)
    text = re.sub(r"\[(Illustration|Footnote|Transcriber)[^\]]*\]", "", text)
    lines = [re.sub(" {2,}", " ", line).strip() for line in text.split("\n")]
    lines = [line for line in lines if not re.fullmatch(r"[-*_=|. ]{3,}", line)]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def read_books(path):
    """List of (title, text) in file order; the header of each book is dropped."""
    opener = lzma.open if str(path).endswith(".xz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        parts = file.read().split("<|endoftext|>")
    books = []
    for part in parts:
        head, rule, body = part.partition("\n-------\n")
        title = re.search(r"^Title: *(.*?) *$", head, re.M)
        if title and rule:
            books.append((title.group(1), clean(re.sub(r"\A\s*Translated [^\n]*\n", "", body))))
    return books


def spoken(paragraph):
    """What is said aloud in a paragraph that opens with a quotation mark; None if it is not plain speech."""
    if not paragraph.startswith('"') or paragraph.count('"') % 2 or "\n" in paragraph:
        return None
    said = " ".join(part.strip() for part in paragraph.split('"')[1::2])
    said = re.sub(r",(?= [A-Z](?!\b)|$)", ".", said)
    return said if 2 <= len(said) <= 600 else None


def conversations(text):
    """Runs of two or more speeches in a row: (the paragraph before them or None, [speech, ...])."""
    before, run = None, []
    for paragraph in text.split("\n\n"):
        said = spoken(paragraph.strip())
        if said:
            run.append(said)
            continue
        if len(run) >= 2:
            yield before, run
        before, run = paragraph.strip(), []
    if len(run) >= 2:
        yield before, run


def train_tokenizer(texts, vocab):
    """Byte-level BPE with the pre-tokenization of GPT-2; the special tokens come first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=SPECIALS, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tok.train_from_iterator(texts, trainer)
    tok.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A <|bos|> $B", special_tokens=[("<|bos|>", BOS)]
    )
    return tok


def prepare(args):
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    books = read_books(args.data)
    held = [text for title, text in books if title == HELD_OUT]
    if len(held) != 1:
        raise SystemExit(f"{args.data}: the held-out book '{HELD_OUT}' is not there")
    texts = [text for title, text in books if title != HELD_OUT and title not in LEFT_OUT]
    tok = train_tokenizer([p for t in texts for p in re.split(r"(?<=\n\n)", t)], args.vocab)
    tok.save(str(out / "tokenizer.json"))

    def encode(text):
        return tok.encode(text, add_special_tokens=False).ids

    stream = []
    for text in texts:
        stream += [BOS] + encode(text) + [EOS]
    talk = []
    for text in texts:
        for before, run in conversations(text):
            talk += [BOS]
            if before and len(before) < 800 and len(talk) % 2:
                talk += encode(before + "\n\n")
            for i, said in enumerate(run[:12]):
                talk += [ASSISTANT if i % 2 else USER] + encode(said) + [EOS]
    np.save(out / "train.npy", np.array(stream, np.uint16))
    np.save(out / "talk.npy", np.array(talk, np.uint16))
    np.save(out / "held.npy", np.array(encode(held[0]), np.uint16))
    (out / "held.txt").write_text(held[0], encoding="utf-8")
    size = sum(len(t.encode()) for t in texts)
    print(f"{len(texts)} books, {size} bytes, {len(stream)} tokens ({size / len(stream):.2f} bytes each)")
    print(f"{len(talk)} tokens of conversations")
    print(f"held out: {HELD_OUT}, {len(held[0].encode())} bytes")


# --------------------------------------------------------------------------------------------------------------- model


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        dim, hidden, depth = shape["dim"], shape["ffn"], shape["layers"]
        self.heads, self.kv_heads, self.head_dim = shape["heads"], shape["kv_heads"], dim // shape["heads"]
        self.attn_norm = nn.Parameter(torch.ones(dim))
        self.ffn_norm = nn.Parameter(torch.ones(dim))
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, self.kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(dim, self.kv_heads * self.head_dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        for linear in (self.q, self.k, self.v, self.gate, self.up):
            nn.init.normal_(linear.weight, std=dim**-0.5 / 2)
        for linear in (self.o, self.down):
            nn.init.normal_(linear.weight, std=dim**-0.5 / 2 / math.sqrt(2 * depth))

    def forward(self, x, cos, sin):
        rows, length, dim = x.shape
        h = F.rms_norm(x, (dim,), self.attn_norm, 1e-5)
        q = turn(self.q(h).view(rows, length, self.heads, self.head_dim), cos, sin).transpose(1, 2)
        k = turn(self.k(h).view(rows, length, self.kv_heads, self.head_dim), cos, sin).transpose(1, 2)
        v = self.v(h).view(rows, length, self.kv_heads, self.head_dim).transpose(1, 2)
        share = self.heads // self.kv_heads
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        a = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(rows, length, dim))
        h = F.rms_norm(x, (dim,), self.ffn_norm, 1e-5)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def turn(x, cos, sin):
    """Rotary positions, halves form: x[rows, length, heads, head_dim], cos and sin [length, 1, head_dim / 2]."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape["vocab"], shape["dim"])
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["layers"]))
        self.norm = nn.Parameter(torch.ones(shape["dim"]))
        half = shape["dim"] // shape["heads"] // 2
        angle = torch.arange(shape["context"])[:, None, None] * shape["theta"] ** (-torch.arange(half) / half)
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)

    def hidden(self, ids):
        x = self.embed(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return F.rms_norm(x, (x.shape[-1],), self.norm, 1e-5)

    def forward(self, ids, targets):
        """Mean cross entropy in nats; ids and targets [rows, length]."""
        logits = F.linear(self.hidden(ids), self.embed.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


# ------------------------------------------------------------------------------------------------------------ training


class Batches:
    """Rows of length + 1 tokens. Book rows begin at a paragraph and are drawn without repetition within a pass through
    the books; a share of the rows is taken from the conversations. Everything follows from the number of the step, so a
    resumed run goes on with the rows that the stopped one would have had."""

    def __init__(self, out, talk_share, seed):
        self.tokens = np.load(Path(out) / "train.npy")
        self.talk = np.load(Path(out) / "talk.npy")
        ends = np.flatnonzero(self.tokens == newline_id(out))
        starts = ends[1:][np.diff(ends) == 1] + 1
        self.starts = np.sort(np.concatenate((starts, np.flatnonzero(self.tokens == BOS) + 1)))
        self.turns = np.flatnonzero(self.talk == BOS)
        self.talk_share, self.seed = talk_share, seed

    def book_row(self, index, length):
        blocks = (len(self.tokens) - 2 * length - 2) // length
        lap, place = divmod(index, blocks)
        rng = np.random.default_rng((self.seed, length, lap))
        at = rng.permutation(blocks)[place] * length + rng.integers(length)
        at = self.starts[min(np.searchsorted(self.starts, at), len(self.starts) - 1)]
        return np.concatenate(([BOS], self.tokens[min(at, len(self.tokens) - length) :][:length]))

    def talk_row(self, rng, length):
        at = self.turns[rng.integers(len(self.turns))]
        at = min(at, self.turns[np.searchsorted(self.turns, len(self.talk) - length - 1) - 1])
        return self.talk[at : at + length + 1]

    def batch(self, step, rows, length, device):
        rng = np.random.default_rng((self.seed, step))
        talk = int(rows * self.talk_share + rng.random())
        got = [self.book_row(step * rows + i, length) for i in range(rows - talk)]
        got += [self.talk_row(rng, length) for _ in range(talk)]
        got = torch.from_numpy(np.stack(got).astype(np.int64)).to(device)
        return got[:, :-1], got[:, 1:]


def newline_id(out):
    return json.loads((Path(out) / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]["\u010a"]


def optimizers(model, lr):
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    rest = [model.embed.weight] + [p for p in model.parameters() if p.ndim == 1]
    return [
        torch.optim.Muon(matrices, lr=lr, momentum=0.95, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.95), weight_decay=0.0, fused=model.norm.is_cuda),
    ]


def save(path, model, opts, **state):
    part = path.with_suffix(".part")
    torch.save({"model": model.state_dict(), "opts": [o.state_dict() for o in opts], "shape": model.shape, **state},
               part)
    os.replace(part, path)


@torch.no_grad()
def held_loss(model, out, length, device, limit=None):
    """Sum of nats over the held-out book and the number of tokens: windows of `length`, each after BOS."""
    tokens = torch.from_numpy(np.load(Path(out) / "held.npy").astype(np.int64))[:limit]
    total = 0.0
    for at in range(0, len(tokens), length):
        row = torch.cat((torch.tensor([BOS]), tokens[at : at + length])).to(device)[None]
        with torch.autocast(device, torch.bfloat16):
            total += float(model(row[:, :-1], row[:, 1:])) * (row.shape[1] - 1)
    return total, len(tokens)


def report(out, nats, count):
    text = (Path(out) / "held.txt").read_text(encoding="utf-8")
    whole = len(np.load(Path(out) / "held.npy"))
    share = count / whole
    per = {"token": count, "byte": len(text.encode()) * share, "word": len(text.split()) * share}
    return ", ".join(f"{name} {math.exp(nats / n):.3f}" for name, n
                     in per.items()) + f" (loss {nats / count:.4f} nats a token)"


def run(args):
    """Trains for args.minutes, at a constant rate into stable.pt, or from there with a falling rate into cooled.pt."""
    cooldown, out, device = args.cooldown, Path(args.out), "cuda" if torch.cuda.is_available() else "cpu"
    stable, target = out / "stable.pt", out / ("cooled.pt" if cooldown else "stable.pt")
    torch.manual_seed(args.seed)
    state = torch.load(stable, map_location="cpu", weights_only=True) if stable.exists() else None
    if state is None and cooldown:
        raise SystemExit(f"{stable}: nothing to cool down, run train first")
    shape = state["shape"] if state else {"theta": 10000.0, **{key: getattr(args, key) for key in SHAPE}}
    model = Model(shape).to(device)
    opts = optimizers(model, args.lr)
    step = seen = 0
    if state:
        model.load_state_dict(state["model"])
        for opt, saved in zip(opts, state["opts"]):
            opt.load_state_dict(saved)
        step, seen = state["step"], state["seen"]
    batches = Batches(out, args.talk, args.seed)
    forward = torch.compile(model, dynamic=False) if args.compile else model
    count = sum(p.numel() for p in model.parameters())
    print(f"{count} parameters, {len(batches.tokens)} tokens, from step {step} ({seen} tokens), on {device}",
          flush=True)
    begin = last = time.time()
    losses, since = [], 0
    while True:
        progress = (time.time() - begin) / (60 * args.minutes)
        if progress >= 1 or (args.steps and step >= args.steps):
            break
        factor = min(1.0, (step + 1) / args.warmup)
        if cooldown:
            factor *= 1 - math.sqrt(progress)
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] = args.lr * factor
        long = cooldown and progress > args.long_from and step % 2
        length = shape["context"] if long else args.length
        rows = max(1, args.batch // length)
        ids, targets = batches.batch(step, rows, length, device)
        part = max(1, min(rows, args.micro // length))
        loss = 0.0
        for at in range(0, rows, part):
            with torch.autocast(device, torch.bfloat16, enabled=args.bf16):
                piece = forward(ids[at : at + part], targets[at : at + part]) * (min(part, rows - at) / rows)
            piece.backward()
            loss += float(piece.detach())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        step, seen, since = step + 1, seen + rows * length, since + rows * length
        losses.append(loss)
        if step % args.log == 0:
            now = time.time()
            print(f"step {step} seen {seen} length {length} rate {args.lr * factor:.2e} loss {np.mean(losses):.4f} "
                  f"{since / (now - last):.0f} tokens/s {(now - begin) / 60:.1f} min", flush=True)
            losses, since, last = [], 0, now
        if step % args.check == 0:
            save(target, model, opts, step=step, seen=seen)
            nats, n = held_loss(model, out, args.length, device, 16384)
            print(f"step {step} held-out perplexity per {report(out, nats, n)}", flush=True)
            last += time.time() - now if step % args.log == 0 else 0
    save(target, model, opts, step=step, seen=seen)
    nats, n = held_loss(model, out, shape["context"], device)
    print(f"end: step {step}, {seen} tokens seen; whole held-out book, perplexity per {report(out, nats, n)}")


# ------------------------------------------------------------------------------------------------------------- looking


def newest(out):
    """The cooled checkpoint where it is the newer one, else the stable one."""
    have = [p for p in (Path(out) / "cooled.pt", Path(out) / "stable.pt") if p.exists()]
    if not have:
        raise SystemExit(f"{out}: no checkpoint")
    return max(have, key=lambda p: p.stat().st_mtime)


def load(args):
    path = Path(args.checkpoint) if args.checkpoint else newest(args.out)
    state = torch.load(path, map_location="cpu", weights_only=True)
    model = Model(state["shape"])
    model.load_state_dict(state["model"])
    print(f"{path.name}: step {state['step']}, {state['seen']} tokens seen")
    return model.eval()


def evaluate(args):
    model = load(args)
    for length in (512, model.shape["context"]):
        nats, n = held_loss(model, args.out, length, "cpu")
        print(f"held-out '{HELD_OUT}', windows of {length}: perplexity per {report(args.out, nats, n)}")


@torch.no_grad()
def sample(args):
    from tokenizers import Tokenizer

    model, tok = load(args), Tokenizer.from_file(str(Path(args.out) / "tokenizer.json"))
    torch.manual_seed(args.seed)
    for prompt in args.prompt:
        ids = tok.encode(prompt).ids
        if args.chat:
            ids = [BOS, USER] + ids[1:] + [EOS, ASSISTANT]
        start = len(ids)
        while len(ids) < start + args.tokens and len(ids) < model.shape["context"]:
            logits = F.linear(model.hidden(torch.tensor([ids]))[0, -1], model.embed.weight)
            ids.append(int(torch.multinomial(torch.softmax(logits / args.temperature, -1), 1)))
            if ids[-1] == EOS:
                break
        print(f"--- {prompt}|{tok.decode(ids[start:])}\n", flush=True)


def hf_names(model):
    """Our parameters under the names of the Llama checkpoint layout."""
    yield "model.embed_tokens.weight", model.embed.weight
    yield "model.norm.weight", model.norm
    for i, block in enumerate(model.blocks):
        for theirs, ours in (("input_layernorm", block.attn_norm), ("post_attention_layernorm", block.ffn_norm)):
            yield f"model.layers.{i}.{theirs}.weight", ours
        for name in ("q", "k", "v", "o"):
            yield f"model.layers.{i}.self_attn.{name}_proj.weight", getattr(block, name).weight
        for name in ("gate", "up", "down"):
            yield f"model.layers.{i}.mlp.{name}_proj.weight", getattr(block, name).weight


def export(args):
    """Writes config.json, model.safetensors (f32), the tokenizer and the generation defaults to OUT/hf."""
    from safetensors.torch import save_file

    model, hf = load(args), Path(args.out) / "hf"
    shape = model.shape
    hf.mkdir(exist_ok=True)
    save_file({name: p.detach().contiguous() for name, p in hf_names(model)}, hf / "model.safetensors",
              {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "float32",
        "vocab_size": shape["vocab"], "hidden_size": shape["dim"], "intermediate_size": shape["ffn"],
        "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape["dim"] // shape["heads"], "max_position_embeddings": shape["context"],
        "rope_theta": shape["theta"],
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
        "bos_token_id": BOS, "eos_token_id": EOS,
    }
    names = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIALS[BOS], "eos_token": SPECIALS[EOS],
        "add_bos_token": True, "model_max_length": shape["context"], "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    generation = {"bos_token_id": BOS, "eos_token_id": EOS, "do_sample": True, "temperature": 0.7, "top_p": 0.95}
    for name, value in (("config", config), ("tokenizer_config", names), ("generation_config", generation)):
        (hf / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    (hf / "tokenizer.json").write_bytes((Path(args.out) / "tokenizer.json").read_bytes())
    print(f"{hf}: {sum(p.numel() for p in model.parameters())} parameters")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, what, function):
        sub = commands.add_parser(name, help=what, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        sub.set_defaults(function=function)
        sub.add_argument("--out", required=True, help="working directory of the training")
        sub.add_argument("--threads", type=int, default=1, help="CPU threads")
        sub.add_argument("--seed", type=int, default=1)
        return sub

    sub = command("prepare", "clean the text, train the tokenizer, write token files", prepare)
    sub.add_argument("--data", required=True, help="the books, .txt or .txt.xz")
    sub.add_argument("--vocab", type=int, default=SHAPE["vocab"])
    for name, cooldown in (("train", False), ("cooldown", True)):
        sub = command(name, "lower the learning rate to zero" if cooldown else "train at a constant learning rate", run)
        sub.set_defaults(cooldown=cooldown)
        sub.add_argument("--minutes", type=float, required=True, help="how long this run lasts")
        sub.add_argument("--steps", type=int, default=0, help="stop at this step (0: no limit)")
        sub.add_argument("--lr", type=float, default=4e-3, help="learning rate of the constant part")
        sub.add_argument("--warmup", type=int, default=100, help="steps of warm-up")
        sub.add_argument("--batch", type=int, default=8192, help="tokens a step")
        sub.add_argument("--micro", type=int, default=2048, help="tokens a forward pass")
        sub.add_argument("--length", type=int, default=256, help="tokens a row")
        sub.add_argument("--long-from", type=float, default=0.7,
                         help="part of the cooldown before every other step has rows of the whole context")
        sub.add_argument("--talk", type=float, default=0.1, help="share of rows that are conversations")
        sub.add_argument("--log", type=int, default=20, help="steps between lines of the log")
        sub.add_argument("--check", type=int, default=100, help="steps between checkpoints and held-out losses")
        sub.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="bf16 autocast")
        sub.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="torch.compile")
        for key, value in SHAPE.items():
            sub.add_argument(f"--{key.replace('_', '-')}", type=int, default=value, help="shape of a new model")
    for name, what, function in (("eval", "perplexity on the held-out book", evaluate),
                                 ("sample", "print samples", sample),
                                 ("export", "write the Hugging Face directory", export)):
        sub = command(name, what, function)
        sub.add_argument("--checkpoint", help="a checkpoint file (default: the newest in OUT)")
        if name == "sample":
            sub.add_argument("--prompt", action="append", required=True, help="may be given several times")
            sub.add_argument("--temperature", type=float, default=0.7)
            sub.add_argument("--tokens", type=int, default=150)
            sub.add_argument("--chat", action="store_true", help="the prompt is a user's turn")
    return parser.parse_args()


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    args.function(args)


if __name__ == "__main__":
    main()
