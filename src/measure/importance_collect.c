/* importance_collect.c - see importance_collect.h. Each activation is read once, however many matrices take it, and
 * added up at once: no rows are kept. The rows of experts are told apart by the table of DISPATCH, which the step
 * computes before them; it is kept. */
#include "measure/importance_collect.h"

#include "base/mem.h"
#include "measure/evaluate_state.h"
#include "io/importance.h"
#include "models/export/gguf_names.h"

#include <math.h>
#include <string.h>

/* The input of some matrices, or of a stack of them. */
typedef struct input {
    ref x;
    const int32_t *table; /* [rows of x][DISPATCH_COLS] of this step; NULL: all rows go to the same matrices */
    int64_t parts, cols;  /* parts: 1, or experts */
    double *square;       /* [parts][cols] */
    int64_t *count;       /* [parts] rows added */
} input;

struct importance_sum {
    engine *g;
    tap *taps;     /* [n_tap]: a table stands before the rows that it sorts */
    input *inputs; /* [n]; they stay where they are */
    int32_t n_tap, n;
};

/* The table of an op's experts, or 0. */
static ref table_of(const op *o) { return o->kind == OP_MATMUL_EXP ? o->in[3] : 0; }

/* The rows that a matrix takes, with their columns as they lie in its tensor (weight.order). */
static ref rows_of(const program *p, const op *o)
{
    const bool sorted = p->weights[p->tensors[o->in[1]].weight].order != 0;
    for (uint32_t i = 0; i < p->n_op && sorted; i++)
        if (p->ops[i].out == o->in[0]) return p->ops[i].in[0];
    return o->in[0];
}

static input *input_of(const importance_sum *s, const op *o)
{
    const ref x = rows_of(s->g->prog, o);
    for (int32_t i = 0; i < s->n; i++)
        if (s->inputs[i].x == x) return &s->inputs[i];
    return NULL;
}

static bool is_matmul(const program *p, const op *o)
{
    return op_is(o, OPF_MATRIX) && p->tensors[o->in[1]].kind == TENSOR_WEIGHT && p->tensors[o->in[0]].block == 0;
}

static void add_rows(void *self, const float *x, int64_t n)
{
    input *t = self;
    for (int64_t r = 0; r < n; r++, x += t->cols) {
        int64_t part = t->table ? t->table[r * DISPATCH_COLS + DISPATCH_EXPERT] : 0;
        double *square = t->square + part * t->cols;
        for (int64_t k = 0; k < t->cols; k++) square[k] += (double)x[k] * (double)x[k];
        t->count[part]++;
    }
}

/* Where the table of a step will be; NULL: no memory. */
static const int32_t *keep_table(importance_sum *s, ref table)
{
    const program *p = s->g->prog;
    for (int32_t i = 0; i < s->n_tap; i++)
        if (s->taps[i].what == table) return (const int32_t *)(const void *)s->taps[i].to;
    uint64_t rows = (uint64_t)(s->g->chunk > SCORE_ROWS ? s->g->chunk : SCORE_ROWS);
    tap *t = &s->taps[s->n_tap];
    *t = (tap){.what = table, .to = mem_array(rows * (uint64_t)p->n_used, DISPATCH_COLS * sizeof *t->to)};
    if (t->to) s->n_tap++;
    return (const int32_t *)(const void *)t->to;
}

static int add_input(importance_sum *s, const op *o, err *e)
{
    const program *p = s->g->prog;
    ref table = table_of(o);
    input *t = &s->inputs[s->n++];
    *t = (input){.x = rows_of(p, o), .table = table ? keep_table(s, table) : NULL, .parts = 1};
    t->cols = (int64_t)tensor_count(&p->tensors[o->in[0]]);
    if (table) t->parts = p->weights[p->tensors[o->in[1]].weight].parts;
    t->square = mem_zero((uint64_t)t->parts, (uint64_t)t->cols * sizeof *t->square);
    t->count = mem_zero((uint64_t)t->parts, sizeof *t->count);
    if ((table && !t->table) || !t->square || !t->count) return err_memory(e, NULL);
    s->taps[s->n_tap++] = (tap){.what = t->x, .take = add_rows, .self = t};
    return OK;
}

