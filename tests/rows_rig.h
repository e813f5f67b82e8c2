/* rows_rig.h - a committed model opened as its vectors were made, and the rows of floats that it gives, beside those
 * that are expected. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "engine/engine_state.h"
#include "measure/evaluate.h"

#include "test.h"

#include <dirent.h>
#include <math.h>

enum { IDS_MAX = 96 };

static inline size_t read_ids(const json *list, int32_t *to, size_t cap)
{
    size_t n = 0;
    for (const json *j = json_first(list); j; j = json_next(j)) {
        assert_true(n < cap);
        to[n++] = (int32_t)json_int(j, -1);
    }
    return n;
}

static inline int is_model(const struct dirent *f) { return f->d_name[0] != '.' && strcmp(f->d_name, "README.md"); }

/* The number of models in a folder; fails if one of them has faults. Models come in the order of their names, so that a
 * model has the same turn on every machine. */
static inline int check_models(const char *root, int (*faults)(const char *folder, const char *name, int turn))
{
    int wrong = 0, turn = 0;
    char folder[400];
    struct dirent **list;
    const int n = scandir(root, &list, is_model, alphasort);
    assert_true(n > 0);
    for (; turn < n; turn++) {
        snprintf(folder, sizeof folder, "%s/%s", root, list[turn]->d_name);
        wrong += faults(folder, list[turn]->d_name, turn);
        free(list[turn]);
    }
    free(list);
    assert_int_equal(wrong, 0);
    return turn;
}

/* A matrix that grows by rows. */
typedef struct table {
    float *at;
    int64_t width, rows, cap;
} table;

static inline table table_new(int64_t width, int64_t cap) /* free .at */
{
    table t = {.width = width, .cap = cap};
    assert_true(width > 0);
    t.at = calloc((size_t)(cap * width), sizeof *t.at);
    assert_non_null(t.at);
    return t;
}

static inline int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    table *t = ctx;
    (void)e, (void)first;
    assert_true(t->rows + n <= t->cap);
    memcpy(t->at + t->rows * t->width, rows, (size_t)(n * t->width) * sizeof *rows);
    t->rows += n;
    return OK;
}

typedef struct rows_to {
    buf *to;
    int32_t width;
} rows_to;

/* One after the other, as bytes. */
static inline int add_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    const rows_to *r = ctx;
    (void)first, (void)e;
    assert_true(buf_add(r->to, rows, (size_t)(n * r->width) * sizeof *rows));
    return OK;
}

static inline bool same_bytes(const buf *a, const buf *b)
{
    return a->n == b->n && (!a->n || !memcmp(a->p, b->p, a->n));
}

static inline bool same_bits(const table *a, const table *b)
{
    return a->width == b->width && a->rows == b->rows &&
           !memcmp(a->at, b->at, (size_t)(a->rows * a->width) * sizeof *a->at);
}

/* The largest difference between the rows of t named by `row`, a list of numbers, and `values`, a list of floats for
 * each. */
static inline double farthest(const table *t, const json *row, const json *values)
{
    double worst = 0;
    for (row = json_first(row), values = json_first(values); row && values;
         row = json_next(row), values = json_next(values)) {
        int64_t at = json_int(row, -1);
        assert_true(at >= 0 && at < t->rows);
        assert_int_equal(json_count(values), t->width);
        const float *got = t->at + at * t->width;
        for (const json *v = json_first(values); v; v = json_next(v), got++) {
            double d = fabs((double)*got - json_num(v, NAN));
            worst = d > worst || isnan(d) ? d : worst;
        }
    }
    assert_true(!row && !values);
    return worst;
}

static inline engine *open_model(engine_options o)
{
    err e = {0};
    engine *g = NULL;
    o.kv = "f32";
    o.ctx = IDS_MAX; /* dynamic NTK has fewer positions of its own */
    assert_ok(engine_open(&g, &o, &e), &e);
    return g;
}

/* NULL: the model has fewer layers than the devices have groups. */
static inline engine *open_cut(const engine_options *o)
{
    err e = {0};
    engine *g;
    int rc = engine_open(&g, o, &e);
    if (rc == ERR_USAGE && strstr(e.msg, "layers")) return NULL;
    assert_ok(rc, &e);
    return g;
}

/* Adds the logits of all rows; false: the model has no head. */
static inline bool add_logits(engine *g, const query *q, buf *to)
{
    rows_to r = {to, engine_width(g, -1)};
    err e = {0};
    int rc = engine_eval_query(g, q, -1, add_rows, &r, &e);
    if (rc && !strstr(e.msg, "no head")) assert_ok(rc, &e);
    return rc == OK;
}

/* Of an engine that is opened for it; an encoder's input is left out where there is no encoder. False: the model does
 * not go with the devices, or has no head. */
static inline bool add_logits_over(engine_options o, query q, buf *to)
{
    o.threads = 1;
    o.ctx = IDS_MAX;
    engine *g = open_cut(&o);
    if (!g) return false;
    if (!engine_describe(g)->n_enc_vocab) q.n_enc = 0;
    bool has = add_logits(g, &q, to);
    engine_close(g);
    return has;
}

/* Opens the spec that `spec show` prints for the folder. */
static inline engine *open_shown(const char *folder)
{
    err e = {0};
    buf text = {0};
    const char *path = temp_path("shown.ini");
    engine *g = open_model((engine_options){.model = folder, .threads = 1});
    assert_ok(model_spec_text(g->model, &text, &e), &e);
    engine_close(g);
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(text.p, 1, text.n, f) == text.n && fclose(f) == 0);
    buf_free(&text);
    g = open_model((engine_options){.spec = path, .threads = 1});
    unlink(path);
    return g;
}
