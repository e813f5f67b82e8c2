/* completion.c - see completion.h. Streams show text only when it is certain: no half character (the detokenizer sees
 * to that) and no beginning of a stop string. */
#include "serve/completion.h"

#include "base/mem.h"
#include "serve/completion_json.h"
#include "serve/reply_form.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void free_job(void *ctx)
{
    job *j = ctx;
    for (size_t i = 0; i < j->n_choices; i++) {
        choice *c = &j->choices[i];
        answer_close(&c->answer);
        mem_free(c->prompt_tokens.p);
        mem_free(c->tokens.p);
        call_parser_close(c->chat.parser);
        chat_message_free(&c->chat.message);
        mem_free(c->top);
    }
    mem_free(j->choices);
    request_free(&j->req);
    buf_free(&j->scratch);
    pthread_mutex_destroy(&j->lock);
    mem_free(j);
}

/* The client left: its queries stop as soon as the engine can. */
static void cancel_job(void *ctx)
{
    job *j = ctx;
    pthread_mutex_lock(&j->lock);
    j->gone = true;
    for (size_t i = 0; i < j->n_choices; i++)
        if (j->choices[i].accepted) engine_cancel(j->srv->g, j->choices[i].query_id);
    pthread_mutex_unlock(&j->lock);
}

/* The client caught up: queries that were held back go on. */
static void resume_job(void *ctx)
{
    job *j = ctx;
    pthread_mutex_lock(&j->lock);
    for (size_t i = 0; i < j->n_choices; i++)
        if (j->choices[i].held) {
            j->choices[i].held = false;
            engine_pause(j->srv->g, j->choices[i].query_id, false);
        }
    pthread_mutex_unlock(&j->lock);
}

static void hold_when_full(choice *c, uint64_t id)
{
    job *j = c->owner;
    pthread_mutex_lock(&j->lock);
    if (!c->held && stream_is_full(j->out)) {
        c->held = true;
        engine_pause(j->srv->g, id, true);
    }
    pthread_mutex_unlock(&j->lock);
}

static bool add_record(choice *c, record_list *l, int32_t id, float logprob, size_t offset)
{
    void *p = l->p;
    if (!mem_grow(&p, &l->cap, l->n + 1, sizeof *l->p)) return false;
    l->p = p;
    l->p[l->n++] = (token_record){id, logprob, offset, c->n_top, 0};
    return true;
}

static bool add_top(choice *c, token_record *t, const token_event *ev)
{
    void *p = c->top;
    if (!ev->n_top) return true;
    if (!mem_grow(&p, &c->cap_top, c->n_top + (size_t)ev->n_top, sizeof *c->top)) return false;
    c->top = p;
    memcpy(c->top + c->n_top, ev->top, (size_t)ev->n_top * sizeof *c->top);
    t->first_top = c->n_top;
    t->n_top = ev->n_top;
    c->n_top += (size_t)ev->n_top;
    return true;
}

static void fail_job(job *j, const char *why)
{
    if (!j->failed.code) server_query_error(j->srv, why, &j->failed);
}

/* A choice's end; the last one ends the reply. */
static void end_reply(job *j)
{
    if (atomic_fetch_sub(&j->pending, 1) != 1) return;
    const reply_form *form = j->req.reply;
    const err *failed = j->failed.code ? &j->failed : NULL;
    const int status = failed ? err_http(failed->code) : 200;
    j->scratch.n = 0;
    if (stream_is_started(j->out)) {
        if (failed) form->error(&j->scratch, status, error_word(failed->code), failed->msg);
        else if (j->req.made.include_usage && form->usage) reply_usage_event_write(&j->scratch, j);
        if (form->done) buf_str(&j->scratch, "data: [DONE]\n\n");
    } else {
        if (failed) error_text(&j->scratch, status, NULL, error_word(failed->code), failed->msg);
        else form->whole(&j->scratch, j);
        stream_start(j->out, !failed && j->scratch.bad ? 500 : status, "application/json", false);
    }
    stream_write(j->out, j->scratch.p, j->scratch.n);
    stream_end(j->out);
}

static void send_scratch(job *j)
{
    if (j->scratch.bad) fail_job(j, "out of memory");
    else stream_write(j->out, j->scratch.p, j->scratch.n);
}

