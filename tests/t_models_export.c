/* t_models_export.c - a model written in another container and read back has the same program and the same weights, bit
 * for bit. */
#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "io/write_gguf.h"
#include "io/write_safetensors.h"
#include "models/export/export.h"

#include <dirent.h>
#include <sys/stat.h>

/* ---- a small model of random weights, as Hugging Face would save it */

enum { DIM = 32, FFN = 48, LAYERS = 2, VOCAB = 40, HEADS = 4, KV = 2 };

static const char llama_config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,\"intermediate_size\":48,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":40,\"rms_norm_eps\":0."
    "003,"
    "\"max_position_embeddings\":64,\"rope_theta\":5000.5,\"eos_token_id\":[2,7],\"tie_word_embeddings\":false}";
static const char gpt2_config[] = "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":32,\"n_"
                                  "inner\":48,\"n_layer\":2,\"n_head\":4,"
                                  "\"vocab_size\":40,\"n_positions\":64,\"layer_norm_epsilon\":0.003}";

typedef struct named_shape {
    const char *name;
    int rank;
    int64_t dim[2];
    int layers; /* 0: once */
} named_shape;

static const named_shape llama_tensors[] = {{"model.embed_tokens.weight", 2, {VOCAB, DIM}, 0},
                                            {"lm_head.weight", 2, {VOCAB, DIM}, 0},
                                            {"model.norm.weight", 1, {DIM}, 0},
                                            {"model.layers.%d.input_layernorm.weight", 1, {DIM}, LAYERS},
                                            {"model.layers.%d.post_attention_layernorm.weight", 1, {DIM}, LAYERS},
                                            {"model.layers.%d.self_attn.q_proj.weight", 2, {DIM, DIM}, LAYERS},
                                            {"model.layers.%d.self_attn.k_proj.weight", 2, {DIM / 2, DIM}, LAYERS},
                                            {"model.layers.%d.self_attn.v_proj.weight", 2, {DIM / 2, DIM}, LAYERS},
                                            {"model.layers.%d.self_attn.o_proj.weight", 2, {DIM, DIM}, LAYERS},
                                            {"model.layers.%d.mlp.gate_proj.weight", 2, {FFN, DIM}, LAYERS},
                                            {"model.layers.%d.mlp.up_proj.weight", 2, {FFN, DIM}, LAYERS},
                                            {"model.layers.%d.mlp.down_proj.weight", 2, {DIM, FFN}, LAYERS},
                                            {0}};
/* Matrices lie transposed, q, k and v in one. */
static const named_shape gpt2_tensors[] = {{"transformer.wte.weight", 2, {VOCAB, DIM}, 0},
                                           {"transformer.wpe.weight", 2, {64, DIM}, 0},
                                           {"transformer.ln_f.weight", 1, {DIM}, 0},
                                           {"transformer.ln_f.bias", 1, {DIM}, 0},
                                           {"transformer.h.%d.ln_1.weight", 1, {DIM}, LAYERS},
                                           {"transformer.h.%d.ln_1.bias", 1, {DIM}, LAYERS},
                                           {"transformer.h.%d.ln_2.weight", 1, {DIM}, LAYERS},
                                           {"transformer.h.%d.ln_2.bias", 1, {DIM}, LAYERS},
                                           {"transformer.h.%d.attn.c_attn.weight", 2, {DIM, 3 * DIM}, LAYERS},
                                           {"transformer.h.%d.attn.c_attn.bias", 1, {3 * DIM}, LAYERS},
                                           {"transformer.h.%d.attn.c_proj.weight", 2, {DIM, DIM}, LAYERS},
                                           {"transformer.h.%d.attn.c_proj.bias", 1, {DIM}, LAYERS},
                                           {"transformer.h.%d.mlp.c_fc.weight", 2, {DIM, FFN}, LAYERS},
                                           {"transformer.h.%d.mlp.c_fc.bias", 1, {FFN}, LAYERS},
                                           {"transformer.h.%d.mlp.c_proj.weight", 2, {FFN, DIM}, LAYERS},
                                           {"transformer.h.%d.mlp.c_proj.bias", 1, {DIM}, LAYERS},
                                           {0}};

