/* t_app_quantize.c - files that `inferflow quantize` writes: self-contained, the same bits as the source held in the
 * same types, refused when they are not what they say. */
#include "measure/evaluate.h"
#include "app/app.h"
#include "app/tokenizer_choice.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/ckpt.h"
#include "io/write_safetensors.h"
#include "models/model.h"
#include "models/compile/weight_policy.h"
#include "text/tokenizer_equal.h"

#include "command.h"
#include "vector_rig.h"

#include <math.h>

static int quantize(const char *from, const char *how, const char *value, const char *out)
{
    char *argv[] = {"inferflow",   "quantize", "--threads", "2",       "--log-level", "error", (char *)how,
                    (char *)value, "-o",       (char *)out, "--model", (char *)from,  NULL};
    return app_main(from ? 12 : 10, argv);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* ---- every family */

/* The greatest distance of two logits over the greatest logit. */
static double furthest(const table *a, const table *b)
{
    double most = 0, greatest = 0;
    for (int64_t i = 0; i < a->rows * a->width; i++) {
        most = fmax(most, fabs((double)a->at[i] - (double)b->at[i]));
        greatest = fmax(greatest, fabs((double)b->at[i]));
    }
    return most / greatest;
}

static bool check_family(const char *name, const char *type)
{
    char folder[400];
    snprintf(folder, sizeof folder, "%s/%s", vectors, name);
    const char *out = temp_path("q.safetensors");
    expected x;
    expected_read(&x, folder);
    assert_int_equal(quantize(folder, "--format", type, out), 0);
    table held = logits_of(open_model((engine_options){.model = folder, .weights = type, .threads = 1}), &x);
    table file = logits_of(open_model((engine_options){.model = out, .threads = 1}), &x);
    table exact = logits_of(open_model((engine_options){.model = folder, .weights = type, .act = "f32"}), &x);
    table file_exact = logits_of(open_model((engine_options){.model = out, .act = "f32"}), &x);
    bool same = same_bits(&held, &file) && same_bits(&exact, &file_exact);
    if (!same) printf("%s as %s: the file gives other logits\n", name, type);
    /* Rows are narrow (act_q8.h) in all of them. Gemma 4 and 3n, tiny and drawn anew, make much of little: q8_0 moves
     * their logits by a third, as other experts are picked. */
    const bool moved = strncmp(name, "gemma4", 6) == 0 || strncmp(name, "gemma3n", 7) == 0;
    const double apart = moved ? 0 : furthest(&held, &exact);
    if (apart > 1e-3) printf("%s as %s: int8 activations put logits %.1e apart\n", name, type, apart);
    free(held.at), free(file.at), free(exact.at), free(file_exact.at);
    json_free(x.file);
    unlink(out);
    return same && apart <= 1e-3;
}

static int family_faults(const char *folder, const char *name, int turn)
{
    static const char *const types[] = {"q4_b64", "q8_0", "q3h_b64", "q2_b32", "f16"};
    (void)folder;
    return !check_family(name, types[(size_t)turn % (sizeof types / sizeof *types)]);
}

static void every_family_as_it_is_held(void **unused)
{
    (void)unused;
    assert_true(check_models(vectors, family_faults) > 100);
}

/* ---- alone */

static void built_in_stands_alone(void **unused)
{
    (void)unused;
    const char *out = temp_path("alone.safetensors"), *again = temp_path("again.safetensors");
    static const int32_t ids[] = {1, 20, 300, 4, 4000, 60, 7};
    err e = {0};
    assert_int_equal(quantize(NULL, "--bits", "3.5", out), 0);
    engine *a = open_model((engine_options){0}), *b = open_model((engine_options){.model = out});
    assert_true(tokenizer_equal(engine_tokenizer(a), engine_tokenizer(b), true));
    assert_int_equal(engine_describe(a)->n_eos, engine_describe(b)->n_eos);
    assert_int_equal(engine_describe(a)->bos, engine_describe(b)->bos);
    assert_string_equal(engine_describe(a)->arch, engine_describe(b)->arch);
    table x = table_new(engine_describe(b)->n_vocab, 7), y = table_new(x.width, 7);
    assert_ok(engine_eval(b, ids, 7, -1, keep_rows, &x, &e), &e);
    engine_close(a);
    engine_close(b);

    /* what is quantized once more, all kept, is the same file */
    const char *policy = temp_path("keep.txt");
    write_file(policy, "* = keep\n");
    assert_int_equal(quantize(out, "--policy", policy, again), 0);
    b = open_model((engine_options){.model = again});
    assert_ok(engine_eval(b, ids, 7, -1, keep_rows, &y, &e), &e);
    assert_true(same_bits(&x, &y));
    engine_close(b);
    free(x.at), free(y.at);
    unlink(out), unlink(again), unlink(policy);
}

/* The number behind a word of what quantize prints; -1: it is not there. */
static double told(const char *text, const char *row, const char *word)
{
    const char *at = strstr(text, row), *end = at ? strchr(at, '\n') : NULL;
    const char *found = at ? strstr(at, word) : NULL;
    return found && (!end || found < end) ? atof(found + strlen(word)) : -1;
}

/* Shares of types add up, errors fall with bits, and few bits are warned of. */
static void the_summary_tells_shares_and_errors(void **unused)
{
    (void)unused;
    static const char *const bits[] = {"2", "3.5", "4", "6", "8"};
    char args[300];
    double before = 100;
    buf out = {0}, errors = {0};
    for (int gguf = 0; gguf < 2; gguf++, before = 100)
        for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
            if (gguf && strcmp(bits[i], "3.5") == 0) continue;
            const char *file = temp_path(gguf ? "told.gguf" : "told.safetensors");
            snprintf(args, sizeof args, "quantize -m builtin --bits %s -o %s", bits[i], file);
            assert_int_equal(command_run(NULL, args, &out, &errors), 0);
            const char *text = buf_cstr(&out);
            const double error = told(text, file, "estimated error ");
            assert_true(error >= 0 && error < before); /* 0: the source has these bits */
            before = error;
            assert_int_equal(strstr(buf_cstr(&errors), "at 3 bits and below") != NULL, i == 0);
            double weights = 0, bytes = 0;
            for (const char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
                char type[20];
                double w, b;
                assert_int_equal(sscanf(line, " %19s %lf %% of the weights, %lf %% of the bytes", type, &w, &b), 3);
                weights += w;
                bytes += b;
            }
            assert_float_equal(weights, 100, 0.3);
            assert_float_equal(bytes, 100, 0.3);
            unlink(file);
        }
    buf_free(&out);
    buf_free(&errors);
}

