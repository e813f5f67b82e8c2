/* t_quantize.c - files that `inferflow quantize` writes: self-contained, the same bits as the source held in the same types, refused when
 * they are not what they say. */
#include "app/app.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/ckpt.h"
#include "text/tokenizer_same.h"

#include "vector_rig.h"

#include <dirent.h>

static int quantize(const char *model, const char *how, const char *value, const char *out)
{
    char *argv[] = {"inferflow",   "quantize", "--threads", "2",       "--log-level", "error", (char *)how,
                    (char *)value, "-o",       (char *)out, "--model", (char *)model, NULL};
    return app_main(model ? 12 : 10, argv);
}

/* ---- every family */

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
    free(held.at), free(file.at), free(exact.at), free(file_exact.at);
    json_free(x.file);
    unlink(out);
    return same;
}

static void every_family_as_it_is_held(void **unused)
{
    (void)unused;
    static const char *const types[] = {"q4_b64", "q8_0", "q3h_b64", "q2_b32", "f16"};
    DIR *d = opendir(vectors);
    assert_non_null(d);
    int wrong = 0;
    size_t seen = 0;
    for (struct dirent *f; (f = readdir(d));)
        if (f->d_name[0] != '.' && !strchr(f->d_name, '.'))
            wrong += !check_family(f->d_name, types[seen++ % (sizeof types / sizeof *types)]);
    closedir(d);
    assert_true(seen > 100);
    assert_int_equal(wrong, 0);
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
    assert_true(tokenizer_same(engine_tokenizer(a), engine_tokenizer(b), true));
    assert_int_equal(engine_describe(a)->n_eos, engine_describe(b)->n_eos);
    assert_int_equal(engine_describe(a)->bos, engine_describe(b)->bos);
    assert_string_equal(engine_describe(a)->arch, engine_describe(b)->arch);
    table x = {.n_vocab = engine_describe(b)->n_vocab}, y = x;
    x.at = calloc((size_t)(IDS_MAX * x.n_vocab), sizeof *x.at);
    y.at = calloc((size_t)(IDS_MAX * y.n_vocab), sizeof *y.at);
    assert_ok(engine_eval_pair(b, NULL, 0, ids, 7, -1, keep_rows, &x, &e), &e);
    engine_close(a);
    engine_close(b);

    /* what is quantized once more, all kept, is the same file */
    const char *policy = temp_path("keep.txt");
    FILE *f = fopen(policy, "w");
    fputs("* = keep\n", f);
    fclose(f);
    assert_int_equal(quantize(out, "--policy", policy, again), 0);
    b = open_model((engine_options){.model = again});
    assert_ok(engine_eval_pair(b, NULL, 0, ids, 7, -1, keep_rows, &y, &e), &e);
    assert_true(same_bits(&x, &y));
    engine_close(b);
    free(x.at), free(y.at);
    unlink(out), unlink(again), unlink(policy);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_as_it_is_held),
        cmocka_unit_test(built_in_stands_alone),
        cmocka_unit_test(panels_are_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