static int random_row(void *self, uint64_t n, float *to, err *e)
{
    const write_tensor *t = self;
    uint64_t u = 1 + n;
    (void)e;
    for (const char *p = t->name; *p; p++) u = u * 31 + (uint8_t)*p;
    for (int64_t i = 0; i < t->dims.dim[t->dims.rank - 1]; i++) {
        u = u * 6364136223846793005u + 1442695040888963407u;
        to[i] = (float)(int32_t)(u >> 32) * 0x1p-31f;
    }
    return OK;
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char *path = file_join(dir, name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    mem_free(path);
}

static void write_model(const char *dir, const char *config, const named_shape *shapes, dtype type)
{
    write_tensor t[64] = {0};
    char name[64][64];
    size_t n = 0;
    err e = {0};
    for (const named_shape *s = shapes; s->name; s++)
        for (int i = 0; i < (s->layers ? s->layers : 1); i++, n++) {
            const char *layer = strstr(s->name, "%d");
            if (layer) snprintf(name[n], sizeof name[n], "%.*s%d%s", (int)(layer - s->name), s->name, i, layer + 2);
            else snprintf(name[n], sizeof name[n], "%s", s->name);
            t[n] = (write_tensor){
                .name = name[n], .type = type, .dims = {s->rank, {s->dim[0], s->dim[1]}}, .row = random_row};
            t[n].self = &t[n];
        }
    mkdir(dir, 0700);
    write_text(dir, "config.json", config);
    char *path = file_join(dir, "model.safetensors");
    assert_ok(write_safetensors(path, t, n, NULL, &e), &e);
    mem_free(path);
}

static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) {
        char *path = file_join(dir, f->d_name);
        if (f->d_name[0] != '.') unlink(path);
        mem_free(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}

/* ---- writing and comparing */

static model *open_model(const char *path)
{
    model *m;
    err e = {0};
    const model_options o = {.model_path = path};
    assert_ok(model_open(&m, &o, &e), &e);
    return m;
}

static void export_to(const model *m, const char *path, dtype type)
{
    bool gguf = strstr(path, ".gguf") != NULL;
    exporter *x;
    err e = {0};
    size_t n;
    assert_ok(export_open(&x, m, gguf ? EXPORT_GGUF : EXPORT_HF, type, &e), &e);
    const write_tensor *t = export_tensors(x, &n);
    if (gguf) {
        assert_ok(write_gguf(path, export_pairs(x), t, n, 0, &e), &e);
    } else {
        buf text = {0};
        mkdir(path, 0700);
        json_print(&text, export_config(x), true);
        write_text(path, "config.json", buf_cstr(&text));
        buf_free(&text);
        char *file = file_join(path, "model.safetensors");
        assert_ok(write_safetensors(file, t, n, NULL, &e), &e);
        mem_free(file);
    }
    export_close(x);
    assert_ok(export_check(m, path, &e), &e);
}

static void same_weights(const model *a, const model *b, float tolerance)
{
    assert_int_equal(a->prog->n_weight, b->prog->n_weight);
    for (uint32_t i = 0; i < a->prog->n_weight; i++) {
        const weight *x = &a->prog->weights[i], *y = &b->prog->weights[i];
        assert_string_equal(x->name, y->name);
        float *p = mem_array((size_t)x->cols, 4), *q = mem_array((size_t)x->cols, 4);
        for (int64_t n = 0; n < x->rows; n++) {
            weight_decode_row(x, n, p);
            weight_decode_row(y, n, q);
            for (int64_t k = 0; k < x->cols; k++) {
                float off = p[k] - q[k];
                bool exact = x->vector || tolerance == 0;
                if (exact ? off != 0 : off > tolerance || off < -tolerance)
                    fail_msg("%s: row %d, column %d: %g, not %g", x->name, (int)n, (int)k, (double)q[k], (double)p[k]);
            }
        }
        mem_free(p);
        mem_free(q);
    }
    assert_int_equal(a->n_eos, b->n_eos);
}

static void round_trip(const char *config, const named_shape *shapes, dtype type)
{
    const char *from = temp_path("export-from"), *gguf = temp_path("export.gguf"), *to = temp_path("export-to");
    const char *again = temp_path("export-again.gguf");
    write_model(from, config, shapes, type);
    model *a = open_model(from);
    a->n_eos = a->n_eos > 1 ? 1 : a->n_eos; /* a GGUF file has room for one */
    export_to(a, gguf, DTYPE_NONE);
    model *b = open_model(gguf);
    same_weights(a, b, 0);
    export_to(b, to, DTYPE_NONE);
    model *c = open_model(to);
    same_weights(a, c, 0);
    export_to(b, again, DTYPE_NONE); /* GGUF to GGUF copies */
    model *d = open_model(again);
    same_weights(a, d, 0);
    if (type == DTYPE_F32) {
        model_close(d);
        export_to(a, again, DTYPE_Q8_0);
        d = open_model(again);
        same_weights(a, d, 0.01f);
    }
    model_close(d);
    model_close(c);
    model_close(b);
    model_close(a);
    unlink(gguf);
    unlink(again);
    remove_folder(from);
    remove_folder(to);
}

static void llama_goes_round(void **unused)
{
    (void)unused;
    round_trip(llama_config, llama_tensors, DTYPE_F32);
    round_trip(llama_config, llama_tensors, DTYPE_BF16);
}

/* llama.rope.dimension_count below the width of a head, in a file where q and k lie in the order of neighbours. */
static void partial_rotation_goes_to_gguf(void **unused)
{
    (void)unused;
    const char *from = temp_path("export-part"), *gguf = temp_path("export-part.gguf"), *ini = temp_path("part.ini");
    char text[400];
    write_model(from, llama_config, llama_tensors, DTYPE_F32);
    snprintf(text, sizeof text, "[model]\nbase = llama\npath = %s\n[config]\nrope_dims = 6\n", from);
    write_text("/", ini, text);
    model *a, *b;
    err e = {0};
    assert_ok(model_open(&a, &(model_options){.spec_path = ini}, &e), &e);
    export_to(a, gguf, DTYPE_NONE);
    b = open_model(gguf);
    a->n_eos = 1;
    same_weights(a, b, 0);
    model_close(a);
    model_close(b);
    unlink(ini);
    unlink(gguf);
    remove_folder(from);
}

/* In GGUF a Mixtral is a "llama" with experts, a Mistral one with a window: the conditions of our `arch` lines are no
 * part of the name. */
static void mixtral_is_a_llama(void **unused)
{
    (void)unused;
    static const char config[] =
        "{\"architectures\":[\"MixtralForCausalLM\"],\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":"
        "2,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":40,\"rms_norm_eps\":0.003,"
        "\"max_position_embeddings\":64,\"num_local_experts\":2,\"num_experts_per_tok\":1,\"sliding_window\":16}";
    named_shape shapes[24] = {{"model.layers.%d.block_sparse_moe.gate.weight", 2, {2, DIM}, LAYERS},
                              {"model.layers.%d.block_sparse_moe.experts.0.w1.weight", 2, {FFN, DIM}, LAYERS},
                              {"model.layers.%d.block_sparse_moe.experts.0.w2.weight", 2, {DIM, FFN}, LAYERS},
                              {"model.layers.%d.block_sparse_moe.experts.0.w3.weight", 2, {FFN, DIM}, LAYERS},
                              {"model.layers.%d.block_sparse_moe.experts.1.w1.weight", 2, {FFN, DIM}, LAYERS},
                              {"model.layers.%d.block_sparse_moe.experts.1.w2.weight", 2, {DIM, FFN}, LAYERS},
                              {"model.layers.%d.block_sparse_moe.experts.1.w3.weight", 2, {FFN, DIM}, LAYERS}};
    for (size_t n = 7, i = 0; llama_tensors[i].name; i++)
        if (!strstr(llama_tensors[i].name, "mlp")) shapes[n++] = llama_tensors[i];
    const char *from = temp_path("export-moe"), *gguf = temp_path("export-moe.gguf");
    write_model(from, config, shapes, DTYPE_F32);
    model *a = open_model(from);
    export_to(a, gguf, DTYPE_NONE);
    model *b = open_model(gguf);
    same_weights(a, b, 0);
    assert_string_equal(json_str(json_get(ckpt_config(b->weights), "general.architecture"), ""), "llama");
    model_close(a);
    model_close(b);
    unlink(gguf);
    remove_folder(from);
}

/* A GGUF file with factors (.scale, .input_scale) beside the query and the experts' up matrices. */
static void factors_beside_matrices_count(void **unused)
{
    (void)unused;
    static const float factor[] = {0.5f, 3}, other = 7;
    const char *plain = temp_path("factors-plain.gguf"), *gguf = temp_path("factors.gguf");
    const model_options o = {.model_path = "tests/vectors/models/mixtral", .act = "f32"};
    model *a, *b = NULL;
    exporter *x;
    err e = {0};
    size_t n;
    assert_ok(model_open(&a, &o, &e), &e);
    export_to(a, plain, DTYPE_NONE);
    model_close(a);
    a = open_model(plain);
    const ckpt_entry *up = ckpt_find(a->weights, "blk.1.ffn_up_exps.weight");
    assert_true(up && up->dims.rank == 3 && up->dims.dim[0] <= 64);
    int64_t experts = up->dims.dim[0];
    float each[64];
    for (int64_t i = 0; i < experts; i++) each[i] = (float)(i + 2);
    for (int wrong = 0; wrong < 2; wrong++) {
        assert_ok(export_open(&x, a, EXPORT_GGUF, DTYPE_NONE, &e), &e);
        const write_tensor *t = export_tensors(x, &n);
        write_tensor *more = mem_array(n + 3, sizeof *more);
        memcpy(more, t, n * sizeof *more);
        more[n++] = (write_tensor){"blk.0.attn_q.scale", DTYPE_F32, {1, {1 + wrong}}, .raw = factor};
        more[n++] = (write_tensor){"blk.0.attn_q.input_scale", DTYPE_F32, {1, {1}}, .raw = &other};
        more[n++] = (write_tensor){"blk.1.ffn_up_exps.scale", DTYPE_F32, {1, {experts}}, .raw = each};
        assert_ok(write_gguf(gguf, export_pairs(x), more, n, 1, &e), &e);
        mem_free(more);
        export_close(x);
        if (!wrong) b = open_model(gguf);
    }
    const model_options two = {.model_path = gguf};
    model *none = NULL;
    assert_int_equal(model_open(&none, &two, &e), ERR_SPEC); /* two factors of one matrix */
    assert_non_null(strstr(e.msg, "blk.0.attn_q.scale"));
    for (uint32_t i = 0; i < a->prog->n_weight; i++) {
        const weight *p = &a->prog->weights[i], *q = &b->prog->weights[i];
        bool query = strcmp(p->name, "dec.0.attn.q") == 0, ups = strcmp(p->name, "dec.1.ffn.up") == 0;
        float was[64], is[64];
        assert_true(p->cols <= 64);
        for (int64_t r = 0; r < p->rows; r++) {
            weight_decode_row(p, r, was);
            weight_decode_row(q, r, is);
            float by = query ? factor[0] : ups ? each[r / (p->rows / experts)] : 1;
            for (int64_t k = 0; k < p->cols; k++) assert_true(is[k] == was[k] * by);
        }
    }
    model_close(b);
    model_close(a);
    unlink(plain);
    unlink(gguf);
}

/* With 8-bit activations blocks stay as they are and the product takes the factor; with floats the weights do. */
static void factors_stand_behind_blocks(void **unused)
{
    (void)unused;
    static const float factor = 1.5f;
    const char *from = temp_path("behind"), *plain = temp_path("behind-plain.gguf"), *gguf = temp_path("behind.gguf");
    exporter *x;
    err e = {0};
    size_t n;
    write_model(from, llama_config, llama_tensors, DTYPE_F32);
    model *m = open_model(from);
    export_to(m, plain, DTYPE_Q8_0);
    model_close(m);
    m = open_model(plain);
    assert_ok(export_open(&x, m, EXPORT_GGUF, DTYPE_NONE, &e), &e);
    const write_tensor *t = export_tensors(x, &n);
    write_tensor *more = mem_array(n + 1, sizeof *more);
    memcpy(more, t, n * sizeof *more);
    more[n++] = (write_tensor){"blk.1.attn_k.scale", DTYPE_F32, {1, {1}}, .raw = &factor};
    assert_ok(write_gguf(gguf, export_pairs(x), more, n, 1, &e), &e);
    mem_free(more);
    export_close(x);
    model_close(m);
    for (int floats = 0; floats < 2; floats++) {
        const model_options o = {.model_path = gguf, .act = floats ? "f32" : "q8"};
        int scaled = 0;
        assert_ok(model_open(&m, &o, &e), &e);
        for (uint32_t i = 0; i < m->prog->n_op; i++)
            scaled += m->prog->ops[i].kind == OP_SCALE && m->prog->ops[i].u.scale.factor == factor;
        assert_int_equal(scaled, floats ? 0 : 1);
        for (uint32_t i = 0; i < m->prog->n_weight; i++) {
            const weight *w = &m->prog->weights[i];
            if (strcmp(w->name, "dec.1.attn.k") == 0)
                assert_int_equal(weight_held_type(w), floats ? DTYPE_F32 : DTYPE_Q8_0);
        }
        model_close(m);
    }
    unlink(plain);
    unlink(gguf);
    remove_folder(from);
}

static void gpt2_goes_round(void **unused)
{
    (void)unused;
    round_trip(gpt2_config, gpt2_tensors, DTYPE_F16);
}

/* llama_config with another architecture and more keys. */
static const char *llama_like(const char *architecture, const char *more)
{
    static char config[700];
    snprintf(config, sizeof config, "{\"architectures\":[\"%s\"],%s,%s", architecture, more,
             strstr(llama_config, "\"hidden_size\""));
    return config;
}

static model *through_gguf(const char *config, const char *gguf)
{
    const char *from = temp_path("export-like");
    write_model(from, config, llama_tensors, DTYPE_F32);
    model *a = open_model(from);
    a->n_eos = 1;
    export_to(a, gguf, DTYPE_NONE);
    model *b = open_model(gguf);
    same_weights(a, b, 0);
    model_close(a);
    remove_folder(from);
    return b;
}

/* A window of all layers is a key of its own, and Mistral a "llama" that has it. */
static void windows_go_to_gguf(void **unused)
{
    (void)unused;
    const char *gguf = temp_path("window.gguf");
    model *m = through_gguf(llama_like("MistralForCausalLM", "\"sliding_window\":16"), gguf);
    assert_int_equal(json_int(json_get(ckpt_config(m->weights), "llama.attention.sliding_window"), 0), 16);
    assert_string_equal(json_str(json_get(ckpt_config(m->weights), "general.architecture"), ""), "llama");
    model_close(m);
    unlink(gguf);
}

/* GGUF has no keys for the positions of Llama 3, but a tensor that frequencies are divided by: by 1 where they are
 * fast, by the factor where they are slow. Keys of another scaling beside it would be applied as well. */
static void llama3_positions_go_to_gguf(void **unused)
{
    (void)unused;
    const char *gguf = temp_path("llama3.gguf");
    model *m = through_gguf(llama_like("LlamaForCausalLM",
                                       "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":"
                                       "1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":128}"),
                            gguf);
    const ckpt_entry *t = ckpt_find(m->weights, "rope_freqs.weight");
    assert_non_null(t);
    const float *f = (const float *)t->data;
    assert_int_equal(t->dims.dim[0], 4); /* half a head */
    assert_true(f[0] == 1 && f[1] > 1 && f[1] < 8 && f[2] == 8 && f[3] == 8);
    assert_null(json_get(ckpt_config(m->weights), "llama.rope.scaling.type"));
    assert_int_equal(json_int(json_get(ckpt_config(m->weights), "llama.attention.value_length"), 0), 8); /* of [gguf] */
    assert_null(json_get(ckpt_config(m->weights), "llama.rope.scaling.factor"));
    model_close(m);
    unlink(gguf);
}

/* GGUF has no word for a base that grows with the text; readers of that form stop at words they do not know. */
static void dynamic_positions_go_to_gguf(void **unused)
{
    (void)unused;
    const char *gguf = temp_path("dynamic.gguf");
    model *m = through_gguf(
        llama_like("LlamaForCausalLM", "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.5}"), gguf);
    assert_int_equal(m->prog->ropes[0].params.scaling, ROPE_DYNAMIC);
    assert_string_equal(json_str(json_get(ckpt_config(m->weights), "llama.rope.scaling.type"), ""), "none");
    model_close(m);
    unlink(gguf);
}

/* The keys of config.json for a model that comes from GGUF. */
static void expect_config(const model *m, const char *const *parts)
{
    exporter *x;
    err e = {0};
    buf text = {0};
    assert_ok(export_open(&x, m, EXPORT_HF, DTYPE_NONE, &e), &e);
    assert_true(json_print(&text, export_config(x), false));
    export_close(x);
    for (; *parts; parts++)
        if (!strstr(buf_cstr(&text), *parts)) fail_msg("%s is not in %s", *parts, buf_cstr(&text));
    buf_free(&text);
}

/* The four numbers of Llama 3's scaling come out of the factors, but for a common measure; factors of another kind are
 * listed. */
static void factors_become_a_scaling(void **unused)
{
    (void)unused;
    static const char *const as_known[] = {"\"rope_type\":\"llama3\"",
                                           "\"factor\":8.0",
                                           "\"low_freq_factor\":1.0",
                                           "\"high_freq_factor\":4.0",
                                           "\"original_max_position_embeddings\":128",
                                           "\"rope_theta\":5000.5",
                                           NULL};
    static const char *const halved[] = {"\"low_freq_factor\":1.0", "\"high_freq_factor\":12.0",
                                         "\"original_max_position_embeddings\":512", NULL};
    static const char *const listed[] = {"\"rope_type\":\"longrope\"", "\"short_factor\":[1.0,2.5,2.0,8.0]",
                                         "\"long_factor\":[1.0,2.5,2.0,8.0]", "\"attention_factor\":1.0", NULL};
    static const struct {
        const char *scaling;
        const char *const *parts;
    } all[] = {
        {"\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
         "\"original_max_position_embeddings\":128}",
         as_known},
        {"\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":0.5,\"high_freq_factor\":6.0,"
         "\"original_max_position_embeddings\":256}",
         halved},
        {"\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2.0,\"attention_factor\":1.0,\"original_max_position_"
         "embeddings\":32,\"short_factor\":[1.0,2.5,2.0,8.0],\"long_factor\":[1.0,2.5,2.0,8.0]}",
         listed}};
    const char *gguf = temp_path("factors.gguf");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        model *m = through_gguf(llama_like("LlamaForCausalLM", all[i].scaling), gguf);
        expect_config(m, all[i].parts);
        model_close(m);
        unlink(gguf);
    }
}

