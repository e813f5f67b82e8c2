"""Encoders: every family with its masked-language head, as a classifier, and bare (its states, for embeddings)."""
from oracle_cases import BIASES, Table, pattern, rope

MASKED, SCORED, BARE = "AutoModelForMaskedLM", "AutoModelForSequenceClassification", "AutoModel"
LANGUAGE = "AutoModelForCausalLM"      # of decoders that see later tokens
ENCODER = "AutoModelForTextEncoding"   # an encoder-decoder's encoder alone
TOKENS, SPANS = "AutoModelForTokenClassification", "AutoModelForQuestionAnswering"
# Softmax removes what adds the same to all scores of a query.
KEY_BIAS = ("key.bias", "k_lin.bias", "attn.k.bias", "k_proj.bias")
UNUSED = ("pooler", "seq_relationship", "sop_classifier")


def encoder(s):
    """Names most encoders share."""
    return dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=s.layers, num_attention_heads=s.heads,
                max_position_embeddings=s.ctx, layer_norm_eps=3e-3, pad_token_id=0, hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0)


def typed(s):
    """Token types are 0 and 1 by turns; a vocabulary of 3 shows what looks up another one."""
    return dict(encoder(s), type_vocab_size=3)


def distilbert(s):
    return dict(dim=s.dim, hidden_dim=s.ffn, n_layers=s.layers, n_heads=s.heads, max_position_embeddings=s.ctx,
                dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0)


def modernbert(s):
    return dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=s.layers + 1,
                num_attention_heads=s.heads, max_position_embeddings=s.ctx, norm_eps=3e-3,
                local_attention=2 * s.window + 1, pad_token_id=0, cls_token_id=1, sep_token_id=2,
                layer_types=pattern(s.layers + 1, 2, "full_attention", "sliding_attention"),
                rope_parameters=dict(sliding_attention=rope(300.0), full_attention=rope(5000.0)))


def eurobert(s):
    return dict(hidden_size=s.dim, intermediate_size=s.ffn, num_hidden_layers=s.layers, num_attention_heads=s.heads,
                num_key_value_heads=s.kv, max_position_embeddings=s.ctx, rms_norm_eps=3e-3, pad_token_id=0,
                rope_parameters=rope(), tie_word_embeddings=False)


def labels(n):
    """A classifier of n classes."""
    return dict(id2label={i: f"label {i}" for i in range(n)}, label2id={f"label {i}": i for i in range(n)}, auto=SCORED)


def smaller(s):
    return s.dim // 2 + 3


CASES = Table()
like = CASES.like


def case(*args, **more):
    CASES.case(*args, **{**dict(auto=MASKED, quiet=KEY_BIAS), **more})


def family(name, config, spec, make, bare=True, own_head="", **more):
    """The cases of a family by the class that is built. own_head: also with a head that is not tied; then the parameter
    of this name has no use."""
    quiet = KEY_BIAS + UNUSED
    case(name, config, spec, make, quiet=quiet, **more)
    if own_head:
        like(name + "-head", name, tie_word_embeddings=False, quiet=quiet + (own_head,))
    like(name + "-scores", name, **labels(3))
    if bare:
        like(name + "-bare", name, auto=BARE)


family("bert", "BertConfig", "bert", typed)
like("bert-relu", "bert", hidden_act="relu", tie_word_embeddings=False, quiet=KEY_BIAS + ("predictions.bias",))
like("bert-single", "bert", **labels(1), quiet=KEY_BIAS)
family("roberta", "RobertaConfig", "roberta", encoder, pad_token_id=1, type_vocab_size=1, own_head="lm_head.bias")
family("xlmr", "XLMRobertaConfig", "roberta", encoder, pad_token_id=2, type_vocab_size=1, bare=False)
family("camembert", "CamembertConfig", "roberta", encoder, pad_token_id=1, type_vocab_size=1, bare=False)
family("roberta-xl", "XLMRobertaXLConfig", "xlm_roberta_xl", encoder, pad_token_id=1, type_vocab_size=1)
family("roberta-pre", "RobertaPreLayerNormConfig", "roberta_prelayernorm", encoder, pad_token_id=1, type_vocab_size=1)
family("ernie", "ErnieConfig", "ernie", typed, bare=False)
family("albert", "AlbertConfig", "albert", typed, embedding_size=smaller, classifier_dropout_prob=0.0,
       own_head="predictions.bias")
case("albert-groups", "AlbertConfig", "albert", typed, embedding_size=smaller, num_hidden_layers=4, hidden_act="gelu",
     num_hidden_groups=2, inner_group_num=2)
family("electra", "ElectraConfig", "electra", typed, embedding_size=smaller, own_head="none")
like("electra-wide", "electra", embedding_size=lambda s: s.dim, quiet=KEY_BIAS)
family("distilbert", "DistilBertConfig", "distilbert", distilbert, own_head="none")
family("mpnet", "MPNetConfig", "mpnet", encoder, pad_token_id=1)
family("nomic", "NomicBertConfig", "nomic_bert", typed, rope_parameters=rope())
family("gte", "GteConfig", "gte", typed, rope_parameters=rope(), own_head="none")
like("gte-untyped", "gte", type_vocab_size=0, auto=BARE)
family("jina3", "JinaEmbeddingsV3Config", "jina_embeddings_v3", typed, rope_parameters=rope())
family("modernbert", "ModernBertConfig", "modernbert", modernbert, own_head="none")
like("modernbert-thirds", "modernbert", auto=BARE, quiet=KEY_BIAS,
     layer_types=lambda s: ["sliding_attention" if i % 3 else "full_attention" for i in range(s.layers + 1)])
like("modernbert-biases", "modernbert", **labels(3), **BIASES, norm_bias=True, classifier_bias=True, quiet=KEY_BIAS,
     classifier_pooling="mean", classifier_activation="relu", hidden_activation="silu")
family("eurobert", "EuroBertConfig", "eurobert", eurobert)
like("eurobert-bos", "eurobert", **labels(3), **BIASES, classifier_pooling="bos", quiet=KEY_BIAS)
