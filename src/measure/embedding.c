/* embedding.c - see embedding.h. */
#include "measure/embedding.h"

#include "base/buf.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 256 }; /* queries in the engine at once */

int embedding_check(const engine *g, bool scores, bool pooling_given, err *e)
{
    const engine_info *i = engine_describe(g);
    if (scores)
        return i->n_score ? OK : err_set(e, ERR_USAGE, "%s has no classification head that could score texts", i->name);
    if (!i->n_pooled)
        return err_set(e, ERR_USAGE,
                       "%s makes no embeddings by itself: --pooling last or mean makes some of its states", i->name);
    if (i->embed_unsupported_module && !pooling_given)
        return err_set(e, ERR_USAGE,
                       "%s: its modules.json asks for %.200s, which is not supported: --pooling cls, mean or last "
                       "says what to do instead",
                       i->name, i->embed_unsupported_module);
    return OK;
}

static int encode_pair(const engine *g, span text, const span *second, size_t most, token_list *ids, token_list *types,
                       err *e)
{
    token_input in = {text, second, most};
    return tokenizer_encode_input(engine_tokenizer(g), &in, TOKENIZE_SPECIAL, ids, types, e);
}

/* Whether an input that has `most` tokens when it is cut has more without that. */
static int was_cut(const engine *g, span text, const span *second, size_t most, bool *cut, err *e)
{
    token_list ids = {0}, types = {0};
    const int rc = encode_pair(g, text, second, 0, &ids, &types, e);
    *cut = ids.n > most;
    token_list_free(&ids);
    token_list_free(&types);
    return rc;
}

int embedding_tokenize(const engine *g, span text, const span *second, bool *cut, token_list *ids, token_list *types,
                       err *e)
{
    const engine_info *i = engine_describe(g);
    const size_t most = (size_t)(i->embed_tokens > 0 && i->embed_tokens < i->ctx ? i->embed_tokens : i->ctx),
                 ids0 = ids->n;
    buf joined = {0};
    if (cut) *cut = false;
    if (!engine_tokenizer(g)) return err_set(e, ERR_USAGE, "this model has no tokenizer: give --tokenizer, or ids");
    if (i->embed_prompt && !second) {
        if (!buf_str(&joined, i->embed_prompt) || !buf_add(&joined, text.p, text.n)) return err_memory(e, "a text");
        text = buf_span(&joined);
    }
    int rc = encode_pair(g, text, second, most, ids, types, e);
    if (!rc && cut && ids->n - ids0 >= most) rc = was_cut(g, text, second, most, cut, e);
    if (!rc && ids->n == ids0 && i->bos >= 0 && !(token_list_add(ids, i->bos) && token_list_add(types, 0)))
        rc = err_memory(e, "a text");
    if (!rc && ids->n == ids0) rc = err_set(e, ERR_USAGE, "the text has no tokens");
    buf_free(&joined);
    return rc;
}

/* ---- many at once */

typedef struct batch_run {
    const engine *g;
    size_t done;
    err failed;
} batch_run;

typedef struct ticket {
    embedding_job *job;
    batch_run *run;
    uint64_t id;
} ticket;

static bool on_result(void *ctx, const token_event *ev)
{
    const ticket *t = ctx;
    const engine_info *i = engine_describe(t->run->g);
    t->run->done++;
    if (ev->finish != FINISH_STOP)
        err_set(&t->run->failed, ERR_FORMAT, "%s", ev->error ? ev->error : "a text was given up");
    if (ev->pooled && t->job->vector) memcpy(t->job->vector, ev->pooled, (size_t)i->n_pooled * sizeof(float));
    if (ev->scores && t->job->scores) memcpy(t->job->scores, ev->scores, (size_t)i->n_score * sizeof(float));
    return false;
}

static int by_length(const void *a, const void *b)
{
    const ticket *x = a, *y = b;
    if (x->job->n != y->job->n) return x->job->n < y->job->n ? 1 : -1;
    return x->job < y->job ? -1 : 1;
}

static int run_tickets(engine *g, ticket *t, size_t n, batch_run *run, void (*progress)(void *, size_t), void *ctx,
                       err *e)
{
    size_t added = 0;
    while (run->done < n) {
        for (; added < n && added - run->done < AHEAD; added++) {
            const embedding_job *j = t[added].job;
            query q = {.ids = j->ids,
                       .types = j->types,
                       .n_ids = j->n,
                       .pooled = true,
                       .n_logprobs = -1,
                       .on_token = on_result,
                       .ctx = &t[added]};
            int rc = engine_add_query(g, &q, &t[added].id, e);
            if (rc) return rc;
        }
        bool more;
        int rc = engine_infer(g, &more, e);
        if (rc) return rc;
        if (progress) progress(ctx, run->done);
        if (run->failed.code) return err_copy(e, &run->failed);
    }
    return OK;
}

int embedding_run(engine *g, embedding_job *jobs, size_t n, void (*progress)(void *ctx, size_t done), void *ctx, err *e)
{
    batch_run run = {.g = g};
    ticket *t = mem_array(n ? n : 1, sizeof *t);
    if (!t) return err_set(e, ERR_MEMORY, "out of memory for %zu texts", n);
    for (size_t i = 0; i < n; i++) t[i] = (ticket){&jobs[i], &run, 0};
    qsort(t, n, sizeof *t, by_length);
    int rc = run_tickets(g, t, n, &run, progress, ctx, e);
    bool more;
    err ignored = {0};
    for (size_t i = 0; i < n && rc; i++) engine_cancel(g, t[i].id);
    if (rc) engine_infer(g, &more, &ignored); /* no query may keep a pointer to a ticket */
    mem_free(t);
    return rc;
}
