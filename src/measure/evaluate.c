/* evaluate.c - one sequence without sampling: logits, hidden states or any activations of every row, chunk by chunk. */
#include "measure/evaluate.h"
#include "measure/evaluate_state.h"

#include "base/mem.h"

#include <inttypes.h>

/* Sends the next chunk of a session; false: all has been sent, or too much is under way. */
static bool send_chunk(engine *g, session *s, const tap *taps, int32_t n_tap)
{
    batch *b = steps_next(&g->steps);
    if (!b || s->text.n_sent == s->n_ids || (n_tap && steps_under_way(&g->steps))) return false;
    const int64_t rest = s->n_ids - s->text.n_sent, rows = rest < g->chunk ? rest : g->chunk;
    batch_add(b, s, (int)(text_take_pages(&g->kv, &s->text, s->text.n_sent + rows) - s->text.n_sent), 0);
    b->st.taps = taps;
    b->st.n_tap = n_tap;
    return steps_send(&g->steps, &g->kv, g->plan);
}

/* Where rows see later ones, a step has the whole text, and is repeated until every row was wanted once. With taps only
 * one step is under way: they write to one place. */
static int run_chunks(engine *g, session *s, const tap *taps, int32_t n_tap, const float *values, rows_fn on_rows,
                      void *ctx, err *e)
{
    const program *p = g->prog;
    const int64_t width = values ? tensor_count(&p->tensors[taps->what]) : engine_width(g, -1);
    const bool again = p->needs_whole_sequence && s->want_all, heads = p->entries[ENTRY_HEAD].out;
    int rc = OK;
    s->want_to = again && s->n_ids > SCORE_ROWS ? SCORE_ROWS : s->n_ids;
    while (s->text.n_past < s->n_ids || s->in_flight) {
        while (!rc && send_chunk(g, s, taps, n_tap)) {}
        if (!s->in_flight) break;
        int failed;
        const batch *b = steps_collect(&g->steps, g->plan, &failed, rc ? NULL : e);
        const int64_t n = b->st.n[AXIS_TOK];
        const bool all = values && !again; /* a tap of token rows shows those that are not wanted too */
        const int64_t first = all || s->want_from < s->text.n_past ? s->text.n_past : s->want_from;
        const int64_t rows = all ? n : heads ? b->st.n[AXIS_OUT] : 0;
        if (!rc) rc = failed;
        if (!rc) rc = damage_check(g, e);
        if (!rc) rc = row_fault_error(g, b, 0, s->text.n_past, e);
        const float *got = values ? values : plan_result(g->plan, ENTRY_HEAD);
        for (int64_t i = 0; i < rows && !rc; i++) rc = row_not_finite(first + i, width, got + i * width, e);
        if (!rc && rows) rc = on_rows(ctx, got, first, rows, e);
        text_advance(&g->kv, &s->text, n);
        if (s->want_to == s->n_ids || rc) continue;
        s->text.n_past = s->text.n_sent = 0;
        s->want_from = s->want_to;
        s->want_to = s->n_ids - s->want_from > SCORE_ROWS ? s->want_from + SCORE_ROWS : s->n_ids;
    }
    return rc;
}

static int check_idle(const engine *g, err *e)
{
    return g->running || g->waiting || g->inbox ? err_set(e, ERR_BUSY, "queries are running") : OK;
}

static int check_ids(const engine *g, const int32_t *ids, size_t n, err *e)
{
    int rc = check_idle(g, e);
    if (rc) return rc;
    if (n < 1 || (int64_t)n > g->info.ctx)
        return err_set(e, ERR_LIMIT, "%zu tokens, the context holds %d (--ctx makes it larger)", n, g->info.ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->info.n_vocab)
            return err_set(e, ERR_USAGE, "token id %d is outside the vocabulary of %d", ids[i], g->info.n_vocab);
    return OK;
}

int32_t engine_width(const engine *g, int layer)
{
    const program *p = g->prog;
    return layer < 0 ? (g->info.n_label ? g->info.n_label : g->info.n_vocab)
                     : (int32_t)tensor_count(&p->tensors[p->hidden[layer]]);
}

int engine_eval(engine *g, const int32_t *ids, size_t n, int layer, rows_fn on_rows, void *ctx, err *e)
{
    return engine_eval_query(g, &(query){.ids = ids, .n_ids = n}, layer, on_rows, ctx, e);
}

int engine_eval_query(engine *g, const query *q, int layer, rows_fn on_rows, void *ctx, err *e)
{
    session *s;
    float *tapped = NULL;
    if (layer < 0 && !g->prog->entries[ENTRY_HEAD].out)
        return err_set(e, ERR_USAGE, "this model has no head that gives logits (eval hidden gives its states)");
    if (layer >= 0 && !plan_sees_taps(g->plan))
        return err_set(e, ERR_USAGE, "hidden states are shown by devices of this process: --devices without nodes");
    if (layer > g->info.n_layer) return err_set(e, ERR_USAGE, "layer %d of a model of %d", layer, g->info.n_layer);
    int rc = check_ids(g, q->ids, q->n_ids, e);
    if (!rc) rc = query_check_encoder(g, q, e);
    if (!rc) rc = session_new(&s, q, g->prog, g->info.ctx, e);
    if (rc) return rc;
    s->text.shares = false;
    s->want_all = layer < 0 || g->prog->tensors[g->prog->hidden[layer]].axis == AXIS_OUT;
    if (layer >= 0) {
        tapped = mem_array((size_t)g->chunk * (size_t)engine_width(g, layer), sizeof *tapped);
        if (!tapped) rc = err_memory(e, "hidden states");
    }
    if (!rc) rc = session_admit(g, s, e);
    const tap t = {.what = layer >= 0 ? g->prog->hidden[layer] : 0, .to = tapped};
    if (!rc) rc = run_chunks(g, s, &t, layer >= 0, tapped, on_rows, ctx, e);
    session_drop_cache(g, s);
    session_free(s);
    mem_free(tapped);
    return rc;
}

int engine_eval_session(engine *g, session *s, int64_t from, rows_fn on_rows, void *ctx, err *e)
{
    int rc = check_idle(g, e);
    s->want_all = true;
    s->want_from = from;
    if (!rc) rc = session_admit(g, s, e);
    if (!rc) rc = run_chunks(g, s, NULL, 0, NULL, on_rows, ctx, e);
    session_drop_cache(g, s);
    return rc;
}

static int ignore_rows(void *self, const float *rows, int64_t first, int64_t n, err *e)
{
    (void)self, (void)rows, (void)first, (void)n, (void)e;
    return OK;
}

int engine_watch(engine *g, const int32_t *ids, size_t n, const tap *taps, int32_t n_tap, err *e)
{
    const query q = {.ids = ids, .n_ids = n};
    session *s;
    int rc = check_ids(g, ids, n, e);
    if (!rc) rc = session_new(&s, &q, g->prog, g->info.ctx, e);
    if (rc) return rc;
    s->text.shares = false;
    s->want_all = g->prog->entries[ENTRY_HEAD].out != 0;
    rc = session_admit(g, s, e);
    if (!rc) rc = run_chunks(g, s, taps, n_tap, NULL, ignore_rows, NULL, e);
    session_drop_cache(g, s);
    session_free(s);
    return rc;
}
