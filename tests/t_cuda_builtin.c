/* t_cuda_builtin.c - the built-in model on the CUDA backend (programs here, tests/gpu): over every type of
 * cache, in two chunks and one by one, the logits of the CPU; in every type that weights can have but those of iq1 to
 * iq3, which t_cuda_models.c has.
 *
 * One type in four; CUDA_TESTS=all: every one. TYPE=q4_b64: that type alone. */
#include "cuda_rig.h"
#include "measure/evaluate.h"
#include "rows_rig.h"
#include "tensor/panel.h"

enum { LENGTH = 5 };

/* Logits of a text, free .at; no rows: weights cannot have that type. */
static table logits_on(const char *devices, const char *weights, const char *kv, int chunk)
{
    static const int32_t ids[LENGTH] = {1, 403, 407, 261, 378};
    const engine_options o = {.model = "builtin",
                              .devices = devices,
                              .weights = weights,
                              .kv = kv,
                              .ctx = 64,
                              .threads = 1,
                              .chunk = chunk,
                              .max_batch = 1};
    err e = {0};
    engine *g;
    const int rc = engine_open(&g, &o, &e);
    if (rc == ERR_USAGE && (strstr(e.msg, "for weights there is") || strstr(e.msg, "weights can be held as")))
        return (table){0};
    assert_ok(rc, &e);
    table t = table_new(engine_describe(g)->n_vocab, LENGTH);
    assert_ok(engine_eval(g, ids, LENGTH, -1, keep_rows, &t, &e), &e);
    engine_close(g);
    return t;
}

static int types, wrong;

static void check_type(const char *weights, const char *kv, int chunk)
{
    table want = logits_on("cpu", weights, kv, chunk);
    if (!want.rows) return;
    table got = logits_on("cuda:0", weights, kv, chunk);
    assert_true(want.rows == LENGTH && got.rows == LENGTH);
    types++;
    if (memcmp(want.at, got.at, (size_t)(LENGTH * want.width) * sizeof *want.at)) {
        printf("weights %s, cache %s, chunk %d: other logits\n", weights, kv, chunk);
        wrong++;
    }
    free(want.at);
    free(got.at);
}

static void every_type(void **unused)
{
    (void)unused;
    static const char *const kinds[] = {"f32", "f16", "i16", "q8", "q4"};
    const char *only = getenv("TYPE");
    for (int chunk = 1; only && chunk < 5; chunk += 3) check_type(only, "i16", chunk);
    assert_int_equal(wrong, 0);
    if (only) return;
    for (int t = 1; t < DTYPE_COUNT; t++) {
        const char *name = dtype_info[t].name;
        if (!strncmp(name, "iq", 2) && name[2] < '4') continue; /* to find their codes takes longer than the rest */
        if ((t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16 || panel_format_of((dtype)t)) && cuda_takes_case(t, 4))
            check_type(name, kinds[types % 5], 4);
    }
    assert_true(types >= (getenv("CUDA_TESTS") ? 24 : 6));
    for (int k = 0; k < 5; k++) check_type("q4_b64", kinds[k], 1);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    if (!cuda_rig_open()) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