/* Values that readers would take from class defaults are written: biases, floats with a point, null for none. */
static void config_says_what_is_so(void **unused)
{
    (void)unused;
    static const char *const parts[] = {"\"architectures\":[\"LlamaForCausalLM\"]",
                                        "\"attention_bias\":false",
                                        "\"mlp_bias\":false",
                                        "\"pad_token_id\":null",
                                        "\"rms_norm_eps\":0.003",
                                        "\"rope_scaling\":{\"rope_type\":\"default\"}",
                                        "\"tie_word_embeddings\":false",
                                        NULL};
    static const char *const mistral[] = {"\"sliding_window\":16", "\"model_type\":\"mistral\"", NULL};
    const char *gguf = temp_path("says.gguf");
    model *m = through_gguf(llama_like("LlamaForCausalLM", "\"attention_bias\":false"), gguf);
    expect_config(m, parts);
    model_close(m);
    m = through_gguf(llama_like("MistralForCausalLM", "\"sliding_window\":16"), gguf);
    expect_config(m, mistral);
    model_close(m);
    unlink(gguf);
}

/* Lines of a spec that cannot be read backwards. */
static void lines_are_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *lines, *message;
        export_kind kind;
    } all[] = {
        {"[config.json]\na = 1\na.b = 2\n", "config.json has a key 'a' that is no object", EXPORT_HF},
        {"[config.json]\na = hidden_size +\n", "a: ", EXPORT_HF},
        {"[tensors]\n{i}.attn.q = layers.{i}.self_attn.q_proj | gguf:blk.{i}.attn_q (* 0)\n", "multiplied by 0",
         EXPORT_GGUF},
        {"[tensors]\n{i}.attn.q = layers.{i}.self_attn.q_proj | gguf:blk.{i}.attn_q (every 7 take 3 at 0)\n",
         "do not fill", EXPORT_GGUF},
        {"[tensors]\n{i}.attn.q = layers.{i}.self_attn.q_proj | gguf:blk.{i}.attn_q (every 2000000000 take 1 at 0)\n",
         "do not fill", EXPORT_GGUF},
        {"[tensors]\n{i}.attn.k = layers.{i}.self_attn.k_proj | gguf:blk.{i}.attn_q\n", "do not fill", EXPORT_GGUF},
        {"[tensors]\n{i}.attn.k = layers.{i}.self_attn.k_proj | gguf:blk.{i}.attn_k (transpose, columns 8 .. 40)\n",
         "do not fill", EXPORT_GGUF},
        {"[tensors]\n{i}.ffn.up = layers.{i}.mlp.up_proj | gguf:blk.{i}.ffn_up.{0 .. 5}\n", "do not fill the tensors",
         EXPORT_GGUF},
        {"[tensors]\nhead = lm_head\n", "has no gguf name for head", EXPORT_GGUF},
    };
    const char *from = temp_path("export-lines"), *ini = temp_path("lines.ini");
    write_model(from, llama_config, llama_tensors, DTYPE_F32);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[600];
        model *m = NULL;
        exporter *x = NULL;
        err e = {0};
        snprintf(text, sizeof text, "[model]\nbase = llama\npath = %s\narch = gguf:llama\n%s", from, all[i].lines);
        write_text("/", ini, text);
        int rc = model_open(&m, &(model_options){.spec_path = ini}, &e);
        if (!rc && all[i].kind == EXPORT_HF) { /* a folder is copied, whatever the spec says: from GGUF it is not */
            const char *gguf = temp_path("lines.gguf");
            export_to(m, gguf, DTYPE_NONE);
            model_close(m);
            snprintf(text, sizeof text, "[model]\nbase = llama\npath = %s\narch = LlamaForCausalLM\n%s", gguf,
                     all[i].lines);
            write_text("/", ini, text);
            assert_ok(model_open(&m, &(model_options){.spec_path = ini}, &e), &e);
            unlink(gguf);
        }
        if (!rc) rc = export_open(&x, m, all[i].kind, DTYPE_NONE, &e);
        assert_int_equal(rc, ERR_SPEC);
        if (!strstr(e.msg, all[i].message)) fail_msg("%s: says %s", all[i].lines, e.msg);
        if (m) model_close(m);
    }
    unlink(ini);
    remove_folder(from);
}

