"""Families that transformers has no class for, through an equivalent one (oracle_remote.py): a table as
oracle_cases.py."""
import oracle_remote as remote
from oracle_cases import Case, KEY_BIAS, ln, llama3, rms, rope


def mha(s, **more):
    """Llama with as many keys as queries and a head of its own."""
    return rms(s, **{**dict(num_key_value_heads=s.heads, tie_word_embeddings=False), **more})


def gqa(s, **more):
    return rms(s, **{**dict(tie_word_embeddings=False), **more})


def glm(s, **more):
    return rms(s, hidden_size=s.half, head_dim=s.half // s.heads + 4, pad_token_id=0,
               rope_parameters=rope(30000.0, partial_rotary_factor=0.5), tie_word_embeddings=False, **more)


CASES = {
    "baichuan":         Case("LlamaConfig", "baichuan", lambda s: mha(s, rope_parameters=rope(10000.0)),
                             layout=remote.baichuan_7b),
    "baichuan-13b":     Case("LlamaConfig", "baichuan", lambda s: mha(s, hidden_size=s.six + 6, num_attention_heads=6,
                                                                      num_key_value_heads=6),
                             attention="alibi", build=remote.without_rope, layout=remote.baichuan_13b),
    "baichuan2":        Case("LlamaConfig", "baichuan", lambda s: mha(s, rope_parameters=rope(10000.0)),
                             embed=0.3, build=remote.unit_head, layout=remote.baichuan2),
    "internlm":         Case("LlamaConfig", "internlm", lambda s: mha(s, attention_bias=True), layout=remote.internlm),
    "internlm-dynamic": Case("LlamaConfig", "internlm", lambda s: mha(
        s, max_position_embeddings=56, rope_parameters=rope(900.0, "dynamic", factor=2.5)), layout=remote.internlm),
    "internlm2":        Case("LlamaConfig", "internlm2", gqa, layout=remote.internlm2),
    "internlm2-bias":   Case("LlamaConfig", "internlm2", lambda s: gqa(
        s, attention_bias=True, rope_parameters=rope(900.0, "linear", factor=2.5)), layout=remote.internlm2),
    "yi":               Case("LlamaConfig", "yi", gqa, layout=remote.yi),
    "xverse":           Case("LlamaConfig", "xverse", mha, layout=remote.as_llama("XverseForCausalLM", "xverse")),
    "aquila":           Case("LlamaConfig", "aquila", gqa, layout=remote.as_llama("AquilaForCausalLM", "aquila")),
    "orion":            Case("StableLmConfig", "orion", lambda s: ln(
        s, num_key_value_heads=s.heads, rope_parameters=rope(partial_rotary_factor=1.0), tie_word_embeddings=False),
        layout=remote.orion),
    "chatglm":          Case("GlmConfig", "chatglm", glm, layout=remote.chatglm),
    "chatglm-nobias":   Case("GlmConfig", "chatglm", lambda s: glm(s, attention_bias=False), layout=remote.chatglm),
    "minicpm":          Case("GraniteConfig", "minicpm", lambda s: rms(
        s, embedding_multiplier=2.3, logits_scaling=0.8, residual_multiplier=0.61,
        attention_multiplier=(s.dim // s.heads) ** -0.5, tie_word_embeddings=True), layout=remote.minicpm),
    "exaone":           Case("LlamaConfig", "exaone", lambda s: gqa(s, rope_parameters=llama3(s)),
                             layout=remote.exaone),
    "jais":             Case("LlamaConfig", "jais", lambda s: mha(
        s, hidden_size=s.six + 6, num_attention_heads=6, num_key_value_heads=6, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=True), attention="alibi", embed=0.4, quiet=KEY_BIAS, build=remote.jais,
        layout=remote.jais_layout),
    "openelm":          Case("Qwen3Config", "openelm", lambda s: rms(
        s, rms_norm_eps=1e-6, head_dim=s.hd, tie_word_embeddings=True), build=remote.openelm,
        layout=remote.openelm_layout),
}