/* A tokenizer that was given by a name no folder has goes along as often as the file is quantized. */
static void given_tokenizers_stay(void **unused)
{
    (void)unused;
    static const char given[] = "tests/vectors/tokenizers/llama2c.bin";
    const char *out = temp_path("given.safetensors"), *again = temp_path("given2.safetensors");
    char *first[] = {"inferflow", "quantize",    "--log-level", "error", "--bits", "8", "--model",
                     NULL,        "--tokenizer", NULL,          "-o",    NULL,     NULL};
    char folder[400];
    err e = {0};
    tokenizer *want, *got;
    snprintf(folder, sizeof folder, "%s/llama", vectors);
    first[7] = folder, first[9] = (char *)given, first[11] = (char *)out;
    assert_int_equal(app_main(12, first), 0);
    assert_int_equal(quantize(out, "--bits", "4", again), 0);
    assert_ok(tokenizer_choose(&want, &(engine_options){.tokenizer = given}, &e), &e);
    const char *files[] = {out, again};
    for (int i = 0; i < 2; i++) {
        assert_ok(tokenizer_choose(&got, &(engine_options){.model = files[i]}, &e), &e);
        assert_true(tokenizer_equal(want, got, true));
        tokenizer_close(got);
        unlink(files[i]);
    }
    tokenizer_close(want);
}

