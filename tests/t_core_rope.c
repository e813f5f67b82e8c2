/* t_core_rope.c - rotary tables against those of transformers (tests/vectors/rope.json, made by
 * tools/oracle/vectors_rope.py). */
#include "base/json.h"
#include "base/mem.h"
#include "core/rope.h"

#include "test.h"

#include <math.h>

static float factor_list[2][ROPE_DIMS_MAX / 2];

static const float *read_factors(const json *list, int which)
{
    int n = 0;
    for (const json *j = json_first(list); j; j = json_next(j)) factor_list[which][n++] = (float)json_num(j, 0);
    return n ? factor_list[which] : NULL;
}

static int scaling_by_name(const char *name)
{
    static const char *const names[] = {
#define X(id, name, doc) [ROPE_##id] = name,
        ROPE_SCALING_LIST(X)
#undef X
    };
    for (int i = 0; i < ROPE_SCALING_COUNT; i++)
        if (!strcmp(name, names[i])) return i;
    assert_string_equal(name, "default");
    return ROPE_NONE;
}

static rope_params read_params(const json *c)
{
    const json *p = json_get(c, "params");
    return (rope_params){
        .scaling = scaling_by_name(json_str(json_get(p, "rope_type"), "")),
        .dims = (int)json_int(json_get(c, "dims"), 0),
        .theta = json_num(json_get(p, "rope_theta"), 0),
        .factor = json_num(json_get(p, "factor"), 0),
        .original = (int)json_int(json_get(p, "original_max_position_embeddings"), 0),
        .max_positions = (int)json_int(json_get(c, "max_positions"), 0),
        .low_freq = json_num(json_get(p, "low_freq_factor"), 0),
        .high_freq = json_num(json_get(p, "high_freq_factor"), 0),
        .beta_fast = json_num(json_get(p, "beta_fast"), 0),
        .beta_slow = json_num(json_get(p, "beta_slow"), 0),
        .mscale = json_num(json_get(p, "mscale"), 0),
        .mscale_all_dim = json_num(json_get(p, "mscale_all_dim"), 0),
        .attention_factor = json_num(json_get(p, "attention_factor"), 0),
        .truncate = json_bool(json_get(p, "truncate"), true),
        .short_factor = read_factors(json_get(p, "short_factor"), 0),
        .long_factor = read_factors(json_get(p, "long_factor"), 1),
    };
}

/* torch's powf may be off by one unit in the last place, so frequencies agree to two; the tables then to position times
 * that. */
static void check_case(const json *c)
{
    enum { HALF_MAX = ROPE_DIMS_MAX / 2 };
    err e = {0};
    rope_params p = read_params(c);
    const char *name = json_str(json_get(c, "name"), "?");
    int length = (int)json_int(json_get(c, "length"), 0), half = p.dims / 2;
    float inv[HALF_MAX], scale;
    rope_frequencies(&p, length, inv, &scale);
    assert_true(fabs(scale - json_num(json_get(c, "scale"), 0)) < 2e-7);
    const json *list = json_get(c, "inv_freq");
    assert_int_equal(json_count(list), half);
    int i = 0;
    for (const json *j = json_first(list); j; j = json_next(j), i++)
        if (fabs(inv[i] - json_num(j, 0)) > 2.4e-7 * inv[i])
            fail_msg("%s: frequency %d is %.9g, transformers has %.9g", name, i, (double)inv[i], json_num(j, 0));

    rope_set r;
    assert_ok(rope_init(&r, &p, length, &e), &e);
    int v = rope_admit(&r, length, &e);
    assert_true(v >= 0);
    const json *cosines = json_first(json_get(c, "cos")), *sines = json_first(json_get(c, "sin"));
    for (const json *at = json_first(json_get(c, "positions")); at;
         at = json_next(at), cosines = json_next(cosines), sines = json_next(sines)) {
        size_t pos = (size_t)json_int(at, -1);
        const float *cs = rope_cos(&r, v) + pos * (size_t)half, *sn = rope_sin(&r, v) + pos * (size_t)half;
        const json *jc = json_first(cosines), *js = json_first(sines);
        for (i = 0; i < half; i++, jc = json_next(jc), js = json_next(js)) {
            double slack = 2.4e-7 + 2.4e-7 * inv[i] * (double)pos;
            if (fabs(cs[i] - json_num(jc, 9)) > slack || fabs(sn[i] - json_num(js, 9)) > slack)
                fail_msg("%s: position %zu, pair %d: %.9g %.9g, transformers has %.9g %.9g", name, pos, i,
                         (double)cs[i], (double)sn[i], json_num(jc, 9), json_num(js, 9));
        }
    }
    rope_close(&r);
}

