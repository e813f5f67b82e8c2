"""DeBERTa 1, 2 and 3: every kind of score, of distances and of heads. Spans are shorter than the tested sequence."""
from oracle_cases import Table
from oracle_cases_enc import BARE, MASKED, SCORED, SPANS, TOKENS, encoder, labels, smaller

BOTH = ["c2p", "p2c"]
# Softmax removes what adds the same to all scores of a query; keys with places do more than that.
PLACE_BIAS = ("pos_key_proj.bias",)
KEY_BIAS = ("key_proj.bias",)

CASES = Table()
like = CASES.like


def first(s):
    return dict(encoder(s), relative_attention=True, max_relative_positions=23, position_biased_input=False,
                type_vocab_size=0, pos_att_type=BOTH)


def second(s):
    return dict(first(s), position_buckets=10, max_relative_positions=61)


def third(s):
    """As microsoft/deberta-v3 has it."""
    return dict(first(s), position_buckets=16, max_relative_positions=-1, norm_rel_ebd="layer_norm",
                share_att_key=True)


def xlarge(s):
    return dict(third(s), conv_kernel_size=3, conv_act="gelu",
                attention_head_size=s.dim // s.heads)


def family(name, config, spec, make, quiet=()):
    CASES.case(name, config, spec, make, auto=MASKED, quiet=quiet)
    like(name + "-scores", name, **labels(3))
    like(name + "-tokens", name, **{**labels(5), "auto": TOKENS})
    like(name + "-spans", name, auto=SPANS)
    like(name + "-bare", name, auto=BARE)


family("deberta", "DebertaConfig", "deberta", first)
like("deberta-rows", "deberta", pos_att_type=["c2p"])
like("deberta-keys", "deberta", pos_att_type=["p2c"])
like("deberta-three", "deberta", pos_att_type=["c2p", "p2c", "p2p"], auto=BARE)
like("deberta-plain", "deberta", relative_attention=False, position_biased_input=True, type_vocab_size=3, auto=BARE)
like("deberta-narrow", "deberta", embedding_size=smaller, type_vocab_size=3, position_biased_input=True)
like("deberta-narrow-bare", "deberta-narrow", auto=BARE)
like("deberta-others", "deberta", conv_kernel_size=3, position_buckets=8, share_att_key=True, auto=BARE)
like("deberta-head", "deberta", legacy=False, hidden_act="relu")
like("deberta-untied", "deberta", tie_word_embeddings=False, quiet=("predictions.bias",))
like("deberta-pooler", "deberta", **labels(2), pooler_hidden_act="tanh", max_relative_positions=-1)

family("deberta2", "DebertaV2Config", "deberta_v2", second, quiet=PLACE_BIAS)
like("deberta2-exact", "deberta2", position_buckets=-1, max_relative_positions=19, auto=BARE)
like("deberta2-rows", "deberta2", pos_att_type=["c2p"], quiet=PLACE_BIAS + KEY_BIAS)
like("deberta2-keys", "deberta2", pos_att_type=["p2c"])
like("deberta2-odd", "deberta2", position_buckets=9, max_relative_positions=40, auto=BARE)
like("deberta2-none", "deberta2", pos_att_type=[], auto=BARE, quiet=KEY_BIAS + ("rel_embeddings",))
like("deberta2-plain", "deberta2", relative_attention=False, position_biased_input=True, type_vocab_size=3, auto=BARE,
     quiet=KEY_BIAS)
like("deberta2-narrow", "deberta2", embedding_size=smaller, position_biased_input=True)
like("deberta2-head", "deberta2", legacy=False, hidden_act="gelu_new")
like("deberta2-untied", "deberta2", tie_word_embeddings=False, quiet=PLACE_BIAS + ("predictions.bias",))
like("deberta2-pooler", "deberta2", **labels(1), pooler_hidden_act="tanh")
family("deberta3", "DebertaV2Config", "deberta_v2", third)
like("deberta3-rows", "deberta3", pos_att_type=["c2p"], auto=BARE, quiet=KEY_BIAS + ("encoder.LayerNorm.bias",))
like("deberta3-unnormed", "deberta3", norm_rel_ebd="none", auto=BARE)
like("deberta3-apart", "deberta3", share_att_key=False, quiet=PLACE_BIAS)
family("deberta2-xlarge", "DebertaV2Config", "deberta_v2", xlarge)
like("deberta2-conv", "deberta2", conv_kernel_size=5, quiet=PLACE_BIAS, auto=BARE)
