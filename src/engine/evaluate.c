/* evaluate.c - one sequence without sampling: logits or hidden states of every row, chunk by chunk. */
#include "engine/engine_state.h"

#include "base/mem.h"

#include <inttypes.h>

/* Where rows see later ones every step has the whole text, and again, until all rows have been among those whose result is wanted. */
static int run_chunks(engine *g, session *s, int layer, float *tapped, rows_fn on_rows, void *ctx, err *e)
{
    const program *p = g->mod->prog;
    tap t = {.to = tapped};
    bool again = p->whole && s->want_all;
    if (layer >= 0) t.what = p->hidden[layer];
    s->want_to = again && s->n_ids > SCORE_ROWS ? SCORE_ROWS : s->n_ids;
    while (s->n_past < s->n_ids) {
        batch_clear(&g->work);
        int n = batch_add(&g->work, s, (int)(s->n_ids - s->n_past < g->chunk ? s->n_ids - s->n_past : g->chunk), 0);
        session_pages(g, s, s->n_past + n);
        batch_finish(&g->work, p);
        if (layer >= 0) {
            g->work.st.taps = &t;
            g->work.st.n_tap = 1;
        }
        int rc = plan_step(g->layout, &g->work.st, e);
        int64_t first = again ? s->want_from : s->n_past, rows = again ? s->want_to - s->want_from : n;
        if (!rc) rc = on_rows(ctx, layer >= 0 ? tapped : plan_logits(g->layout), first, rows, e);
        if (rc) return rc;
        session_advance(g, s, n);
        if (s->want_to == s->n_ids) continue;
        s->n_past = 0;
        s->want_from = s->want_to;
        s->want_to = s->n_ids - s->want_from > SCORE_ROWS ? s->want_from + SCORE_ROWS : s->n_ids;
    }
    return 0;
}

int32_t engine_width(const engine *g, int layer)
{
    const program *p = g->mod->prog;
    return layer < 0 ? g->info.n_vocab : (int32_t)tensor_count(&p->tensors[p->hidden[layer]]);
}

int engine_eval(engine *g, const int32_t *ids, size_t n, int layer, rows_fn on_rows, void *ctx, err *e)
{
    return engine_eval_pair(g, NULL, 0, ids, n, layer, on_rows, ctx, e);
}

int engine_eval_pair(engine *g, const int32_t *enc_ids, size_t n_enc, const int32_t *ids, size_t n, int layer,
                     rows_fn on_rows, void *ctx, err *e)
{
    query q = {.ids = ids, .n_ids = n, .enc_ids = enc_ids, .n_enc = n_enc, .n_logprobs = -1};
    session *s;
    float *tapped = NULL;
    if (g->running || g->waiting || g->inbox) return err_set(e, ERR_BUSY, "queries are running");
    if (layer < 0 && !g->mod->prog->entries[ENTRY_HEAD].out)
        return err_set(e, ERR_USAGE, "this model has no head that gives logits (eval hidden gives its states)");
    if (layer > g->info.n_layer) return err_set(e, ERR_USAGE, "layer %d of a model of %d", layer, g->info.n_layer);
    if (n < 1 || (int64_t)n > g->info.ctx)
        return err_set(e, ERR_LIMIT, "%zu tokens, the context holds %d (--ctx makes it larger)", n, g->info.ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->info.n_vocab)
            return err_set(e, ERR_USAGE, "token id %d is outside the vocabulary of %d", ids[i], g->info.n_vocab);
    int rc = query_check_encoder(g, &q, e);
    if (!rc) rc = session_new(&s, &q, g->mod->prog, g->info.ctx, e);
    if (rc) return rc;
    s->want_all = layer < 0 || g->mod->prog->tensors[g->mod->prog->hidden[layer]].rows == ROWS_OUT;
    if (layer >= 0) {
        tapped = mem_array((size_t)g->chunk * (size_t)engine_width(g, layer), sizeof *tapped);
        if (!tapped) rc = err_set(e, ERR_MEMORY, "out of memory for hidden states");
    }
    if (!rc) rc = session_admit(g, s, e);
    if (!rc) rc = run_chunks(g, s, layer, tapped, on_rows, ctx, e);
    session_drop_cache(g, s);
    session_free(s);
    mem_free(tapped);
    return rc;
}
