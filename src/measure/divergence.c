/* divergence.c - see divergence.h. */
#include "measure/evaluate.h"
#include "measure/divergence.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct divergence {
    engine *tested, *reference;
    int32_t n_vocab;
    bool generates;
    const int32_t *ids;  /* the sequence at hand */
    int64_t first, last; /* its rows [first, last) are compared */
    float *kept;         /* [last - first][n_vocab] logits of the reference */
    size_t kept_cap;
    double *kl; /* of each row so far */
    size_t n_kl, kl_cap;
    double nll, nll_reference; /* sums */
    int64_t agreed;
};

static void log_softmax_of(const float *logits, int32_t n, int32_t *best, double *log_sum)
{
    double sum = 0;
    int32_t top = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[top]) top = i;
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] - (double)logits[top]);
    *best = top;
    *log_sum = (double)logits[top] + log(sum);
}

static void add_position(divergence *d, const float *reference, const float *tested, int32_t next)
{
    int32_t best_p, best_q;
    double sum_p, sum_q, kl = 0;
    log_softmax_of(reference, d->n_vocab, &best_p, &sum_p);
    log_softmax_of(tested, d->n_vocab, &best_q, &sum_q);
    for (int32_t i = 0; i < d->n_vocab; i++) {
        double log_p = (double)reference[i] - sum_p, log_q = (double)tested[i] - sum_q, p = exp(log_p);
        if (p > 0) kl += p * (log_p - log_q);
    }
    d->kl[d->n_kl++] = kl;
    d->agreed += best_p == best_q;
    if (next < 0) return;
    d->nll += sum_q - (double)tested[next];
    d->nll_reference += sum_p - (double)reference[next];
}

static int keep_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)e;
    divergence *d = ctx;
    int64_t from = first > d->first ? first : d->first, to = first + n < d->last ? first + n : d->last;
    if (from < to)
        memcpy(d->kept + (from - d->first) * d->n_vocab, rows + (from - first) * d->n_vocab,
               (size_t)(to - from) * (size_t)d->n_vocab * sizeof *rows);
    return OK;
}

static int compare_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)e;
    divergence *d = ctx;
    for (int64_t i = first; i < first + n; i++)
        if (i >= d->first && i < d->last)
            add_position(d, d->kept + (i - d->first) * d->n_vocab, rows + (i - first) * d->n_vocab,
                         d->generates ? d->ids[i + 1] : -1);
    return OK;
}

int divergence_open(divergence **out, engine *tested, engine *reference, err *e)
{
    const engine_info *t = engine_describe(tested), *r = engine_describe(reference);
    *out = NULL;
    if (t->n_enc_vocab || r->n_enc_vocab)
        return err_set(e, ERR_USAGE, "divergence is of models with one input; an encoder-decoder has two");
    if (t->n_label || r->n_label)
        return err_set(e, ERR_USAGE, "a model that gives labels, not logits over the vocabulary, is not compared so");
    if (t->n_vocab != r->n_vocab)
        return err_set(e, ERR_USAGE, "the models have different vocabularies: %d tokens, the reference %d", t->n_vocab,
                       r->n_vocab);
    if (t->generates != r->generates)
        return err_set(e, ERR_USAGE, "one model is an encoder, the other continues a text");
    divergence *d = mem_zero(1, sizeof *d);
    if (!d) return err_memory(e, NULL);
    d->tested = tested;
    d->reference = reference;
    d->n_vocab = t->n_vocab;
    d->generates = t->generates;
    *out = d;
    return OK;
}

void divergence_close(divergence *d)
{
    if (!d) return;
    mem_free(d->kept);
    mem_free(d->kl);
    mem_free(d);
}

int divergence_add(void *ctx, const int32_t *ids, int64_t n, int64_t first, err *e)
{
    divergence *d = ctx;
    d->ids = ids;
    d->first = first;
    d->last = d->generates ? n - 1 : n;
    if (d->last <= d->first) return OK;
    size_t rows = (size_t)(d->last - d->first);
    if (!mem_grow((void **)&d->kept, &d->kept_cap, rows, (size_t)d->n_vocab * sizeof *d->kept) ||
        !mem_grow((void **)&d->kl, &d->kl_cap, d->n_kl + rows, sizeof *d->kl))
        return err_set(e, ERR_MEMORY, "out of memory for %zu rows of %d logits", rows, d->n_vocab);
    int rc = engine_eval(d->reference, ids, (size_t)n, -1, keep_rows, d, e);
    if (rc) return err_wrap(e, "reference");
    return engine_eval(d->tested, ids, (size_t)n, -1, compare_rows, d, e);
}

static int compare_floats(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int divergence_get(divergence *d, divergence_result *out, err *e)
{
    if (d->n_kl == 0) return err_set(e, ERR_USAGE, "there are no tokens to compare");
    double n = (double)d->n_kl, sum = 0, at = 0.99 * (n - 1);
    for (size_t i = 0; i < d->n_kl; i++) sum += d->kl[i];
    qsort(d->kl, d->n_kl, sizeof *d->kl, compare_floats);
    size_t below = (size_t)at, above = below + 1 < d->n_kl ? below + 1 : below;
    *out = (divergence_result){.kl_mean = sum / n,
                               .kl_p99 = d->kl[below] + (at - (double)below) * (d->kl[above] - d->kl[below]),
                               .top1_agreement = (double)d->agreed / n,
                               .nll = d->generates ? d->nll / n : NAN,
                               .nll_reference = d->generates ? d->nll_reference / n : NAN,
                               .tokens = (int64_t)d->n_kl};
    return OK;
}
