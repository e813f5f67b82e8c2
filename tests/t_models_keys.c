/* t_models_keys.c - keys of a configuration that no spec reads: right, or refused, or told in a warning; and silence
 * where nothing is lost: over the configurations of all test models, of all classes of transformers with their default
 * values (tests/vectors/class_defaults.json), and keys as they are found on the hub. */
#include "base/json.h"
#include "base/log.h"
#include "io/ckpt.h"
#include "models/arch.h"
#include "models/compile/key_list.h"
#include "models/compile/spec_unread.h"
#include "models/compile/wrapped.h"
#include "models/spec/spec_load.h"
#include "test.h"

#include <glob.h>
#include <string.h>

/* What is said of a configuration under a built-in spec: the error, or the unknown keys, or "". */
static const char *judge(const char *base, const json *config, const char *gguf, const char *ignored)
{
    static char said[2000];
    spec *s;
    buf unknown = {0};
    err e = {0};
    assert_ok(spec_load_builtin(&s, base, &e), &e);
    const judged_keys of = {config, gguf ? "gguf" : "hf", gguf};
    const int rc = spec_judge_keys(s, &of, ignored, &unknown, &e);
    assert_int_equal(rc, e.code);
    snprintf(said, sizeof said, "%s", rc ? e.msg : buf_cstr(&unknown));
    buf_free(&unknown);
    spec_free(s);
    return said;
}

static const char *judge_text(const char *base, const char *config, const char *gguf, const char *ignored)
{
    json *j;
    err e = {0};
    assert_ok(json_parse(&j, span_str(config), "config.json", &e), &e);
    const char *said = judge(base, j, gguf, ignored);
    json_free(j);
    return said;
}

static void test_models_are_silent(void **unused)
{
    (void)unused;
    glob_t found;
    int seen = 0;
    assert_int_equal(glob("tests/vectors/models/*/", 0, NULL, &found), 0);
    assert_int_equal(glob("tests/vectors/encoders/*/", GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++, seen++) {
        ckpt *c;
        char base[64];
        err e = {0};
        assert_ok(ckpt_open(&c, found.gl_pathv[i], &e), &e);
        assert_ok(arch_find(c, NULL, base, sizeof base, &e), &e);
        spec *s;
        json *text;
        assert_ok(spec_load_builtin(&s, base, &e), &e);
        assert_ok(wrapped_config(&text, s, ckpt_config(c), &e), &e);
        const char *said = judge(base, text ? text : ckpt_config(c), NULL, NULL);
        if (*said) fail_msg("%s (%s): %s", found.gl_pathv[i], base, said);
        json_free(text);
        spec_free(s);
        ckpt_close(c);
    }
    globfree(&found);
    assert_true(seen > 150);
}

static void defaults_are_silent(void **unused)
{
    (void)unused;
    json *all;
    err e = {0};
    assert_ok(json_read(&all, "tests/vectors/class_defaults.json", 1 << 20, &e), &e);
    for (const json *m = json_first(all); m; m = json_next(m)) {
        const char *said = judge(json_str(json_get(m, "spec"), ""), json_get(m, "config"), NULL, NULL);
        if (*said) fail_msg("%s: %s", json_str(json_get(m, "name"), ""), said);
    }
    json_free(all);
}

/* What files on the hub say besides: who wrote them, how they were trained, how to generate. */
static void the_hub_is_silent(void **unused)
{
    (void)unused;
    static const char *const said[] = {
        "\"_name_or_path\":\"x/y\",\"auto_map\":{\"AutoModel\":\"m.M\"},\"torch_dtype\":\"bfloat16\","
        "\"transformers_version\":\"4.51.0\",\"use_cache\":true,\"initializer_range\":0.02,\"attention_dropout\":0.1",
        "\"_attn_implementation_autoset\":true,\"use_flash_attn\":true,\"pretraining_tp\":1,\"rope_scaling\":null,"
        "\"use_sliding_window\":false,\"sliding_window\":null,\"max_window_layers\":28,\"unsloth_fixed\":true",
        "\"do_sample\":true,\"temperature\":0.7,\"top_p\":0.9,\"top_k\":50,\"num_beams\":4,\"max_length\":20,"
        "\"no_repeat_ngram_size\":3,\"forced_eos_token_id\":2,\"task_specific_params\":{\"summarization\":{\"num_"
        "beams\":4}}",
        "\"output_router_logits\":false,\"router_aux_loss_coef\":0.001,\"num_nextn_predict_layers\":1,\"ep_size\":1,"
        "\"aux_loss_alpha\":0.001,\"seq_aux\":true,\"id2label\":{\"0\":\"A\"},\"label2id\":{\"A\":0},\"is_decoder\":"
        "false",
        "\"quantization_config\":{\"bits\":4},\"tokenizer_class\":\"T\",\"embd_pdrop\":0.1,\"is_causal\":true,"
        "\"mlp_bias\":false,\"gradient_checkpointing\":false,\"return_dict\":true,\"fused_mlp\":true"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        char config[2000];
        snprintf(config, sizeof config, "{\"hidden_size\":8,%s}", said[i]);
        const char *told = judge_text("llama", config, NULL, NULL);
        if (*told) fail_msg("%s", told);
    }
    static const char *const of_families[][2] = {
        {"cohere2",
         "\"layer_switch\":4,\"order_of_interleaved_layers\":\"local_attn_first\",\"position_embedding_type\":"
         "\"rope_gptj\",\"rotary_pct\":1.0,\"use_embedding_sharing\":true,\"use_gated_activation\":true,"
         "\"use_parallel_block\":true,\"use_parallel_embedding\":true,\"cache_implementation\":\"hybrid\""},
        {"llama", "\"is_llama_config\":true,\"pixel_shuffle_factor\":4,\"perceiver_config\":{\"depth\":6},"
                  "\"transformers.js_config\":{\"a\":1},\"neftune_noise_alpha\":0.0,\"qk_layer_norms\":false"},
        {"mistral", "\"is_composition\":true"},
        {"qwen2_vl", "\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[16,24,24]},\"vision_token_id\":151654,"
                     "\"vision_config\":{\"depth\":32},\"use_sliding_window\":false,\"sliding_window\":32768"}};
    for (size_t i = 0; i < sizeof of_families / sizeof *of_families; i++) {
        char config[2000];
        snprintf(config, sizeof config, "{\"hidden_size\":8,%s}", of_families[i][1]);
        const char *told = judge_text(of_families[i][0], config, NULL, NULL);
        if (*told) fail_msg("%s: %s", of_families[i][0], told);
    }
}

#define REFUSED(keys)                                                                                                  \
    "llama.ini does not read these keys, which change what is computed: " keys                                         \
    " (a spec that reads them makes it right; --ignore-key NAME runs without)"

static void lost_keys_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *config, *ignored, *said;
    } all[] = {/* some other spec reads them */
               {"\"logit_scale\":0.5,\"sliding_window\":7", NULL, REFUSED("logit_scale (0.5), sliding_window (7)")},
               {"\"logit_scale\":0.5,\"sliding_window\":7", "logit_scale,sliding*", ""},
               {"\"logit_scale\":1", NULL, ""},
               {"\"layer_rope_theta\":[1,2]", NULL, REFUSED("layer_rope_theta ([1,2])")},
               /* the list says so */
               {"\"use_bidirectional_attention\":true", NULL, REFUSED("use_bidirectional_attention (true)")},
               {"\"is_encoder_decoder\":true", NULL, REFUSED("is_encoder_decoder (true)")},
               /* inside an object of which something is read */
               {"\"rope_scaling\":{\"factor\":2,\"attn_factor\":3}", NULL, "rope_scaling.attn_factor (3)"},
               /* nobody knows them; empty ones say nothing */
               {"\"new_thing\":4,\"other\":\"word\"", NULL, "new_thing (4), other (\"word\")"},
               {"\"new_thing\":4", "new_thing", ""},
               {"\"new_thing\":0,\"other\":\"\",\"third\":[],\"fourth\":{},\"fifth\":false,\"sixth\":null", NULL, ""}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char config[400];
        snprintf(config, sizeof config, "{\"hidden_size\":8,%s}", all[i].config);
        assert_string_equal(judge_text("llama", config, NULL, all[i].ignored), all[i].said);
    }
    /* a spec that reads nothing of the file stands alone */
    assert_string_equal(judge_text("llama", "{\"sliding_window\":7}", NULL, NULL), "");
    /* llama.ini reads it, gpt2.ini does not */
    assert_string_equal(judge_text("llama", "{\"hidden_size\":8,\"is_causal\":false}", NULL, NULL), "");
    assert_true(strstr(judge_text("gpt2", "{\"n_embd\":8,\"is_causal\":false}", NULL, NULL), "is_causal (false)"));
    /* a line of a base that the spec replaced is not read */
    assert_true(strstr(judge_text("cohere", "{\"hidden_size\":8,\"rms_norm_eps\":1e-3}", NULL, NULL), "rms_norm_eps"));
}

