/* importance_collect.c - see importance_collect.h. Each activation that enters a matrix is tapped once, however many matrices it enters. */
#include "engine/importance_collect.h"

#include "base/mem.h"
#include "engine/engine_state.h"
#include "io/importance.h"

struct importance_sum {
    engine *g;
    tap *taps;       /* [n] */
    double **square; /* [n][dim] */
    int64_t *count;  /* [n] rows added */
    int32_t n;
};

static int64_t tap_of(const importance_sum *s, ref what)
{
    for (int32_t i = 0; i < s->n; i++)
        if (s->taps[i].what == what) return i;
    return -1;
}

static bool is_matmul(const program *p, const op *o)
{
    return o->kind == OP_MATMUL && p->tensors[o->in[1]].kind == TENSOR_WEIGHT && p->tensors[o->in[0]].block == 0;
}

int importance_sum_open(importance_sum **out, engine *g, err *e)
{
    const program *p = g->mod->prog;
    *out = NULL;
    if (g->info.n_enc_vocab) return err_set(e, ERR_USAGE, "importance is of models with one input");
    importance_sum *s = mem_zero(1, sizeof *s);
    if (!s) return err_set(e, ERR_MEMORY, "out of memory");
    s->g = g;
    s->taps = mem_zero(p->n_op, sizeof *s->taps);
    s->square = mem_zero(p->n_op, sizeof *s->square);
    s->count = mem_zero(p->n_op, sizeof *s->count);
    int rc = s->taps && s->square && s->count ? OK : err_set(e, ERR_MEMORY, "out of memory");
    int64_t rows = g->chunk > SCORE_ROWS ? g->chunk : SCORE_ROWS;
    for (uint32_t i = 0; i < p->n_op && !rc; i++) {
        const op *o = &p->ops[i];
        if (!is_matmul(p, o) || tap_of(s, o->in[0]) >= 0) continue;
        uint64_t dim = tensor_count(&p->tensors[o->in[0]]);
        s->taps[s->n] = (tap){o->in[0], mem_array((uint64_t)rows * dim, sizeof(float))};
        s->square[s->n] = mem_zero(dim, sizeof(double));
        if (!s->taps[s->n].to || !s->square[s->n]) rc = err_set(e, ERR_MEMORY, "out of memory");
        s->n++;
    }
    if (!rc) *out = s;
    else importance_sum_close(s);
    return rc;
}

void importance_sum_close(importance_sum *s)
{
    if (!s) return;
    for (int32_t i = 0; i < s->n; i++) {
        mem_free(s->taps[i].to);
        mem_free(s->square[i]);
    }
    mem_free(s->taps);
    mem_free(s->square);
    mem_free(s->count);
    mem_free(s);
}

static void add_step(void *ctx, const step *st)
{
    importance_sum *s = ctx;
    const program *p = s->g->mod->prog;
    for (int32_t i = 0; i < s->n; i++) {
        const tensor *t = &p->tensors[s->taps[i].what];
        int64_t rows = st->n[t->rows], dim = (int64_t)tensor_count(t);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < dim; k++) {
                double v = (double)s->taps[i].to[r * dim + k];
                s->square[i][k] += v * v;
            }
        s->count[i] += rows;
    }
}

int importance_sum_add(void *ctx, const int32_t *ids, int64_t n, int64_t first, err *e)
{
    (void)first;
    importance_sum *s = ctx;
    return engine_watch(s->g, ids, (size_t)n, s->taps, s->n, add_step, s, e);
}

int importance_sum_write(const importance_sum *s, const char *path, err *e)
{
    const program *p = s->g->mod->prog;
    importance_sums *m = mem_zero(p->n_op, sizeof *m);
    if (!m) return err_set(e, ERR_MEMORY, "out of memory");
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        int64_t at = is_matmul(p, o) ? tap_of(s, o->in[0]) : -1;
        if (at < 0 || s->count[at] == 0) continue;
        const char *name = p->tensors[o->in[1]].name;
        bool seen = false;
        for (size_t k = 0; k < n && !seen; k++) seen = m[k].weight == name;
        if (seen) continue;
        m[n++] = (importance_sums){name, s->square[at], (int64_t)tensor_count(&p->tensors[o->in[0]]), s->count[at]};
    }
    int rc = n ? importance_write(path, m, n, e) : err_set(e, ERR_USAGE, "no text was read");
    mem_free(m);
    return rc;
}
