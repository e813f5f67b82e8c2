/* perplexity.c - see perplexity.h. */
#include "measure/evaluate.h"
#include "measure/perplexity.h"

#include "base/fmath.h"

#include <math.h>

typedef struct scorer {
    engine *g;
    const int32_t *ids; /* of the window */
    int64_t n, first;   /* rows first … n-2 are scored: row i predicts token i + 1 */
    int32_t n_vocab;
    double sum, squares;
    int64_t tokens;
} scorer;

/* -log softmax(logits)[id]; sums in double. */
static double loss_of_id(const float *logits, int32_t n, int32_t id)
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
        const double one = loss_of_id(rows + i * s->n_vocab, s->n_vocab, s->ids[at + 1]);
        s->sum += one;
        s->squares += one * one;
        s->tokens++;
    }
    return 0;
}

static int score_window(void *ctx, const int32_t *ids, int64_t n, int64_t first, err *e)
{
    scorer *s = ctx;
    s->ids = ids;
    s->n = n;
    s->first = first;
    return engine_eval(s->g, ids, (size_t)n, -1, score_rows, s, e);
}

int perplexity_measure(engine *g, const int32_t *ids, size_t n, const windows *w, perplexity_result *out, err *e)
{
    scorer s = {.g = g, .n_vocab = engine_describe(g)->n_vocab};
    int rc = windows_each(g, ids, n, w, score_window, &s, e);
    if (!rc && s.tokens == 0)
        return err_set(e, ERR_USAGE, "no token is scored: windows of %d have no second half (--ctx)", (int)w->window);
    if (rc) return rc;
    const double n_scored = (double)s.tokens, mean = s.sum / n_scored, spread = s.squares / n_scored - mean * mean;
    *out = (perplexity_result){
        .nll = mean, .error = s.tokens > 1 && spread > 0 ? sqrt(spread / (n_scored - 1)) : 0, .tokens = s.tokens};
    return OK;
}
