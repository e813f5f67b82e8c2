"""Families that transformers has no class for, through an equivalent one (oracle_remote.py): a table as
oracle_cases.py."""
import oracle_remote as remote
from oracle_cases import BIASES, HD, HEADS, KEY_BIAS, TIED, UNTIED, Table, granite, ln, llama3, rms, rope
from oracle_cases_dense import glm


def gqa(s):
    return dict(rms(s), tie_word_embeddings=False)


def mha(s):
    """Llama with as many keys as queries and a head of its own."""
    return dict(gqa(s), num_key_value_heads=s.heads)


def six(s):
    """Six heads, whose biases of distances are no powers of two."""
    return dict(gqa(s), hidden_size=s.six + 6, num_attention_heads=6, num_key_value_heads=6)


CASES = Table()
case, like = CASES.case, CASES.like
case("baichuan", "LlamaConfig", "baichuan", mha, rope_parameters=rope(10000.0), layout=remote.baichuan_7b)
case("baichuan-13b", "LlamaConfig", "baichuan", six, attention="alibi", build=remote.without_rope,
     layout=remote.baichuan_13b)
like("baichuan2", "baichuan", embed=0.3, build=remote.unit_head, layout=remote.baichuan2)
case("internlm", "LlamaConfig", "internlm", mha, attention_bias=True, layout=remote.internlm)
case("internlm-dynamic", "LlamaConfig", "internlm", mha, max_position_embeddings=56, layout=remote.internlm,
     rope_parameters=rope(900.0, "dynamic", factor=2.5))
case("internlm2", "LlamaConfig", "internlm2", gqa, layout=remote.internlm2)
like("internlm2-bias", "internlm2", attention_bias=True, rope_parameters=rope(900.0, "linear", factor=2.5))
case("yi", "LlamaConfig", "yi", gqa, layout=remote.yi)
case("xverse", "LlamaConfig", "xverse", mha, layout=remote.as_llama("XverseForCausalLM", "xverse"))
case("aquila", "LlamaConfig", "aquila", gqa, layout=remote.as_llama("AquilaForCausalLM", "aquila"))
case("orion", "StableLmConfig", "orion", ln, num_key_value_heads=HEADS, **UNTIED, layout=remote.orion,
     rope_parameters=rope(partial_rotary_factor=1.0))
case("chatglm", "GlmConfig", "chatglm", glm, rope_parameters=rope(30000.0, partial_rotary_factor=0.5),
     layout=remote.chatglm)
like("chatglm-nobias", "chatglm", attention_bias=False)
case("minicpm", "GraniteConfig", "minicpm", granite, attention_multiplier=lambda s: (s.dim // s.heads) ** -0.5, **TIED,
     layout=remote.minicpm)
case("exaone", "LlamaConfig", "exaone", gqa, rope_parameters=llama3, layout=remote.exaone)
case("jais", "LlamaConfig", "jais", six, **BIASES, **TIED, attention="alibi", embed=0.4, quiet=KEY_BIAS,
     build=remote.jais, layout=remote.jais_layout)
case("openelm", "Qwen3Config", "openelm", rms, rms_norm_eps=1e-6, head_dim=HD, **TIED, build=remote.openelm,
     layout=remote.openelm_layout)
