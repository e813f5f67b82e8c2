/* perplexity.c - see perplexity.h. */
#include "engine/perplexity.h"

#include "base/fmath.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct scorer {
    const int32_t *ids; /* of the window */
    int64_t n, first;   /* rows first … n-2 are scored: row i predicts token i + 1 */
    int32_t n_vocab;
    double sum;
    int64_t tokens;
} scorer;

/* -log softmax(logits)[id]; sums in double. */
static double loss(const float *logits, int32_t n, int32_t id)
{
    float top = logits[0];
    for (int32_t i = 1; i < n; i++) top = fm_max(logits[i], top);
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += fm_exp(logits[i] - top);
    return log(sum) - (double)(logits[id] - top);
}

static int score_rows(void *ctx, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)e;
    scorer *s = ctx;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = first + i;
        if (at < s->first || at >= s->n - 1) continue;
        s->sum += loss(rows + i * s->n_vocab, s->n_vocab, s->ids[at + 1]);
        s->tokens++;
    }
    return 0;
}

int perplexity_measure(engine *g, const int32_t *ids, size_t n, const perplexity_options *o, perplexity_result *out,
                       err *e)
{
    int64_t total = (int64_t)n, window = o->window, step = o->stride ? o->stride : window, scored = 1;
    if (!engine_describe(g)->generates)
        return err_set(e, ERR_USAGE, "this model is an encoder: it does not say what comes next in a text");
    if (window < 2 || window > engine_describe(g)->ctx)
        return err_set(e, ERR_USAGE, "a window of %" PRId64 " tokens does not fit the context of %d", window,
                       engine_describe(g)->ctx);
    if (o->stride < 0 || step > window)
        return err_set(e, ERR_USAGE, "a stride of %" PRId64 " for windows of %" PRId64, step, window);
    if (total < (o->stride ? 2 : window))
        return err_set(e, ERR_USAGE,
                       "the text has %" PRId64 " tokens, one window needs %" PRId64 " (--ctx makes it smaller)", total,
                       window);
    int32_t *copy = mem_array((size_t)window, sizeof *copy);
    if (!copy) return err_set(e, ERR_MEMORY, "out of memory for a window");
    scorer s = {.ids = copy, .n_vocab = engine_describe(g)->n_vocab};
    int rc = 0;
    for (int64_t begin = 0; !rc; begin += step) {
        int64_t end = begin + window < total ? begin + window : total;
        if (!o->stride && begin + window > total) break;
        s.n = end - begin;
        s.first = o->stride ? scored - 1 - begin
                            : window / 2; /* with strides: the row before the first token not scored yet */
        memcpy(copy, ids + begin, (size_t)s.n * sizeof *copy);
        if (!o->stride && o->bos >= 0) copy[0] = o->bos;
        rc = engine_eval(g, copy, (size_t)s.n, -1, score_rows, &s, e);
        scored = end;
        if (o->progress) o->progress(o->ctx, end, total);
        if (o->stride && end == total) break;
    }
    mem_free(copy);
    if (rc) return rc;
    *out = (perplexity_result){.nll = s.sum / (double)s.tokens, .tokens = s.tokens};
    return 0;
}