static void keys_of_gguf(void **unused)
{
    (void)unused;
    static const struct {
        const char *config, *said;
    } all[] = {
        {"\"llama.block_count\":2,\"llama.attention.head_count\":4,\"general.name\":\"x\",\"tokenizer.ggml.model\":"
         "\"gpt2\","
         "\"llama.attention.causal\":true,\"llama.rope.dimension_count\":8,\"quantize.imatrix.file\":\"f\"",
         ""},
        {"\"llama.block_count\":2,\"llama.attention.causal\":false,\"llama.pooling_type\":2", ""},
        {"\"llama.block_count\":2,\"llama.rope.scale_linear\":2", REFUSED("rope.scale_linear (2)")},
        {"\"llama.block_count\":2,\"llama.logit_scale\":0.25", REFUSED("logit_scale (0.25)")},
        {"\"llama.block_count\":2,\"llama.attention.sliding_window\":5", REFUSED("attention.sliding_window (5)")},
        {"\"llama.block_count\":2,\"llama.rope.scaling.yarn_ext_factor\":0.5,\"llama.swin_norm\":true,"
         "\"llama.attention.indexer.top_k\":64",
         REFUSED("rope.scaling.yarn_ext_factor (0.5), swin_norm (true), attention.indexer.top_k (64)")},
        {"\"llama.block_count\":2,\"llama.rope.scaling.yarn_attn_factor\":1,\"llama.swin_norm\":false,"
         "\"llama.tensor_data_layout\":\"Meta AI original pth\"",
         ""},
        {"\"llama.block_count\":2,\"llama.something\":5", "something (5)"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char config[600];
        snprintf(config, sizeof config, "{%s}", all[i].config);
        assert_string_equal(judge_text("llama", config, "llama", NULL), all[i].said);
    }
}

/* Each row of the list has its reason, and none stands behind one that hides it. */
static void rows_of_the_list(void **unused)
{
    (void)unused;
    for (const known_key *k = known_keys; k->name; k++) {
        assert_true(*k->why);
        for (const known_key *before = known_keys; before < k; before++)
            if (!strcmp(before->name, k->name) && (!before->type || (k->type && !strcmp(before->type, k->type))))
                fail_msg("%s stands twice", k->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_are_silent), cmocka_unit_test(defaults_are_silent),
        cmocka_unit_test(the_hub_is_silent),      cmocka_unit_test(lost_keys_are_refused),
        cmocka_unit_test(keys_of_gguf),           cmocka_unit_test(rows_of_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
