"""Encoders: every family with its masked-language head, as a classifier, and bare (its states, for embeddings)."""
from dataclasses import dataclass

from oracle_cases import Case, pattern, rope


@dataclass(frozen=True)
class Encoder(Case):
    auto: str = "AutoModel"     # class of transformers that makes the model


MASKED, SCORED, BARE = "AutoModelForMaskedLM", "AutoModelForSequenceClassification", "AutoModel"
# Softmax removes what adds the same to all scores of a query.
KEY_BIAS = ("key.bias", "k_lin.bias", "attn.k.bias", "k_proj.bias")
UNUSED = ("pooler", "seq_relationship", "sop_classifier")


def encoder(s, **more):
    """Names most encoders share. Token types are 0 and 1 by turns; a vocabulary of 3 shows what looks up another
    one."""
    return {**dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=s.layers,
                   num_attention_heads=s.heads, max_position_embeddings=s.ctx, layer_norm_eps=3e-3,
                   pad_token_id=0, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), **more}


def typed(s, **more):
    return encoder(s, **{**dict(type_vocab_size=3), **more})


def distilbert(s, **more):
    return dict(dim=s.dim, hidden_dim=s.ffn, n_layers=s.layers, n_heads=s.heads, max_position_embeddings=s.ctx,
                dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, **more)


def modernbert(s, **more):
    layers = s.layers + 1
    return {**dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=layers, num_attention_heads=s.heads,
                   max_position_embeddings=s.ctx, norm_eps=3e-3, local_attention=2 * s.window + 1, pad_token_id=0,
                   cls_token_id=1, sep_token_id=2, layer_types=pattern(layers, 2, "full_attention",
                                                                       "sliding_attention"),
                   rope_parameters=dict(sliding_attention=rope(300.0), full_attention=rope(5000.0))), **more}


def eurobert(s, **more):
    return {**dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=s.layers, num_attention_heads=s.heads,
                   num_key_value_heads=s.kv, max_position_embeddings=s.ctx, rms_norm_eps=3e-3, pad_token_id=0,
                   rope_parameters=rope(), tie_word_embeddings=False), **more}


def labels(make, n=3, **more):
    """The same as a classifier of n classes."""
    return lambda s: {**make(s), **dict(id2label={i: f"label {i}" for i in range(n)},
                                        label2id={f"label {i}": i for i in range(n)}), **more}


def family(config, spec, make, quiet=(), masked=True, bare=True, own_head="", **more):
    """The cases of a family by the class that is built. own_head: also with a head that is not tied; then the parameter
    of this name has no use."""
    quiet = KEY_BIAS + UNUSED + tuple(quiet)
    found = {}
    if masked:
        found[""] = Encoder(config, spec, make, auto=MASKED, quiet=quiet, **more)
    if own_head:
        found["-head"] = Encoder(config, spec, lambda s: {**make(s), "tie_word_embeddings": False}, auto=MASKED,
                                 quiet=quiet + (own_head,), **more)
    found["-scores"] = Encoder(config, spec, labels(make), auto=SCORED, quiet=quiet, **more)
    if bare:
        found["-bare"] = Encoder(config, spec, make, auto=BARE, quiet=quiet, **more)
    return found


def named(name, cases):
    return {name + suffix: case for suffix, case in cases.items()}


CASES = {
    **named("bert", family("BertConfig", "bert", typed)),
    "bert-relu": Encoder("BertConfig", "bert", lambda s: typed(s, hidden_act="relu", tie_word_embeddings=False),
                         auto=MASKED,
                      quiet=KEY_BIAS + ("predictions.bias",)),
    "bert-single": Encoder("BertConfig", "bert", labels(typed, 1), auto=SCORED, quiet=KEY_BIAS),
    **named("roberta", family("RobertaConfig", "roberta", lambda s: typed(s, pad_token_id=1, type_vocab_size=1),
                               own_head="lm_head.bias")),
    **named("xlmr", family("XLMRobertaConfig", "roberta", lambda s: encoder(s, pad_token_id=2, type_vocab_size=1),
                           bare=False)),
    **named("camembert", family("CamembertConfig", "roberta", lambda s: encoder(s, pad_token_id=1, type_vocab_size=1),
                                bare=False)),
    **named("roberta-xl", family("XLMRobertaXLConfig", "xlm_roberta_xl",
                                 lambda s: encoder(s, pad_token_id=1, type_vocab_size=1))),
    **named("roberta-pre", family("RobertaPreLayerNormConfig", "roberta_prelayernorm",
                                  lambda s: encoder(s, pad_token_id=1, type_vocab_size=1))),
    **named("ernie", family("ErnieConfig", "ernie", typed, bare=False)),
    **named("albert", family("AlbertConfig", "albert", lambda s: typed(s, embedding_size=s.dim // 2 + 3,
                                                                       classifier_dropout_prob=0.0),
                              own_head="predictions.bias")),
    "albert-groups": Encoder("AlbertConfig", "albert", lambda s: typed(
        s, embedding_size=s.dim // 2 + 3, num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2,
        hidden_act="gelu"), auto=MASKED, quiet=KEY_BIAS),
    **named("electra", family("ElectraConfig", "electra", lambda s: typed(s, embedding_size=s.dim // 2 + 3),
                              own_head="none")),
    "electra-wide": Encoder("ElectraConfig", "electra", lambda s: typed(s, embedding_size=s.dim), auto=MASKED,
                         quiet=KEY_BIAS),
    **named("distilbert", family("DistilBertConfig", "distilbert", distilbert, own_head="none")),
    **named("mpnet", family("MPNetConfig", "mpnet", lambda s: encoder(s, pad_token_id=1))),
    **named("nomic", family("NomicBertConfig", "nomic_bert", lambda s: typed(s, rope_parameters=rope()))),
    **named("gte", family("GteConfig", "gte", lambda s: typed(s, rope_parameters=rope()), own_head="none")),
    "gte-untyped": Encoder("GteConfig", "gte", lambda s: encoder(s, type_vocab_size=0, rope_parameters=rope()),
                           auto=BARE,
                        quiet=KEY_BIAS + UNUSED),
    **named("jina3", family("JinaEmbeddingsV3Config", "jina_embeddings_v3",
                            lambda s: typed(s, rope_parameters=rope()))),
    **named("modernbert", family("ModernBertConfig", "modernbert", modernbert, own_head="none")),
    "modernbert-thirds": Encoder("ModernBertConfig", "modernbert", lambda s: modernbert(s, layer_types=[
        "sliding_attention" if i % 3 else "full_attention" for i in range(s.layers + 1)]), auto=BARE, quiet=KEY_BIAS),
    "modernbert-biases": Encoder("ModernBertConfig", "modernbert", labels(
        modernbert, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True,
        classifier_pooling="mean", classifier_activation="relu", hidden_activation="silu"), auto=SCORED,
                                 quiet=KEY_BIAS),
    **named("eurobert", family("EuroBertConfig", "eurobert", eurobert)),
    "eurobert-bos": Encoder("EuroBertConfig", "eurobert", labels(eurobert, classifier_pooling="bos",
                                                                 attention_bias=True,
                                                              mlp_bias=True), auto=SCORED, quiet=KEY_BIAS),
}
