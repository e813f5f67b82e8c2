"""Tiny models in which a sequence has a state of fixed size: short convolutions."""
from oracle_cases import UNTIED, Table, hf


def lfm2(s):
    """Attention in the second layer alone; old files say so by full_attn_idxs."""
    return dict(hf(s), norm_eps=3e-3, num_hidden_layers=s.layers + 1, full_attn_idxs=[1], pad_token_id=0)


def lfm2_moe(s):
    layers = s.layers + 1
    return dict(hf(s), norm_eps=3e-3, num_hidden_layers=layers, moe_intermediate_size=s.ffn // 2 + 3, num_experts=7,
                num_experts_per_tok=3, num_dense_layers=1, routed_scaling_factor=1.7, pad_token_id=0,
                layer_types=["full_attention" if i == 1 else "conv" for i in range(layers)])


CASES = Table()
case, like = CASES.case, CASES.like
case("lfm2", "Lfm2Config", "lfm2", lfm2, conv_L_cache=4, block_multiple_of=6, block_ffn_dim_multiplier=1.3,
     renamed=dict(intermediate_size="block_ff_dim"))
case("lfm2-bias", "Lfm2Config", "lfm2", lfm2, conv_bias=True, block_auto_adjust_ff_dim=False, **UNTIED,
     renamed=dict(tie_word_embeddings="tie_embedding"))
case("lfm2-moe", "Lfm2MoeConfig", "lfm2_moe", lfm2_moe)
like("lfm2-moe-plain", "lfm2-moe", num_dense_layers=0, num_experts=5, num_experts_per_tok=2, use_expert_bias=False,
     norm_topk_prob=False, conv_bias=True, conv_L_cache=4, **UNTIED)