static void panels_are_aligned(void **unused)
{
    (void)unused;
    const char *out = temp_path("aligned.safetensors");
    err e = {0};
    ckpt *c;
    assert_int_equal(quantize(NULL, "--format", "q5_b64", out), 0);
    assert_ok(ckpt_open(&c, out, &e), &e);
    int packed = 0;
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        assert_true(ckpt_entry_mapped(c, t));
        packed += t->packed;
        assert_int_equal((uintptr_t)t->data % (t->packed ? 64 : 4), 0);
    }
    assert_true(packed > 40);
    assert_string_equal(json_str(json_get(ckpt_metadata(c), "dec.0.attn.q"), ""), "q5_b64.r16");
    assert_string_equal(json_str(json_get(ckpt_metadata(c), "dec.0.norm.a"), ""), "f32");
    ckpt_close(c);
    unlink(out);
}

/* ---- GGUF */

static table built_in_logits(engine_options o)
{
    static const int32_t ids[] = {1, 20, 300, 4, 4000, 60, 7};
    engine *g = open_model(o);
    table t = table_new(engine_describe(g)->n_vocab, 7);
    err e = {0};
    assert_ok(engine_eval(g, ids, 7, -1, keep_rows, &t, &e), &e);
    engine_close(g);
    return t;
}

static void gguf_holds_the_same(void **unused)
{
    (void)unused;
    const char *out = temp_path("q.gguf"), *policy = temp_path("policy.txt");
    err e = {0};
    ckpt *c;
    assert_int_equal(quantize(NULL, "--format", "q4_0", out), 0);
    table held = built_in_logits((engine_options){.weights = "q4_0"}),
          file = built_in_logits((engine_options){.model = out});
    assert_true(same_bits(&held, &file));
    free(held.at), free(file.at);
    write_file(policy, "# all, then less\r\n*.attn.* = q5_1\n\n  blk.0.attn_v.* =  q8_0 \nembed = keep\n");
    assert_int_equal(quantize(NULL, "--policy", policy, out), 0);
    assert_ok(ckpt_open(&c, out, &e), &e);
    assert_int_equal(ckpt_find(c, "blk.1.attn_v.weight")->type, DTYPE_Q5_1);
    assert_int_equal(ckpt_find(c, "blk.0.attn_v.weight")->type, DTYPE_Q8_0);
    assert_int_equal(ckpt_find(c, "blk.1.ffn_up.weight")->type, DTYPE_Q8_0); /* as in the file */
    ckpt_close(c);
    assert_int_equal(quantize(NULL, "--bits", "3.5", out), 2);
    assert_int_equal(quantize(NULL, "--format", "q4_b64", out), 2);
    unlink(out), unlink(policy);
}

/* GGUF into GGUF: without a vocabulary, with one, and with another in its place. */
static void gguf_of_gguf(void **unused)
{
    (void)unused;
    const char *first = temp_path("first.gguf"), *second = temp_path("second.gguf"),
               *bare = "tests/vectors/models/llama";
    err e = {0};
    ckpt *c;
    assert_int_equal(quantize(bare, "--format", "q8_0", first), 0);
    assert_int_equal(quantize(first, "--format", "q4_0", second), 0);
    assert_ok(ckpt_open(&c, second, &e), &e);
    assert_string_equal(json_str(json_get(ckpt_config(c), "tokenizer.ggml.model"), ""), "none");
    ckpt_close(c);
    assert_int_equal(quantize(NULL, "--format", "q8_0", first), 0);
    assert_int_equal(quantize(first, "--format", "tq2_0", second), 0);
    char *argv[] = {"inferflow",    "quantize", "--log-level", "error",       "--format",    "q8_0", "-o",
                    (char *)second, "--model",  (char *)first, "--tokenizer", (char *)first, NULL};
    assert_int_equal(app_main(12, argv), 0);
    unlink(first), unlink(second);
}

/* Its own files go on to a folder and to GGUF where the config.json that they carry tells the family: what was
 * quantized as the numbers that it is. */