static void vectors(void **state)
{
    (void)state;
    err e = {0};
    json *root;
    assert_ok(json_read(&root, "tests/vectors/rope.json", 1 << 20, &e), &e);
    int n = 0;
    for (const json *c = json_first(root); c; c = json_next(c), n++) check_case(c);
    assert_true(n >= 14);
    json_free(root);
}

/* Tables are the correctly rounded cosines and sines of the float32 angle: compared with long double, over all
 * quadrants. */
static void rounding(void **state)
{
    (void)state;
    err e = {0};
    rope_set r;
    enum { N = 20000 };
    rope_params p = {.scaling = ROPE_NONE, .dims = 8, .theta = 37, .truncate = true};
    assert_ok(rope_init(&r, &p, N, &e), &e);
    assert_ok(rope_fill(&r, &e), &e);
    float inv[4], scale;
    rope_frequencies(&p, N, inv, &scale);
    int wrong = 0;
    for (int pos = 0; pos < N; pos++)
        for (int i = 0; i < 4; i++) {
            float angle = (float)pos * inv[i];
            wrong += rope_cos(&r, 0)[pos * 4 + i] != (float)cosl((long double)angle);
            wrong += rope_sin(&r, 0)[pos * 4 + i] != (float)sinl((long double)angle);
        }
    assert_int_equal(wrong, 0);
    rope_close(&r);
}

/* Each dynamic length has its own table while somebody uses it; released ones are reused. */
static void variants(void **state)
{
    (void)state;
    err e = {0};
    rope_set r;
    rope_params p = {.scaling = ROPE_DYNAMIC, .dims = 8, .theta = 100, .factor = 2, .max_positions = 16};
    assert_ok(rope_init(&r, &p, 128, &e), &e);
    assert_int_equal(rope_admit(&r, 16, &e), 0);
    int a = rope_admit(&r, 17, &e), b = rope_admit(&r, 18, &e);
    assert_int_equal(a, rope_admit(&r, 17, &e));
    assert_true(a != b && a > 0 && b > 0);
    int held = 3, rc;
    for (int n = 19; (rc = rope_admit(&r, n, &e)) >= 0; n++) held++;
    assert_int_equal(rc, ERR_LIMIT);
    assert_int_equal(held, 16 + 48);
    rope_release(&r, b);
    e = (err){0};
    assert_int_equal(rope_admit(&r, 120, &e), b);
    rope_close(&r);
}

static void refusals(void **state)
{
    (void)state;
    static const float one[4] = {1, 1, 1, 1};
    rope_params good = {.scaling = ROPE_LONGROPE,
                        .dims = 8,
                        .theta = 100,
                        .factor = 2,
                        .original = 16,
                        .max_positions = 32,
                        .short_factor = one,
                        .long_factor = one};
    rope_params bad[] = {good, good, good, good, good, good, good};
    bad[0].dims = 7;
    bad[1].theta = 0;
    bad[2].factor = -1;
    bad[3].original = 0;
    bad[4].long_factor = NULL;
    bad[5].scaling = ROPE_LLAMA3; /* without its bands */
    bad[6].theta = NAN;
    rope_set r;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        assert_int_equal(rope_init(&r, &bad[i], 64, &e), ERR_SPEC);
        assert_non_null(strstr(e.msg, "rope"));
    }
    for (int n = 1; n < 4; n++) { /* every allocation fails once */
        err e = {0};
        mem_fail_at(n);
        int rc = rope_init(&r, &good, 64, &e);
        if (!rc) rc = rope_fill(&r, &e);
        if (mem_fail_at(0)) assert_int_equal(rc, ERR_MEMORY);
        rope_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors), cmocka_unit_test(rounding),
                                       cmocka_unit_test(variants), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
