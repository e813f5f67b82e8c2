/* pooled_job.c - see pooled_job.h. */
#include "serve/pooled_job.h"

#include "base/mem.h"

#include <string.h>

enum { AHEAD = 64 }; /* queries of one request in the engine at once: others get their turns */

static void free_job(void *ctx)
{
    pooled_job *j = ctx;
    for (size_t i = 0; j->in && i < j->n; i++) {
        token_list_free(&j->in[i].ids);
        token_list_free(&j->in[i].types);
    }
    if (j->clear && j->own) j->clear(j->own);
    mem_free(j->own);
    mem_free(j->in);
    mem_free(j->results);
    pthread_mutex_destroy(&j->lock);
    mem_free(j);
}

/* The client left: its queries stop as soon as the engine can. */
static void cancel_job(void *ctx)
{
    pooled_job *j = ctx;
    pthread_mutex_lock(&j->lock);
    j->gone = true;
    for (size_t i = 0; i < j->next; i++)
        if (j->in[i].running) engine_cancel(j->srv->g, j->in[i].query_id);
    pthread_mutex_unlock(&j->lock);
}

int pooled_job_new(pooled_job **out, server *s, size_t n, bool scores, err *e)
{
    const engine_info *i = engine_describe(s->g);
    pooled_job *j = *out = mem_zero(1, sizeof *j);
    uint64_t floats;
    if (!j) return err_memory(e, NULL);
    *j = (pooled_job){.srv = s, .n = n, .scores = scores, .width = scores ? i->n_score : i->n_pooled};
    pthread_mutex_init(&j->lock, NULL);
    j->in = mem_zero(n, sizeof *j->in);
    if (mem_mul(n, (uint64_t)j->width, &floats)) j->results = mem_zero(floats, sizeof *j->results);
    if (j->in && j->results && !stream_open(&j->out, &(stream_owner){j, NULL, cancel_job, free_job}, e)) {
        for (size_t k = 0; k < n; k++) j->in[k].owner = j;
        return OK;
    }
    free_job(j);
    *out = NULL;
    return err_set(e, ERR_MEMORY, "out of memory for %zu inputs", n);
}

void pooled_job_drop(pooled_job *j)
{
    if (!j) return;
    stream_leave(j->out);
    stream_drop(j->out);
}

/* ---- running */

static void end_reply(pooled_job *j)
{
    buf body = {0};
    int status = 200;
    if (j->failed.code) {
        status = err_http(j->failed.code);
        error_text(&body, status, NULL, error_word(j->failed.code), j->failed.msg);
    } else if (!j->write(&body, j)) {
        status = 500;
        body.n = 0;
        error_text(&body, status, NULL, NULL, "out of memory");
    }
    stream_start(j->out, status, "application/json", false);
    stream_write(j->out, body.p, body.n);
    stream_end(j->out);
    buf_free(&body);
    stream_drop(j->out); /* the engine's reference: the job may be gone after this */
}

static bool on_result(void *ctx, const token_event *ev);

/* Adds inputs while there is room; under the lock. A full queue is no failure while an input of this job runs. */
static void feed(pooled_job *j)
{
    while (j->next < j->n && j->running < AHEAD && !j->gone && !j->failed.code) {
        pooled_input *in = &j->in[j->next];
        query q = {.ids = in->ids.id,
                   .types = in->types.n ? in->types.id : NULL,
                   .n_ids = in->ids.n,
                   .pooled = true,
                   .n_logprobs = -1,
                   .owner = j->owner,
                   .request = (uint64_t)(uintptr_t)j,
                   .on_token = on_result,
                   .ctx = in};
        err e = {0};
        if (engine_add_query(j->srv->g, &q, &in->query_id, &e)) {
            if (e.code != ERR_BUSY || j->running == 0) j->failed = e;
            return;
        }
        in->running = true;
        j->next++;
        j->running++;
    }
}

/* Whether this call is the one that ends the reply; under the lock. */
static bool is_over(pooled_job *j)
{
    if (j->ended || j->running || (j->next < j->n && !j->gone && !j->failed.code)) return false;
    return j->ended = true;
}

static bool on_result(void *ctx, const token_event *ev)
{
    pooled_input *in = ctx;
    pooled_job *j = in->owner;
    const float *row = j->scores ? ev->scores : ev->pooled;
    pthread_mutex_lock(&j->lock);
    in->running = false;
    j->running--;
    if (ev->finish == FINISH_STOP && row)
        memcpy(j->results + (size_t)(in - j->in) * (size_t)j->width, row, (size_t)j->width * sizeof *row);
    else if (!j->failed.code)
        server_query_error(j->srv, ev->error ? ev->error : "the server is shutting down", &j->failed);
    feed(j);
    bool over = is_over(j);
    pthread_mutex_unlock(&j->lock);
    if (over) end_reply(j);
    return false;
}

void pooled_job_start(pooled_job *j, exchange *x)
{
    j->owner = exchange_owner(j->srv, x);
    err e = {0};
    if (server_check_queue(j->srv, 1, &e)) {
        reply_err(x, NULL, &e);
        pooled_job_drop(j);
        return;
    }
    x->later = j->out;
    for (size_t i = 0; i < j->n; i++) stream_count(j->out, (int64_t)j->in[i].ids.n, 0);
    stream_keep(j->out); /* the engine's, until the reply ends */
    pthread_mutex_lock(&j->lock);
    feed(j);
    bool over = is_over(j);
    pthread_mutex_unlock(&j->lock);
    if (over) end_reply(j);
}

/* ---- parts of requests and replies */

bool pooled_usage_write(buf *to, const pooled_job *j)
{
    size_t n = 0;
    for (size_t i = 0; i < j->n; i++) n += j->in[i].ids.n;
    buf_printf(to,
               "\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":0}}",
               n, n);
    bool any = false;
    for (size_t i = 0; i < j->n; i++) {
        if (!j->in[i].cut) continue;
        buf_printf(to, "%s%zu", any ? "," : ",\"truncated\":[", i);
        any = true;
    }
    if (any) buf_byte(to, ']');
    return !to->bad;
}

void pooled_reply_err(exchange *x, const char *at, const err *e)
{
    if (e->code == ERR_LIMIT) reply_error(x, 400, at, "context_length_exceeded", "%s", e->msg);
    else reply_err(x, at, e);
}