static void own_files_are_exported(void **unused)
{
    (void)unused;
    static const char *const families[] = {"llama", "gpt2", "mixtral", "nemotron"};
    char own[200], forms[2][200], line[900], folder[400]; /* temp_path has few places */
    snprintf(own, sizeof own, "%s", temp_path("own.safetensors"));
    snprintf(forms[0], sizeof forms[0], "%s", temp_path("own-folder"));
    snprintf(forms[1], sizeof forms[1], "%s", temp_path("own.gguf"));
    buf said = {0}, errors = {0};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        snprintf(folder, sizeof folder, "%s/%s", vectors, families[i]);
        expected x;
        expected_read(&x, folder);
        assert_int_equal(quantize(folder, "--format", i ? "q4_1" : "q4_b64", own), 0);
        table want = logits_of(open_model((engine_options){.model = own, .act = "f32"}), &x);
        for (int k = 0; k < 2; k++) {
            snprintf(line, sizeof line, "export --log-level error --model %s -o %s", own, forms[k]);
            if (command_run(NULL, line, &said, &errors)) fail_msg("%s: %s", line, buf_cstr(&errors));
            table got = logits_of(open_model((engine_options){.model = forms[k], .act = "f32"}), &x);
            if (!same_bits(&want, &got)) fail_msg("%s: other logits", forms[k]);
            free(got.at);
        }
        free(want.at);
        json_free(x.file);
    }
    snprintf(line, sizeof line, "rm -r %s %s %s", own, forms[0], forms[1]);
    assert_int_equal(system(line), 0);
    buf_free(&said), buf_free(&errors);
}

/* What no type of GGUF's fits is said, not only done. */
static void gguf_says_what_it_refits(void **unused)
{
    (void)unused;
    char line[900];
    const char *out = temp_path("refit.gguf");
    buf said = {0}, errors = {0};
    snprintf(line, sizeof line, "quantize --bits 4 -o %s --model %s/llama", out, vectors);
    assert_int_equal(command_run(NULL, line, &said, &errors), 0);
    assert_non_null(strstr(buf_cstr(&errors), "matrices become f16: blocks of q4_k (256 weights)"));
    snprintf(line, sizeof line, "quantize --bits 4 -o %s", out);
    assert_int_equal(command_run(NULL, line, &said, &errors), 0);
    assert_null(strstr(buf_cstr(&errors), "f16"));
    /* without a config.json its own files say nothing of GGUF's names, nor of a folder's */
    char own[200];
    snprintf(own, sizeof own, "%s", temp_path("own.safetensors"));
    static const char *const ways[] = {"quantize --bits 4", "export"};
    assert_int_equal(quantize(NULL, "--bits", "8", own), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s -o %s --model %s", ways[i], out, own);
        assert_int_equal(command_run(NULL, line, &said, &errors), 1);
        assert_non_null(strstr(buf_cstr(&errors), "take the model that it was made of"));
    }
    unlink(out), unlink(own);
    buf_free(&said), buf_free(&errors);
}

/* ---- policies and mistakes */

static const char *type_in(const char *file, const char *name)
{
    static char word[40];
    ckpt *c;
    err e = {0};
    assert_ok(ckpt_open(&c, file, &e), &e);
    snprintf(word, sizeof word, "%s", json_str(json_get(ckpt_metadata(c), name), "none"));
    ckpt_close(c);
    return word;
}

static void policies_choose(void **unused)
{
    (void)unused;
    const char *out = temp_path("p.safetensors"), *policy = temp_path("policy.txt");
    write_file(policy, "* = q4\ndec.*.ffn.down = Q6\n*.attn.q = Q8_0\n3.attn.q = Keep\nhead = f16\n");
    assert_int_equal(quantize(NULL, "--policy", policy, out), 0);
    assert_string_equal(type_in(out, "dec.0.attn.v"), "q4_b32.r16");
    assert_string_equal(type_in(out, "dec.0.ffn.down"), "q6_b64.r16");
    assert_string_equal(type_in(out, "dec.2.attn.q"), "q8_0.r16");
    assert_string_equal(type_in(out, "dec.3.attn.q"), "q8_0.r16"); /* as in the file */
    assert_string_equal(type_in(out, "dec.token"), "f16");         /* the head too */
    write_file(policy, "* = q4\n*.attn.q = q8\n* = q5\n");         /* the last wins, whatever stands above it */
    assert_int_equal(quantize(NULL, "--policy", policy, out), 0);
    assert_string_equal(type_in(out, "dec.2.attn.q"), "q5_b64.r16");
    static const char *const wrong[] = {"*.attn.q = q9\n", "attn.q\n", " = q4\n", "*.atn.q = q4\n", "*.norm.a = q4\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unlink(out);
        write_file(policy, wrong[i]);
        assert_int_equal(quantize(NULL, "--policy", policy, out), 2);
        assert_int_not_equal(access(out, F_OK), 0);
    }
    assert_int_equal(quantize(NULL, "--format", "q9", out), 2);
    assert_int_equal(quantize(NULL, "--bits", "7", out), 2);
    static const char *const activations[] = {"q8_1", "q8_k"};
    for (int i = 0; i < 2; i++) {
        dtype type;
        err e = {0};
        assert_int_equal(weight_type(activations[i], "--format", &type, &e), ERR_USAGE);
        assert_non_null(strstr(e.msg, "how ggml holds activations"));
        assert_null(strstr(e.msg, "f32, f16"));
    }
    assert_int_equal(quantize(NULL, "--block", "64", out), 2);
    assert_int_equal(quantize(NULL, "--bits", "4", "/nowhere/at/all.safetensors"), 1);
    unlink(policy);
}