static void send_chunk(choice *c, size_t upto)
{
    job *j = c->owner;
    const reply_form *form = j->req.reply;
    if (form->take && !j->failed.code && !form->take(j, c, upto)) fail_job(j, "out of memory");
    if (!j->req.streams || j->failed.code) return;
    bool tokens_wait = j->req.logprobs >= 0 && c->tokens_sent < c->tokens.n &&
                       c->tokens.p[c->tokens_sent].offset < upto;
    if (upto == c->sent && !tokens_wait && !c->answer.finish) return;
    j->scratch.n = 0;
    form->events(&j->scratch, j, c, upto);
    send_scratch(j);
}

static void end_choice(choice *c, finish_reason why)
{
    job *j = c->owner;
    c->answer.finish = why;
    metrics_finished(j->srv->counts, why);
    stream_note_end(j->out, metrics_finish_name(why));
    if (why == FINISH_CANCELLED && !j->failed.code && !stream_is_gone(j->out))
        fail_job(j, "the server is shutting down");
    send_chunk(c, c->answer.text.n);
    end_reply(j);
    stream_drop(j->out); /* the query's reference: the job may be gone after this */
}

/* Tokens that begin after the cut at a stop string were not shown and are not listed. */
static void cut_tokens(choice *c)
{
    const size_t cut = c->answer.text.n;
    while (c->tokens.n && c->tokens.p[c->tokens.n - 1].offset >= cut && c->tokens.n > c->tokens_sent) c->tokens.n--;
}

static bool take_prompt_token(choice *c, const token_event *ev)
{
    int64_t at = ev->index + (int64_t)c->from->ids.n;
    if (at < 1 || at >= (int64_t)c->prompt_tokens.n) return true;
    token_record *t = &c->prompt_tokens.p[at];
    t->logprob = ev->logprob;
    return add_top(c, t, ev);
}

/* Special tokens whose text a chat is read by. */
static bool wants_mark(const void *ctx, span special) { return call_parser_wants(ctx, special); }

/* The times of a token that was generated; before: of the one before it, 0: it is the first. */
static void note_token(choice *c, double before)
{
    job *j = c->owner;
    const double now = c->answer.last;
    stream_count(j->out, 0, 1);
    if (before > 0) metrics_observe(j->srv->counts, HISTOGRAM_INTER_TOKEN, now - before);
    if (j->first_token_seen) return;
    metrics_observe(j->srv->counts, HISTOGRAM_FIRST_TOKEN, now - j->began);
    stream_note_first(j->out, now);
    j->first_token_seen = true;
}

/* Keeps the log-probabilities of a token that is taken next, or of the one that closed the text: where the prompt is
 * shown this is listed, as the score of an answer includes its end. */
static bool take_logprobs(choice *c, const token_event *ev)
{
    const request *r = &c->owner->req;
    if (!ev->ends || !c->answer.n_tokens) c->logprob_sum += (double)ev->logprob;
    if (r->logprobs < 0 || (ev->ends && !r->echo)) return true;
    return add_record(c, &c->tokens, ev->ends ? ev->end_token : ev->token, ev->logprob, c->answer.text.n) &&
           add_top(c, &c->tokens.p[c->tokens.n - 1], ev);
}

/* Handles an event of one choice. False: the query ends. */
static bool on_event(void *ctx, const token_event *ev)
{
    choice *c = ctx;
    job *j = c->owner;
    const double before = c->answer.last;
    const bool generated = ev->token >= 0 && ev->index >= 0;
    err e = {0};
    if (ev->index == 0) metrics_observe(j->srv->counts, HISTOGRAM_QUEUE, ev->queue_seconds);
    if (stream_is_gone(j->out) || j->failed.code) {
        end_choice(c, FINISH_CANCELLED);
        return false;
    }
    bool good = true;
    if (ev->token >= 0 && ev->index < 0) good = take_prompt_token(c, ev);
    else if (generated || ev->ends) good = take_logprobs(c, ev);
    if (!good) err_memory(&e, NULL);
    else answer_take(&c->answer, ev, &e);
    if (generated) note_token(c, before);
    if (e.code) fail_job(j, e.msg);
    if (c->answer.stop_word) cut_tokens(c);
    if (e.code || c->answer.finish) {
        end_choice(c, e.code ? FINISH_ERROR : c->answer.finish);
        return false;
    }
    if (ev->prompt_read) {
        j->scratch.n = 0;
        j->req.reply->reading(&j->scratch, j, c, ev->prompt_read);
        send_scratch(j);
        return true;
    }
    if (ev->index < 0) return true;
    const size_t certain = answer_certain(&c->answer);
    send_chunk(c, certain > c->sent ? certain : c->sent);
    hold_when_full(c, ev->query_id);
    return true;
}

