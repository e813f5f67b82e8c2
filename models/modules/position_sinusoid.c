/* position_sinusoid.c - fixed positions as sines and cosines (arXiv 1706.03762), a table made at load.
 *
 * Two layouts are in use: "pairs", the paper's (sin and cos of one frequency side by side), and "halves" (all sines,
 * then all cosines; Marian, M2M100). Two spacings: exponent 2i/d (the paper) or i/(d/2 - 1) (fairseq). */
#include "base/mem.h"
#include "models/compile/builder.h"

#include <math.h>
#include <string.h>

typedef struct options {
    const char *layout, *spacing;
    int64_t offset;
} options;

static const param rows[] = {
    ROW(layout, PARAM_WORD, .otherwise = "pairs", .words = "pairs|halves", .doc = "order of sines and cosines"),
    ROW(spacing, PARAM_WORD, .otherwise = "paper", .words = "paper|fairseq", .doc = "exponents 2i/d, or i/(d/2 - 1)"),
    ROW(offset, PARAM_INT, .otherwise = "0", .min = 0, .max = 1 << 16, .doc = "number of position 0"),
};

static void fill_sinusoids(float *t, int64_t n, int64_t d, const options *o)
{
    bool halves = strcmp(o->layout, "halves") == 0, fairseq = strcmp(o->spacing, "fairseq") == 0;
    int64_t half = d / 2;
    for (int64_t p = 0; p < n; p++)
        for (int64_t i = 0; i < half; i++) {
            double power = fairseq ? (double)i / (double)(half > 1 ? half - 1 : 1) : 2.0 * (double)i / (double)d;
            double angle = (double)(p + o->offset) * pow(10000.0, -power);
            t[p * d + (halves ? i : 2 * i)] = (float)sin(angle);
            t[p * d + (halves ? half + i : 2 * i + 1)] = (float)cos(angle);
        }
}

static const module_weight weights[0];

static ref emit(builder *b, const call *c)
{
    const options *o = c->options;
    enum { VALUES_MAX = 1 << 26 };
    if (b->dim % 2) return err_set(b->e, ERR_SPEC, "%s: the width %lld is odd", c->where, (long long)b->dim), 0;
    if (b->ctx > VALUES_MAX / b->dim)
        return err_set(b->e, ERR_LIMIT, "%s: a table of %d positions of width %lld", c->where, b->ctx,
                       (long long)b->dim),
               0;
    float *t = mem_zero((size_t)b->ctx, (size_t)b->dim * sizeof *t);
    if (!t) return err_memory(b->e, c->where), 0;
    fill_sinusoids(t, b->ctx, b->dim, o);
    ref table = builder_const(b, c->path, "table", t, b->ctx, b->dim);
    mem_free(t);
    op e = {.kind = OP_EMBED, .in = {table}, .u.embed = {EMBED_BY_POSITION, 0}};
    return table ? builder_op(b, e, c->path, NULL, 0, b->dim) : 0;
}

MODULE(position, sinusoid, 0, "fixed sines and cosines (arXiv 1706.03762)");
