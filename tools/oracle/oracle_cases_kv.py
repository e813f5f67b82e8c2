"""Tiny models whose later layers read keys and values of earlier ones, and whose layers differ in width: Gemma 4."""
from operator import attrgetter

from oracle_cases import SCALED, Table, hf, pattern, rope


def gemma4(s):
    """Full layers have wider heads, of which a part rotates."""
    ropes = dict(sliding_attention=rope(300.0),
                 full_attention=rope(5000.0, "proportional", partial_rotary_factor=0.5))
    return dict(hf(s), rms_norm_eps=3e-3, head_dim=s.hd, global_head_dim=s.hd + 6, num_hidden_layers=3 + s.layers,
                layer_types=pattern(3, 3) + pattern(s.layers, s.layers), sliding_window=s.window, rope_parameters=ropes,
                hidden_size_per_layer_input=0)


def embedded(s):
    """With embeddings of each layer; all but three layers read the keys and values of the second and third."""
    return dict(gemma4(s), num_kv_shared_layers=s.layers, hidden_size_per_layer_input=s.hd - 3,
                vocab_size_per_layer_input=140, use_double_wide_mlp=True)


CASES = Table()
case, like = CASES.case, CASES.like
case("gemma4", "Gemma4TextConfig", "gemma4", embedded, embed=SCALED)
# transformers 5.24 generates with sharing only where layers have embeddings
like("gemma4-narrow", "gemma4", use_double_wide_mlp=False, num_kv_shared_layers=1, final_logit_softcapping=6.0,
     attention_bias=True)
case("gemma4-values", "Gemma4TextConfig", "gemma4", gemma4, attention_k_eq_v=True, num_global_key_value_heads=1,
     embed=SCALED)
case("gemma4-moe", "Gemma4TextConfig", "gemma4", gemma4, enable_moe_block=True, num_experts=7, top_k_experts=3,
     moe_intermediate_size=lambda s: s.ffn // 2 + 3, attention_k_eq_v=True, num_global_key_value_heads=2,
     embed=SCALED)


def gemma3n(s):
    ropes = dict(sliding_attention=rope(300.0), full_attention=rope(5000.0))
    layers = 3 + s.layers
    return dict(hf(s), rms_norm_eps=3e-3, head_dim=s.hd, num_hidden_layers=layers, sliding_window=s.window,
                layer_types=pattern(3, 3) + pattern(s.layers, s.layers), rope_parameters=ropes,
                num_kv_shared_layers=s.layers, hidden_size_per_layer_input=s.hd - 3, vocab_size_per_layer_input=140,
                intermediate_size=[s.ffn + 2 * i for i in range(layers)], laurel_rank=s.hd - 1,
                final_logit_softcapping=9.0,
                activation_sparsity_pattern=[0.7, 0.4] + [0.0] * (layers - 2))


case("gemma3n", "Gemma3nTextConfig", "gemma3n", gemma3n, embed=SCALED)
like("gemma3n-second", "gemma3n", altup_active_idx=2, altup_correct_scale=False, num_kv_shared_layers=1,
     intermediate_size=attrgetter("ffn"), quiet=("correct_output_scale",))


def unified(s):
    made = dict(gemma4(s), attention_k_eq_v=True, num_global_key_value_heads=1)
    del made["hidden_size_per_layer_input"]
    return made


case("gemma4-unified", "Gemma4UnifiedTextConfig", "gemma4_unified", unified, embed=SCALED)