int importance_sum_open(importance_sum **out, engine *g, err *e)
{
    const program *p = g->prog;
    *out = NULL;
    if (g->info.n_enc_vocab) return err_set(e, ERR_USAGE, "importance is of models with one input");
    if (plan_segments(g->plan) > plan_groups(g->plan))
        return err_set(e, ERR_USAGE,
                       "importance looks at whole rows: --devices may divide layers (';'), not heads ('&')");
    importance_sum *s = mem_zero(1, sizeof *s);
    if (!s) return err_memory(e, NULL);
    s->g = g;
    s->taps = mem_zero(2 * (uint64_t)p->n_op, sizeof *s->taps);
    s->inputs = mem_zero(p->n_op, sizeof *s->inputs);
    int rc = s->taps && s->inputs ? OK : err_memory(e, NULL);
    for (uint32_t i = 0; i < p->n_op && !rc; i++)
        if (is_matmul(p, &p->ops[i]) && !input_of(s, &p->ops[i])) rc = add_input(s, &p->ops[i], e);
    if (!rc) *out = s;
    else importance_sum_close(s);
    return rc;
}

void importance_sum_close(importance_sum *s)
{
    if (!s) return;
    for (int32_t i = 0; i < s->n_tap; i++) mem_free(s->taps[i].to);
    for (int32_t i = 0; i < s->n; i++) {
        mem_free(s->inputs[i].square);
        mem_free(s->inputs[i].count);
    }
    mem_free(s->taps);
    mem_free(s->inputs);
    mem_free(s);
}

int importance_sum_add(void *ctx, const int32_t *ids, int64_t n, int64_t first, err *e)
{
    (void)first;
    importance_sum *s = ctx;
    return engine_watch(s->g, ids, (size_t)n, s->taps, s->n_tap, e);
}

/* Where logits are computed, rows that are not finite are found there; models without a head have these sums alone. */
static int check_finite(const input *t, const char *name, err *e)
{
    for (int64_t k = 0; k < (int64_t)t->parts * t->cols; k++)
        if (!isfinite(t->square[k]))
            return err_set(e, ERR_FORMAT, "%s: its input is not finite: the model's weights are damaged", name);
    return OK;
}

static bool any_rows(const input *t)
{
    int64_t all = 0;
    for (int64_t k = 0; t && k < t->parts; k++) all += t->count[k];
    return all > 0;
}

/* The entry of a matrix, under its name in GGUF if it has one. Matrices of one GGUF tensor that take the same rows
 * share an entry; the others keep our name. */
static int add_sums(gguf_names *names, const weight *w, const input *t, importance_sums *m, size_t *n, err *e)
{
    const char *of[GGUF_NAMES_MAX];
    int rc = check_finite(t, w->name, e);
    if (!rc) rc = gguf_names_of(names, w, of, e);
    if (rc) return rc;
    const char *name = of[0] ? of[0] : w->name;
    for (size_t k = 0; k < *n; k++) {
        if (strcmp(m[k].name, name) != 0) continue;
        if (m[k].square == t->square) return OK;
        name = w->name;
    }
    m[(*n)++] = (importance_sums){name, t->square, t->count, t->cols, t->parts};
    return OK;
}

int importance_sum_write(const importance_sum *s, const char *path, err *e)
{
    const program *p = s->g->prog;
    size_t n = 0;
    gguf_names *names = NULL;
    importance_sums *m = mem_zero(p->n_op, sizeof *m);
    int rc = m ? gguf_names_open(&names, s->g->model, e) : err_memory(e, NULL);
    for (uint32_t i = 0; i < p->n_op && !rc; i++) {
        const op *o = &p->ops[i];
        const input *t = is_matmul(p, o) ? input_of(s, o) : NULL;
        if (any_rows(t)) rc = add_sums(names, &p->weights[p->tensors[o->in[1]].weight], t, m, &n, e);
    }
    if (!rc) rc = n ? importance_write(path, m, n, e) : err_set(e, ERR_USAGE, "no text was read");
    gguf_names_close(names);
    mem_free(m);
    return rc;
}