/* ---- hostile files */

typedef struct fake {
    const char *type, *shape, *spec, *layout;
    int64_t bytes;
} fake;

static const char own_spec[] = "[model]\narch = x\n[config]\nheads = 1\nkv_heads = 1\nhead_dim = 64\neps = 1e-5\n"
                               "theta = 1e4\n[network]\ntype = decoder_only\nlayers = 1\ndim = 64\npositions = 64\n"
                               "block = x = x + attn(x)\nattn = gqa, rope = none\n"
                               "[tensors]\ntoken = w\n{i}.attn.q = w\n{i}.attn.k = w\n{i}.attn.v = w\n{i}.attn.o = w\n";

/* Opens a file of one tensor "w" that says of itself what f says. */
static int open_fake(const char *path, const fake *f, err *e)
{
    static uint8_t zeros[1 << 16];
    const write_tensor t = {.name = "w", .type = DTYPE_U8, .dims = {1, {f->bytes}}, .raw = zeros, .aligned = true};
    json *meta = json_new_object();
    model *m = NULL;
    *e = (err){0};
    json_add_str(meta, "inferflow.layout", f->layout ? f->layout : "1");
    json_add_str(meta, "inferflow.spec", f->spec ? f->spec : own_spec);
    json_add_str(meta, "w", f->type);
    if (f->shape) json_add_str(meta, "inferflow.shape.w", f->shape);
    assert_ok(write_safetensors(path, &t, 1, meta, e), e);
    json_free(meta);
    int rc = model_open(&m, &(model_options){.model_path = path}, e);
    model_close(m);
    return rc;
}

