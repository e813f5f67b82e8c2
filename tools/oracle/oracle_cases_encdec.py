"""The table of tiny encoder-decoder models; see oracle_cases.py. Encoder and decoder differ in everything that may
differ: number of layers, heads, inner width, and vocabulary where a family allows two.
"""
from oracle_cases import KEY_BIAS, UNTIED, Table


def bart(s):
    """Names that BART and all that came from fairseq or Marian share."""
    return dict(d_model=s.dim, encoder_layers=s.layers + 1, decoder_layers=s.layers, encoder_ffn_dim=s.ffn + 3,
                decoder_ffn_dim=s.ffn, encoder_attention_heads=s.heads // 2, decoder_attention_heads=s.heads,
                max_position_embeddings=s.ctx, activation_function="gelu", pad_token_id=1, bos_token_id=0,
                eos_token_id=2, decoder_start_token_id=0)


def t5(s):
    return dict(d_model=s.dim, d_kv=s.hd, d_ff=s.ffn, num_layers=s.layers + 1, num_decoder_layers=s.layers,
                num_heads=s.heads, relative_attention_num_buckets=12, relative_attention_max_distance=40,
                layer_norm_epsilon=3e-3, feed_forward_proj="relu", pad_token_id=0, eos_token_id=1,
                decoder_start_token_id=0)


CASES = Table()
like = CASES.like


def case(*args, **more):
    """A bias of keys adds the same to all scores of a row: it cannot matter."""
    CASES.case(*args, quiet=KEY_BIAS, **more)


case("t5", "T5Config", "t5", t5)
like("t5-gated", "t5", feed_forward_proj="gated-gelu", **UNTIED, own_head=True)
like("t5-silu", "t5", feed_forward_proj="gated-silu", num_decoder_layers=None)
case("mt5", "MT5Config", "mt5", t5, feed_forward_proj="gated-gelu", own_head=True)
case("umt5", "UMT5Config", "umt5", t5, feed_forward_proj="gated-gelu")
case("bart", "BartConfig", "bart", bart)
like("bart-scaled", "bart", scale_embedding=True, activation_function="gelu_new", embed=0.02)
case("plbart", "PLBartConfig", "bart", bart, embed=0.3, own_head=True)
case("mbart", "MBartConfig", "mbart", bart, activation_function="relu")
case("m2m-100", "M2M100Config", "m2m_100", bart, embed=0.3)
case("nllb", "M2M100Config", "m2m_100", bart, scale_embedding=False, pad_token_id=2, activation_function="relu")
case("marian", "MarianConfig", "marian", bart, scale_embedding=True, activation_function="swish", embed=0.3)
case("marian-two", "MarianConfig", "marian", bart, share_encoder_decoder_embeddings=False, scale_embedding=True,
     decoder_vocab_size=61, **UNTIED, embed=0.5)
case("pegasus", "PegasusConfig", "pegasus", bart, scale_embedding=True, embed=0.3)
case("blenderbot", "BlenderbotConfig", "blenderbot", bart)
case("blenderbot-small", "BlenderbotSmallConfig", "blenderbot_small", bart)
