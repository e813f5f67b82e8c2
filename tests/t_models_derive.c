/* t_models_derive.c - `spec derive` on models that nobody has named: those of tests/vectors with an architecture that
 * no built-in spec is for, as they are, with their tensors and keys renamed, and from their parts alone. */
#include "base/buf.h"
#include "base/file.h"
#include "models/derive/derive.h"
#include "models/derive/derive_write.h"

#include "tests/command.h"
#include "vector_rig.h"

#include <sys/stat.h>

/* What held when this was written: all 63 by a family that fits, 34 from parts alone (the others lack a key that says
 * an activation, a multiplier or ALiBi). */
enum { DERIVED_MIN = 60, PARTS_SAME_MIN = 34, PARTS_LOAD_MIN = 60 };

static void write_bytes(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

/* Every `from` of the text by its `to`; pairs end with NULL. */
static void replace_all(buf *text, const char *const *pairs)
{
    for (; pairs && *pairs; pairs += 2) {
        buf out = {0};
        const char *p = buf_cstr(text);
        for (const char *at; (at = strstr(p, pairs[0])); p = at + strlen(pairs[0])) {
            buf_add(&out, p, (size_t)(at - p));
            buf_str(&out, pairs[1]);
        }
        buf_str(&out, p);
        buf_free(text);
        *text = out;
    }
}

/* A copy of a vector under another architecture; names of tensors and keys are changed by pairs (may be NULL). */
static void make_unknown(const char *vector, const char *folder, const char *const *names, const char *const *keys)
{
    char path[512];
    buf file = {0}, head = {0}, all = {0}, text = {0};
    json *config;
    err e = {0};
    snprintf(path, sizeof path, "%s/model.safetensors", vector);
    assert_ok(file_read(&file, path, 1 << 24, &e), &e);
    uint64_t n;
    memcpy(&n, file.p, 8);
    buf_add(&head, file.p + 8, n);
    replace_all(&head, names);
    buf_uint(&all, head.n, 8);
    buf_add(&all, head.p, head.n);
    buf_add(&all, file.p + 8 + n, file.n - 8 - n);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    write_bytes(path, all.p, all.n);

    snprintf(path, sizeof path, "%s/config.json", vector);
    assert_ok(json_read(&config, path, 1 << 20, &e), &e);
    json *copy = json_new_object();
    for (const json *m = json_first(config); m; m = json_next(m))
        if (strcmp(json_key(m), "architectures") != 0 && strcmp(json_key(m), "model_type") != 0)
            json_add_copy(copy, json_key(m), m);
    json_add_str(json_add_array(copy, "architectures"), NULL, "NovelForCausalLM");
    assert_true(json_print(&text, copy, true));
    replace_all(&text, keys);
    snprintf(path, sizeof path, "%s/config.json", folder);
    write_bytes(path, text.p, text.n);
    json_free(config);
    json_free(copy);
    buf_free(&file);
    buf_free(&head);
    buf_free(&all);
    buf_free(&text);
}

static void drop_unknown(const char *folder)
{
    static const char *const files[] = {"model.safetensors", "config.json", "derived.ini"};
    char path[512];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* The spec for the folder: by spec_derive, or from its parts whether or not a family fits. */
static void derive(const char *folder, bool by_parts, buf *text)
{
    err e = {0};
    ckpt *c;
    assert_ok(ckpt_open(&c, folder, &e), &e);
    if (by_parts) buf_printf(text, "[model]\nbase = llama\npath = %s\n", folder);
    parts p = {0};
    int rc = by_parts ? parts_find(&p, c, &e) : OK;
    if (!rc) rc = by_parts ? derive_from_parts(c, &p, text, &e) : spec_derive(c, text, &e);
    parts_free(&p);
    ckpt_close(c);
    if (rc) buf_printf(text, "error: %s\n", e.msg);
}

/* 2: the same bits as the model under its own name; 1: it loads; 0: it does not. */
static int outcome(const char *name, const char *const *names, const char *const *keys, bool by_parts, buf *text)
{
    char vector[400], folder[] = "/tmp/inferflow-derive-XXXXXX", path[512];
    expected x = {0};
    err e = {0};
    engine *g = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(vector, sizeof vector, "%s/%s", vectors, name);
    expected_read(&x, vector);
    make_unknown(vector, folder, names, keys);
    derive(folder, by_parts, text);
    snprintf(path, sizeof path, "%s/derived.ini", folder);
    write_bytes(path, text->p, text->n);
    engine_options o = {.spec = path, .threads = 1, .kv = "f32", .ctx = IDS_MAX};
    int result = 0;
    if (engine_open(&g, &o, &e) == OK) {
        table got = logits_of(g, &x), want = logits_of(open_model((engine_options){.model = vector, .threads = 1}), &x);
        result = same_bits(&got, &want) ? 2 : 1;
        free(got.at);
        free(want.at);
    } else {
        buf_printf(text, "load: %s\n", e.msg);
    }
    json_free(x.file);
    drop_unknown(folder);
    return result;
}

/* ---- renamed: only the parts are left to go by */

typedef struct renamed_case {
    const char *vector, *const *names, *const *keys;
} renamed_case;

static const char *const meta_names[] = {"model.layers.",
                                         "net.blocks.",
                                         "self_attn.",
                                         "attention.",
                                         "q_proj",
                                         "wq",
                                         "k_proj",
                                         "wk",
                                         "v_proj",
                                         "wv",
                                         "o_proj",
                                         "wo",
                                         "mlp.gate_proj",
                                         "feed_forward.w1",
                                         "mlp.up_proj",
                                         "feed_forward.w3",
                                         "mlp.down_proj",
                                         "feed_forward.w2",
                                         "post_attention_layernorm",
                                         "ffn_norm",
                                         "input_layernorm",
                                         "attention_norm",
                                         "model.embed_tokens",
                                         "net.tok_embeddings",
                                         "lm_head",
                                         "output",
                                         "model.norm",
                                         "net.norm",
                                         NULL};
static const char *const meta_keys[] = {"hidden_size",
                                        "d_model",
                                        "num_hidden_layers",
                                        "n_layers",
                                        "num_attention_heads",
                                        "n_heads",
                                        "num_key_value_heads",
                                        "n_kv_heads",
                                        "intermediate_size",
                                        "mlp_dim",
                                        "rms_norm_eps",
                                        "norm_eps",
                                        NULL};
static const char *const neox_names[] = {"gpt_neox.layers.",
                                         "trunk.",
                                         "attention.query_key_value",
                                         "att.qkv_x.query_key_value",
                                         "attention.dense",
                                         "att.proj",
                                         "dense_h_to_4h",
                                         "fc1",
                                         "dense_4h_to_h",
                                         "fc2",
                                         "post_attention_layernorm",
                                         "ln_2",
                                         "input_layernorm",
                                         "ln_1",
                                         "gpt_neox.embed_in",
                                         "wte",
                                         "gpt_neox.final_layer_norm",
                                         "ln_f",
                                         "embed_out",
                                         "unembed",
                                         NULL};
static const char *const gpt_names[] = {"transformer.h.", "stack.",         "attn.c_attn", "mixer.in_proj",
                                        "attn.c_proj",    "mixer.out_proj", "mlp.c_fc",    "ff.lin1",
                                        "mlp.c_proj",     "ff.lin2",        NULL};
static const char *const moe_names[] = {
    "model.layers.", "tower.", "block_sparse_moe.gate", "moe.router", "block_sparse_moe.experts.",
    "moe.experts.",  NULL};
static const renamed_case renamed[] = {
    {"mixtral", moe_names, NULL},     {"llama", meta_names, meta_keys}, {"llama-tied", meta_names, meta_keys},
    {"qwen3", meta_names, meta_keys}, {"olmo2", meta_names, NULL},      {"mistral", meta_names, NULL},
    {"qwen2", meta_names, meta_keys}, {"neox", neox_names, NULL},       {"neox-sequential", neox_names, NULL},
    {"gpt2", gpt_names, NULL},
};

static void renamed_models(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        buf text = {0};
        int r = outcome(renamed[i].vector, renamed[i].names, renamed[i].keys, false, &text);
        if (r != 2)
            fail_msg("%s renamed: %s\n%s", renamed[i].vector, r ? "other bits" : "does not load", buf_cstr(&text));
        assert_non_null(strstr(buf_cstr(&text), "none fits its tensors"));
        assert_non_null(strstr(buf_cstr(&text), "what follows loads"));
        buf_free(&text);
    }
}

static struct {
    bool by_parts;
    int same, loads;
} derived;

static int derive_one(const char *folder, const char *name, int turn)
{
    buf text = {0};
    (void)folder, (void)turn;
    const int r = outcome(name, NULL, NULL, derived.by_parts, &text);
    derived.same += r == 2;
    derived.loads += r > 0;
    if (r < 2 && !derived.by_parts) printf("%s: %s\n%s\n", name, r ? "other bits" : "does not load", buf_cstr(&text));
    buf_free(&text);
    return 0;
}

static int over_all(bool by_parts, int *loads, int *seen)
{
    derived.by_parts = by_parts;
    derived.same = derived.loads = 0;
    *seen = check_models(vectors, derive_one);
    *loads = derived.loads;
    printf("%s: %d the same bits, %d load, of %d\n", by_parts ? "from parts" : "derived", derived.same, *loads, *seen);
    return derived.same;
}

static void unknown_architectures(void **unused)
{
    (void)unused;
    int loads, seen, same = over_all(false, &loads, &seen);
    assert_true(same >= DERIVED_MIN && same * 10 >= seen * 9);
}

static void from_parts_alone(void **unused)
{
    (void)unused;
    int loads, seen, same = over_all(true, &loads, &seen);
    assert_true(same >= PARTS_SAME_MIN && loads >= PARTS_LOAD_MIN);
}

/* A start that does not load is written all the same, but with status 1 and the reason. */
static void status_says_whether_it_loads(void **unused)
{
    (void)unused;
    static const char *const lines[][2] = {
        /* of a built-in family, but with other shapes */
        {"sed -i 's/\"num_attention_heads\": *[0-9]*/\"num_attention_heads\": 7/' ours/config.json",
         "is its built-in family; what follows does NOT load yet: "},
        /* of no family, and no key says the activation */
        {"sed -i 's/LlamaFor/OursFor/; s/\"llama\"/\"ours\"/; /hidden_act/d; /num_attention_heads/d' ours/config.json",
         "what follows does NOT load yet: "},
    };
    buf errors = {0};
    char dir[256], line[1000];
    snprintf(dir, sizeof dir, "%s", temp_path("derive-status"));
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(
        command_shell(dir, "$P spec derive -m $V/models/llama -o good.ini && $P spec check good.ini >said", &errors),
        0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(line, sizeof line, "rm -rf ours && cp -r $V/models/llama ours && %s && $P spec derive -m ours >a",
                 lines[i][0]);
        assert_int_equal(command_shell(dir, line, &errors), 1);
        if (!strstr(buf_cstr(&errors), "inferflow: error: the derived spec does not load yet: "))
            fail_msg("%zu: %s", i, buf_cstr(&errors));
        snprintf(line, sizeof line, "grep -q '%s' a && ! $P spec derive -m ours -o b 2>c && cmp a b", lines[i][1]);
        assert_int_equal(command_shell(dir, line, &errors), 0);
    }
    assert_int_equal(command_shell(dir, "rm -r $PWD", &errors), 0);
    buf_free(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(unknown_architectures), cmocka_unit_test(from_parts_alone),
                                       cmocka_unit_test(renamed_models),
                                       cmocka_unit_test(status_says_whether_it_loads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