/* An export either describes everything or says that memory was short. */
static void export_without_memory(const model *m, export_kind kind)
{
    long n = 1;
    for (bool fired = true; fired; n += 1 + n / 30) {
        exporter *x = NULL;
        err e = {0};
        mem_fail_at(n);
        int rc = export_open(&x, m, kind, DTYPE_NONE, &e);
        fired = mem_fail_at(0);
        if (rc != (fired ? ERR_MEMORY : OK)) fail_msg("allocation %ld: %d, %s", n, rc, e.msg);
        export_close(x);
    }
    assert_true(n > 20);
}

static void memory_runs_out(void **unused)
{
    (void)unused;
    const char *from = temp_path("export-memory"), *gguf = temp_path("memory.gguf");
    const char *const configs[] = {llama_config, gpt2_config};
    for (int i = 0; i < 2; i++) {
        write_model(from, configs[i], i ? gpt2_tensors : llama_tensors, DTYPE_F32);
        model *m = open_model(from);
        m->n_eos = m->n_eos > 1 ? 1 : m->n_eos;
        export_without_memory(m, EXPORT_GGUF);
        export_without_memory(m, EXPORT_HF); /* copies */
        export_to(m, gguf, DTYPE_NONE);
        model *b = open_model(gguf);
        export_without_memory(b, EXPORT_HF);
        model_close(b);
        model_close(m);
        unlink(gguf);
        remove_folder(from);
    }
}

