/* vector_rig.h - the tiny models of tests/vectors/models: what is expected of each, and the logits that the engine computes. */
#ifndef TESTS_VECTOR_RIG_H
#define TESTS_VECTOR_RIG_H
#include "base/json.h"
#include "engine/engine.h"

#include "test.h"

#include <math.h>

enum { IDS_MAX = 96, GREEDY = 32 };
static const char *const vectors = "tests/vectors/models";

typedef struct expected {
    json *file;
    const json *rows, *logits; /* position; list of floats each */
    int32_t ids[IDS_MAX], enc[IDS_MAX], greedy[GREEDY];
    size_t n_ids, n_enc, n_prompt; /* n_enc 0: no encoder in front of the decoder */
    double tolerance;
} expected;

static inline size_t read_ids(const json *list, int32_t *to, size_t cap)
{
    size_t n = 0;
    for (const json *j = json_first(list); j; j = json_next(j)) {
        assert_true(n < cap);
        to[n++] = (int32_t)json_int(j, -1);
    }
    return n;
}

static inline void expected_read(expected *x, const char *folder)
{
    char path[512];
    err e = {0};
    snprintf(path, sizeof path, "%s/expect.json", folder);
    assert_ok(json_read(&x->file, path, 1 << 20, &e), &e);
    x->n_ids = read_ids(json_get(x->file, "ids"), x->ids, IDS_MAX);
    x->n_enc = read_ids(json_get(x->file, "enc"), x->enc, IDS_MAX);
    assert_int_equal(read_ids(json_get(x->file, "greedy"), x->greedy, GREEDY), GREEDY);
    x->n_prompt = (size_t)json_int(json_get(x->file, "prompt"), 0);
    x->rows = json_get(x->file, "rows");
    x->logits = json_get(x->file, "logits");
    x->tolerance = json_num(json_get(x->file, "tolerance"), 0);
    assert_true(x->n_ids >= 64 && x->n_prompt > 0 && x->tolerance > 0);
}

typedef struct table {
    float *at; /* [IDS_MAX, n_vocab] */
    int64_t n_vocab, rows;
} table;

static inline int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    table *t = ctx;
    (void)e;
    assert_true(first == t->rows && first + n <= IDS_MAX);
    memcpy(t->at + first * t->n_vocab, rows, (size_t)(n * t->n_vocab) * sizeof *rows);
    t->rows += n;
    return OK;
}

static inline engine *open_model(engine_options o)
{
    err e = {0};
    engine *g = NULL;
    o.kv = "f32";
    o.exact = true;
    o.ctx = IDS_MAX; /* dynamic NTK has fewer positions of its own */
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

/* All logits of the test sequence; free .at. Closes the engine. */
static inline table logits_of(engine *g, const expected *x)
{
    err e = {0};
    table t = {.n_vocab = engine_describe(g)->n_vocab};
    t.at = calloc((size_t)(IDS_MAX * t.n_vocab), sizeof *t.at);
    assert_non_null(t.at);
    assert_ok(engine_eval_pair(g, x->enc, x->n_enc, x->ids, x->n_ids, -1, keep_rows, &t, &e), &e);
    assert_int_equal(t.rows, x->n_ids);
    engine_close(g);
    return t;
}

static inline double worst_difference(const expected *x, const table *t)
{
    double worst = 0;
    const json *row = json_first(x->rows), *values = json_first(x->logits);
    for (; row && values; row = json_next(row), values = json_next(values)) {
        const float *got = t->at + json_int(row, 0) * t->n_vocab;
        assert_int_equal(json_count(values), t->n_vocab);
        for (const json *v = json_first(values); v; v = json_next(v), got++) {
            double d = fabs((double)*got - json_num(v, NAN));
            worst = d > worst || isnan(d) ? d : worst;
        }
    }
    return worst;
}

static inline bool same_bits(const table *a, const table *b)
{
    return a->n_vocab == b->n_vocab && a->rows == b->rows &&
           !memcmp(a->at, b->at, (size_t)(a->rows * a->n_vocab) * sizeof *a->at);
}

#endif