static void fakes_are_refused(void **unused)
{
    (void)unused;
    enum { Q4_64x64 = 4 * 9 * 64 };
    const char *path = temp_path("fake.safetensors");
    err e;
    const fake good = {"q4_b64.r16", "64,64", NULL, NULL, Q4_64x64};
    assert_ok(open_fake(path, &good, &e), &e);
    static const struct {
        fake f;
        const char *says;
    } bad[] = {
        {{"q9.r16", "64,64", NULL, NULL, Q4_64x64}, "is not known"},
        {{"f32.r16", "64,64", NULL, NULL, Q4_64x64}, "is not known"},
        {{"q4_b64.r17", "64,64", NULL, NULL, Q4_64x64}, "is not known"},
        {{"q4_b64.r16", NULL, NULL, NULL, Q4_64x64}, "does not say its rows"},
        {{"q4_b64.r16", "64,x", NULL, NULL, Q4_64x64}, "does not say its rows"},
        {{"q4_b64.r16", "64,64,", NULL, NULL, Q4_64x64}, "does not say its rows"},
        {{"q4_b64.r16", "1,1,1,1,1,1,1,1,1", NULL, NULL, Q4_64x64}, "does not say its rows"},
        {{"q4_b64.r16", "4096", NULL, NULL, Q4_64x64}, "does not fit type"},
        {{"q4_b64.r16", "0,64", NULL, NULL, 0}, "does not fit type"},
        {{"q4_b64.r16", "9223372036854775807,9223372036854775807", NULL, NULL, Q4_64x64}, "impossible shape"},
        {{"q4_b64.r16", "2147483647,2147483647", NULL, NULL, Q4_64x64}, "the file gives it"},
        {{"q4_b64.r16", "65,64", NULL, NULL, Q4_64x64}, "the file gives it"},
        {{"q4_b64.r16", "64,64", NULL, NULL, Q4_64x64 - 1}, "the file gives it"},
        {{"q4_b64", "64,63", NULL, NULL, Q4_64x64}, "does not fit type"},
        {{"q4_b64.r16", "64,64", NULL, "2", Q4_64x64}, "another version"},
        {{"q4_b64.r16", "64,64", "[model]\nbase = /etc/passwd\n", NULL, Q4_64x64},
         "not in the spec that a model carries"},
        {{"q4_b64.r16", "64,64", "[model]\nconfig = /etc/passwd\n", NULL, Q4_64x64},
         "not in the spec that a model carries"},
        {{"q4_b64.r16", "64,64", "[tokenizer]\npath = /etc/passwd\n", NULL, Q4_64x64},
         "not in the spec that a model carries"},
        {{"q4_b64.r16", "64,64", "[runtime]\nweights = q8\n", NULL, Q4_64x64}, "not in the spec that a model carries"},
        {{"q4_b64.r16", "64,64", "[network]\nblock = x\n", NULL, Q4_64x64}, NULL},
        {{"q4_b64.r16", "64,64", "{\"a\":", NULL, Q4_64x64}, NULL},
        {{"q4_b64.r16", "1,4096", NULL, NULL, 64 * 9 * 64}, "expected"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int rc = open_fake(path, &bad[i].f, &e);
        if (!rc || (bad[i].says && !strstr(e.msg, bad[i].says))) fail_msg("case %zu: code %d: %s", i, rc, e.msg);
    }
    unlink(path);
}

/* Recipes cannot take a packed tensor apart. */
static void panels_stay_whole(void **unused)
{
    (void)unused;
    enum { Q4_64x64 = 4 * 9 * 64 };
    static const char *const recipes[] = {"rope_pairs", "rows 0 .. 64, * 2", "transpose", "unit", "+ 1"};
    const char *path = temp_path("fake.safetensors");
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        err e;
        buf text = {0};
        buf_printf(&text, "%.*s{i}.attn.q = w (%s)\n", (int)(strstr(own_spec, "{i}.attn.q") - own_spec), own_spec,
                   recipes[i]);
        buf_str(&text, strstr(own_spec, "{i}.attn.k"));
        const fake f = {"q4_b64.r16", "64,64", buf_cstr(&text), NULL, Q4_64x64};
        int rc = open_fake(path, &f, &e);
        if (!rc || !strstr(e.msg, "packed")) fail_msg("%s: code %d: %s", recipes[i], rc, e.msg);
        buf_free(&text);
    }
    unlink(path);
}

/* What is cut off anywhere is an error, and never more than that. */
static void cut_files_are_refused(void **unused)
{
    (void)unused;
    const char *out = temp_path("cut.safetensors");
    buf whole = {0};
    err e = {0};
    assert_int_equal(quantize(NULL, "--bits", "2", out), 0);
    assert_ok(file_read(&whole, out, 1 << 24, &e), &e);
    for (size_t n = 0; n < whole.n; n += n < 4096 ? 97 : 50021) {
        ckpt *c = NULL;
        e = (err){0};
        assert_int_not_equal(ckpt_open_bytes(&c, span_of(whole.p, n), "cut", &e), 0);
        assert_null(c);
    }
    buf_free(&whole);
    unlink(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_as_it_is_held),
        cmocka_unit_test(built_in_stands_alone),
        cmocka_unit_test(the_summary_tells_shares_and_errors),
        cmocka_unit_test(given_tokenizers_stay),
        cmocka_unit_test(panels_are_aligned),
        cmocka_unit_test(gguf_holds_the_same),
        cmocka_unit_test(gguf_of_gguf),
        cmocka_unit_test(gguf_says_what_it_refits),
        cmocka_unit_test(own_files_are_exported),
        cmocka_unit_test(policies_choose),
        cmocka_unit_test(fakes_are_refused),
        cmocka_unit_test(panels_stay_whole),
        cmocka_unit_test(cut_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