/* An export that the container cannot express is refused: GGUF's "llama" has one activation. */
static void another_model_is_refused(void **unused)
{
    (void)unused;
    const char *from = temp_path("export-act"), *gguf = temp_path("act.gguf");
    write_model(from, llama_like("LlamaForCausalLM", "\"hidden_act\":\"gelu\""), llama_tensors, DTYPE_F32);
    model *m = open_model(from);
    exporter *x;
    err e = {0};
    size_t n;
    assert_ok(export_open(&x, m, EXPORT_GGUF, DTYPE_NONE, &e), &e);
    const write_tensor *t = export_tensors(x, &n);
    assert_ok(write_gguf(gguf, export_pairs(x), t, n, 0, &e), &e);
    export_close(x);
    assert_int_equal(export_check(m, gguf, &e), ERR_SPEC);
    assert_non_null(strstr(e.msg, "not be the same model"));
    e = (err){0};
    assert_int_equal(export_open(&x, m, EXPORT_HF, DTYPE_Q8_0, &e), ERR_USAGE);
    e = (err){0};
    assert_int_equal(export_open(&x, m, EXPORT_GGUF, DTYPE_Q8_K, &e), ERR_USAGE);
    model_close(m);
    unlink(gguf);
    remove_folder(from);
}

static void stories_are_the_same_everywhere(void **unused)
{
    (void)unused;
    static const char *const files[] = {"models/stories260K/stories260K.bin", "models/stories260K/stories260K-v1.bin",
                                        "models/stories260K/stories260K.pt"};
    const char *dir = temp_path("stories"), *gguf = temp_path("stories.gguf");
    for (int i = 0; i < 3; i++) {
        const char *path = shared_path(files[i]);
        if (!path) {
            skip_msg("%s is not there", files[i]);
            return;
        }
        model *a = open_model(path);
        export_to(a, dir, DTYPE_NONE);
        model *b = open_model(dir);
        same_weights(a, b, 0);
        export_to(b, gguf, DTYPE_NONE);
        model *c = open_model(gguf);
        b->n_eos = 1;
        same_weights(b, c, 0);
        model_close(c);
        model_close(b);
        model_close(a);
    }
    unlink(gguf);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_goes_round),
        cmocka_unit_test(mixtral_is_a_llama),
        cmocka_unit_test(factors_beside_matrices_count),
        cmocka_unit_test(factors_stand_behind_blocks),
        cmocka_unit_test(partial_rotation_goes_to_gguf),
        cmocka_unit_test(windows_go_to_gguf),
        cmocka_unit_test(llama3_positions_go_to_gguf),
        cmocka_unit_test(dynamic_positions_go_to_gguf),
        cmocka_unit_test(factors_become_a_scaling),
        cmocka_unit_test(config_says_what_is_so),
        cmocka_unit_test(lines_are_refused),
        cmocka_unit_test(gpt2_goes_round),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(stories_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