/* Handles an event of a beam search: its texts are the choices of a prompt, one after the other. */
static bool on_beam_event(void *ctx, const token_event *ev)
{
    choice *first = ctx;
    const int64_t n = first->owner->req.n;
    bool live = false, all = ev->finish == FINISH_ERROR || ev->finish == FINISH_CANCELLED;
    stream *out = first->owner->out;
    stream_keep(out); /* the job lives until this returns */
    for (int64_t i = 0; i < n; i++) {
        if ((all || i == ev->beam) && !first[i].answer.finish) on_event(&first[i], ev);
        live |= !first[i].answer.finish;
    }
    stream_drop(out);
    return live;
}

static bool is_whole_text(void *ctx, const int32_t *ids, int64_t n)
{
    const choice *c = ctx;
    return answer_would_stop(&c->answer, ids, n);
}

/* Reads the prompt, and makes the records of its tokens. */
static int prepare_choice(job *j, choice *c, int index, const prompt *p, err *e)
{
    const request *r = &j->req;
    const bool keep = r->prompt_logprobs >= 0 || (r->echo && r->logprobs >= 0);
    c->owner = j;
    c->index = index;
    c->from = p;
    int rc = answer_open(&c->answer, engine_target_tokenizer(j->srv->g), &j->rules, e);
    for (size_t i = 0; i < p->ids.n && !rc; i++) {
        if (keep && !add_record(c, &c->prompt_tokens, p->ids.id[i], NAN, r->echo ? c->answer.text.n : 0))
            rc = err_memory(e, NULL);
        if (!rc) rc = answer_read(&c->answer, &p->ids.id[i], 1, e);
    }
    if (rc) return rc;
    if (r->echo && p->text) { /* shown as it was written; the tokens' offsets stay inside it */
        const span text = span_str(p->text);
        for (size_t i = 0; i < c->prompt_tokens.n; i++)
            if (c->prompt_tokens.p[i].offset > text.n) c->prompt_tokens.p[i].offset = text.n;
        return answer_show(&c->answer, text, e);
    }
    if (r->echo) return OK;
    const span hidden = p->text ? span_str(p->text) : buf_span(&c->answer.text);
    for (size_t i = 0; i < hidden.n; i++) /* text_offset counts from the beginning of the prompt all the same */
        c->sent_chars += (hidden.p[i] & 0xc0) != 0x80;
    return answer_show(&c->answer, (span){0}, e);
}

static int new_job(job **out, server *s, exchange *x, request *r, err *e)
{
    job *j = *out = mem_zero(1, sizeof *j);
    if (!j) {
        request_free(r);
        return err_memory(e, NULL);
    }
    pthread_mutex_init(&j->lock, NULL);
    j->srv = s;
    j->req = *r;
    *r = (request){0};
    j->rules = (answer_rules){.stop = j->req.made.stop,
                              .n_stop = j->req.made.n_stop,
                              .min_tokens = j->req.min_tokens,
                              .shows_stop = j->req.shows_stop,
                              .keeps_ids = j->req.returns_ids || j->req.receipt,
                              .wants = wants_mark,
                              .ctx = &j->req.made.parse};
    j->began = x->began;
    j->created = time(NULL);
    uint64_t random[2] = {0};
    if (getrandom(random, sizeof random, 0) < 0) random[0] = atomic_fetch_add(&s->serial, 1);
    snprintf(j->id, sizeof j->id, "%s%016llx%08x", j->req.reply->prefix, (unsigned long long)random[0],
             (unsigned)random[1]);
    int rc = stream_open(&j->out, &(stream_owner){j, resume_job, cancel_job, free_job}, e);
    if (rc) {
        free_job(j);
        *out = NULL;
        return rc;
    }
    size_t n = j->req.made.n_prompts * (size_t)j->req.made.drawn;
    j->choices = mem_zero(n, sizeof *j->choices);
    if (!j->choices) return err_memory(e, NULL);
    j->n_choices = n;
    atomic_store(&j->pending, n + 1);
    for (size_t i = 0; i < n && !rc; i++)
        rc = prepare_choice(j, &j->choices[i], (int)i, &j->req.made.prompts[i / (size_t)j->req.made.drawn], e);
    return rc;
}

