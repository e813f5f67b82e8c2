"""The table of tiny encoder-decoder models; see oracle_cases.py. Encoder and decoder differ in everything that may
differ: number of layers, heads, inner width, and vocabulary where a family allows two.
"""
from oracle_cases import Case


def bart(s, **more):
    """Names that BART and all that came from fairseq or Marian share."""
    return {**dict(d_model=s.dim, encoder_layers=s.layers + 1, decoder_layers=s.layers, encoder_ffn_dim=s.ffn + 3,
                   decoder_ffn_dim=s.ffn, encoder_attention_heads=s.heads // 2, decoder_attention_heads=s.heads,
                   max_position_embeddings=s.ctx, activation_function="gelu", pad_token_id=1, bos_token_id=0,
                   eos_token_id=2, decoder_start_token_id=0), **more}


def t5(s, **more):
    return {**dict(d_model=s.dim, d_kv=s.hd, d_ff=s.ffn, num_layers=s.layers + 1, num_decoder_layers=s.layers,
                   num_heads=s.heads, relative_attention_num_buckets=12, relative_attention_max_distance=40,
                   layer_norm_epsilon=3e-3, feed_forward_proj="relu", pad_token_id=0, eos_token_id=1,
                   decoder_start_token_id=0), **more}


def case(*args, **more):
    """A bias of keys adds the same to all scores of a row: it cannot matter."""
    return Case(*args, quiet=("k_proj.bias",), **more)


CASES = {
    "t5": case("T5Config", "t5", t5),
    "t5-gated": case("T5Config", "t5", lambda s: t5(s, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
                     own_head=True),
    "t5-silu": case("T5Config", "t5", lambda s: t5(s, feed_forward_proj="gated-silu", num_decoder_layers=None)),
    "mt5": case("MT5Config", "mt5", lambda s: t5(s, feed_forward_proj="gated-gelu"), own_head=True),
    "umt5": case("UMT5Config", "umt5", lambda s: t5(s, feed_forward_proj="gated-gelu")),
    "bart": case("BartConfig", "bart", bart),
    "bart-scaled": case("BartConfig", "bart", lambda s: bart(s, scale_embedding=True, activation_function="gelu_new"),
                        embed=0.02),
    "plbart": case("PLBartConfig", "bart", bart, embed=0.3, own_head=True),
    "mbart": case("MBartConfig", "mbart", lambda s: bart(s, activation_function="relu")),
    "m2m-100": case("M2M100Config", "m2m_100", bart, embed=0.3),
    "nllb": case("M2M100Config", "m2m_100", lambda s: bart(s, scale_embedding=False, pad_token_id=2,
                                                           activation_function="relu")),
    "marian": case("MarianConfig", "marian", lambda s: bart(s, scale_embedding=True, activation_function="swish"),
                   embed=0.3),
    "marian-two": case("MarianConfig", "marian", lambda s: bart(s, share_encoder_decoder_embeddings=False,
                                                                scale_embedding=True, decoder_vocab_size=61,
                                                                tie_word_embeddings=False), embed=0.5),
    "pegasus": case("PegasusConfig", "pegasus", lambda s: bart(s, scale_embedding=True), embed=0.3),
    "blenderbot": case("BlenderbotConfig", "blenderbot", bart),
    "blenderbot-small": case("BlenderbotSmallConfig", "blenderbot_small", bart),
}
