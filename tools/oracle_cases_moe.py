"""Tiny models with experts, and with compressed keys and values."""
from oracle_cases import Case, hf, rms, rope


def moe(s, **more):
    """Three of seven experts: neither number is a default, and their product is no power of two."""
    return rms(s, **{**dict(num_experts_per_tok=3, tie_word_embeddings=False), **more})


CASES = {
    "mixtral":          Case("MixtralConfig", "mixtral", lambda s: moe(
        s, num_local_experts=7, head_dim=s.hd, sliding_window=s.window)),
}
