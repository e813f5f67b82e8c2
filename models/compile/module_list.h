/* module_list.h - every atomic module, one line each, in the order of `inferflow spec modules`. */
#define MODULE_LIST(X)                                                                                                 \
    X(token_table)                                                                                                     \
    X(type_table)                                                                                                      \
    X(position_learned)                                                                                                \
    X(position_sinusoid)                                                                                               \
    X(norm_rms)                                                                                                        \
    X(norm_layer)                                                                                                      \
    X(attn_mla)                                                                                                        \
    X(attn_disentangled)                                                                                               \
    X(attn_gqa)                                                                                                        \
    X(conv_short)                                                                                                      \
    X(delta_gated)                                                                                                     \
    X(ssm_mamba2)                                                                                                      \
    X(cross_attention)                                                                                                 \
    X(ffn_gated)                                                                                                       \
    X(ffn_moe)                                                                                                         \
    X(ffn_plain)                                                                                                       \
    X(ffn_xielu)                                                                                                       \
    X(scale_trained)                                                                                                   \
    X(neighbours_linear)                                                                                               \
    X(linear_plain)                                                                                                    \
    X(head_linear)                                                                                                     \
    X(pool_rows)