query completion_query(const choice *c)
{
    const request *r = &c->owner->req;
    const request_made *m = &r->made;
    int64_t k = r->logprobs > r->prompt_logprobs ? r->logprobs : r->prompt_logprobs;
    if (r->best_of > 1 && r->beams == 1 && k < 0) k = 0; /* the best are found by them */
    query q = {.ids = c->from->ids.id,
               .n_ids = c->from->ids.n,
               .enc_ids = c->from->enc.id,
               .n_enc = c->from->enc.n,
               .max_tokens = r->max_tokens,
               .min_tokens = r->min_tokens,
               .ignore_eos = r->ignore_eos,
               .stop_ids = m->stop_ids.id,
               .n_stop_ids = (int32_t)m->stop_ids.n,
               .allowed = m->allowed,
               .n_allowed = m->n_allowed,
               .bad = m->bad.id,
               .n_bad = (int32_t)m->bad.n,
               .sample = r->sample,
               .beams = (int32_t)r->beams,
               .n_best = r->beams > 1 ? (int32_t)r->n : 0,
               .is_whole = r->beams > 1 && m->n_stop ? is_whole_text : NULL,
               .length_penalty = r->length_penalty,
               .early_stopping = m->early_stopping,
               .bias = m->bias,
               .n_bias = m->n_bias,
               .constraint = m->form,
               .n_logprobs = (int32_t)k,
               .prompt_logprobs = c->prompt_tokens.n > 0,
               .tells_reading = r->tells_reading && r->streams && r->beams == 1,
               .salt = m->salt,
               .priority = r->priority,
               .owner = m->owner,
               .request = (uint64_t)(uintptr_t)c->owner,
               .on_token = r->beams > 1 ? on_beam_event : on_event,
               .ctx = (void *)c};
    q.sample.choice = c->index % m->drawn;
    return q;
}

/* One query; the engine may call back before this returns. */
static int add_choice(job *j, choice *c, err *e)
{
    const request *r = &j->req;
    if (r->beams > 1 && c->index % r->n) return OK; /* of the search of the prompt's first */
    query q = completion_query(c);
    if (r->beams == 1 && c->index % r->made.drawn)
        q.same_prompt_as = j->choices[c->index - c->index % r->made.drawn].query_id;
    const int64_t texts = r->beams > 1 ? r->n : 1;
    int rc = ERR_CANCELLED;
    pthread_mutex_lock(&j->lock);
    if (!j->gone) {
        for (int64_t i = 0; i < texts; i++) stream_keep(j->out); /* the query's: each text drops one */
        rc = engine_add_query(j->srv->g, &q, &c->query_id, e);
        c->accepted = rc == OK;
    }
    pthread_mutex_unlock(&j->lock);
    for (int64_t i = 0; rc && i < texts; i++) stream_drop(j->out);
    return rc;
}

void completion_start(server *s, exchange *x, request *r)
{
    err e = {0};
    job *j;
    int rc = new_job(&j, s, x, r, &e);
    if (!rc) rc = server_check_queue(s, j->n_choices, &e);
    if (!rc && j->req.streams) stream_start(j->out, 200, "text/event-stream", true);
    for (size_t i = 0; i < (rc ? 0 : j->n_choices) && !rc; i++) rc = add_choice(j, &j->choices[i], &e);
    if (!rc) {
        x->later = j->out;
        for (size_t i = 0; i < j->req.made.n_prompts; i++)
            stream_count(j->out, (int64_t)(j->req.made.prompts[i].enc.n + j->req.made.prompts[i].ids.n), 0);
        end_reply(j); /* takes back the one that kept the reply open while queries were added */
        return;
    }
    if (e.code == ERR_LIMIT) reply_error(x, 400, "prompt", "context_length_exceeded", "%s", e.msg);
    else reply_err(x, NULL, &e);
    if (!j) return;
    stream_leave(j->out);
    stream_drop(j->out);
}

void completion_handle(server *s, exchange *x)
{
    request r;
    if (request_read(s, x, &r)) completion_start(s, x, &r);
    request_free(&r);
}
