/* completion.c - see completion.h. Streams show text only when it is certain: no half character (the detokenizer sees
 * to that) and no beginning of a stop string. */
#include "serve/completion_json.h"

#include "base/clock.h"
#include "base/mem.h"
#include "serve/chat_json.h"
#include "serve/chat_request.h"
#include "serve/native_json.h"
#include "serve/reply_form.h"
#include "serve/stop_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void free_job(void *ctx)
{
    job *j = ctx;
    for (size_t i = 0; i < j->n_choices; i++) {
        choice *c = &j->choices[i];
        detok_close(c->text_maker);
        buf_free(&c->text);
        mem_free(c->prompt_tokens.p);
        mem_free(c->tokens.p);
        mem_free(c->made.id);
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
    err e = {0};
    if (j->failed) return;
    server_query_error(j->srv, why, &e);
    snprintf(j->error, sizeof j->error, "%s", e.msg);
    j->error_code = e.code;
    j->failed = true;
}

/* A choice's end; the last one ends the reply. */
static void end_reply(job *j)
{
    if (atomic_fetch_sub(&j->pending, 1) != 1) return;
    bool live = stream_is_started(j->out);
    j->scratch.n = 0;
    const reply_form *form = j->req.reply;
    const int status = j->failed ? err_http(j->error_code) : 500;
    if (j->failed && form && live) form->error(&j->scratch, status, j->error);
    else if (j->failed && live) buf_str(&j->scratch, "data: ");
    if (j->failed && !(form && live)) error_text(&j->scratch, status, NULL, error_word(j->error_code), j->error);
    if (live && form) {
        if (form->done) buf_str(&j->scratch, "data: [DONE]\n\n");
    } else if (live) {
        if (j->failed) buf_str(&j->scratch, "\n\n");
        else if (j->req.include_usage && !j->req.native) chunk_usage(&j->scratch, j);
        if (!j->req.native) buf_str(&j->scratch, "data: [DONE]\n\n");
    } else {
        if (!j->failed) (form ? form->whole : j->req.native ? native_write : completion_write)(&j->scratch, j);
        stream_start(j->out, j->failed ? status : j->scratch.bad ? 500 : 200, "application/json", false);
    }
    stream_write(j->out, j->scratch.p, j->scratch.n);
    stream_end(j->out);
}

static void send_chunk(choice *c, size_t upto)
{
    job *j = c->owner;
    if (j->req.chat && !j->failed && !chat_take(j, c, upto)) fail_job(j, "out of memory");
    if (!j->req.streams || j->failed) return;
    bool tokens_wait = j->req.logprobs >= 0 && c->tokens_sent < c->tokens.n &&
                       c->tokens.p[c->tokens_sent].offset < upto;
    if (upto == c->sent && !tokens_wait && !c->finish) return;
    j->scratch.n = 0;
    if (j->req.reply) j->req.reply->events(&j->scratch, j, c);
    else if (j->req.chat) chat_chunk_write(&j->scratch, j, c, upto);
    else if (j->req.native) native_chunk_write(&j->scratch, j, c, upto);
    else chunk_write(&j->scratch, j, c, upto);
    if (j->scratch.bad) fail_job(j, "out of memory");
    else stream_write(j->out, j->scratch.p, j->scratch.n);
}

static void end_choice(choice *c, finish_reason why)
{
    job *j = c->owner;
    c->finish = why;
    metrics_finished(j->srv->counts, why);
    stream_note_end(j->out, metrics_finish_name(why));
    if (why == FINISH_CANCELLED && !j->failed && !stream_is_gone(j->out)) fail_job(j, "the server is shutting down");
    send_chunk(c, c->text.n);
    end_reply(j);
    stream_drop(j->out); /* the query's reference: the job may be gone after this */
}

/* Cuts the text at a stop string: tokens that begin after the cut were not shown and are not listed. */
static void cut_text(choice *c, size_t cut)
{
    c->text.n = cut;
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

/* Special tokens give no text, but marks of calls and reasoning have to be seen. */
static bool take_mark(const job *j, choice *c, int32_t id)
{
    const tokenizer *t = engine_target_tokenizer(j->srv->g);
    const span piece = t && tokenizer_is_special(t, id) ? tokenizer_piece(t, id) : (span){0};
    return !piece.n || !call_parser_wants(&j->req.chat->parse, piece) || buf_add(&c->text, piece.p, piece.n);
}

static bool take_token(choice *c, const token_event *ev)
{
    job *j = c->owner;
    double now = clock_now();
    c->n_generated++;
    stream_count(j->out, 0, 1);
    if (c->last_token > 0) metrics_observe(j->srv->counts, HISTOGRAM_INTER_TOKEN, now - c->last_token);
    if (!j->first_token_seen) metrics_observe(j->srv->counts, HISTOGRAM_FIRST_TOKEN, now - j->began);
    if (!j->first_token_seen) stream_note_first(j->out, now);
    j->first_token_seen = true;
    c->last_token = now;
    if (c->n_generated == 1) c->first_token = now;
    c->logprob_sum += (double)ev->logprob;
    if ((j->req.returns_ids || j->req.receipt) && !token_list_add(&c->made, ev->token)) return false;
    if (j->req.logprobs >= 0) {
        if (!add_record(c, &c->tokens, ev->token, ev->logprob, c->text.n)) return false;
        if (!add_top(c, &c->tokens.p[c->tokens.n - 1], ev)) return false;
    }
    if (c->text_maker && detok_next(c->text_maker, ev->token, &c->text, NULL)) return false;
    return !j->req.chat || take_mark(j, c, ev->token);
}

/* The token that closed the text. Where the prompt is shown it is listed: the score of an answer includes its end. */
static bool take_end(choice *c, const token_event *ev)
{
    const request *r = &c->owner->req;
    if (!c->n_generated) c->logprob_sum = (double)ev->logprob;
    if (r->echo && r->logprobs >= 0 &&
        (!add_record(c, &c->tokens, ev->end_token, ev->logprob, c->text.n) ||
         !add_top(c, &c->tokens.p[c->tokens.n - 1], ev)))
        return false;
    return !r->shows_stop || !c->text_maker || detok_next(c->text_maker, ev->end_token, &c->text, NULL) == OK;
}

/* Looks for stop strings in what is new since `seen`; true: the choice has ended with its text cut. */
static bool stops_here(choice *c, size_t seen)
{
    const request *r = &c->owner->req;
    size_t cut;
    if (!r->n_stop || c->n_generated < r->min_tokens) return false;
    if (!stop_find(r->stop, r->n_stop, (const char *)c->text.p, c->echo, seen, c->text.n, r->shows_stop, &cut))
        return false;
    for (int i = 0; i < r->n_stop && !c->stop_word; i++) {
        const size_t n = strlen(r->stop[i]), at = r->shows_stop ? cut - n : cut;
        if (n <= c->text.n && at <= c->text.n - n && !memcmp(c->text.p + at, r->stop[i], n)) c->stop_word = r->stop[i];
    }
    cut_text(c, cut);
    return true;
}

/* Streams how far the prompt has been read. */
static bool send_reading(choice *c, const token_event *ev)
{
    job *j = c->owner;
    j->scratch.n = 0;
    (j->req.native ? native_reading_write : chunk_reading)(&j->scratch, j, c, ev->prompt_read);
    if (j->scratch.bad) fail_job(j, "out of memory");
    else stream_write(j->out, j->scratch.p, j->scratch.n);
    return true;
}

/* Handles an event of one choice. False: the query ends. */
static bool on_event(void *ctx, const token_event *ev)
{
    choice *c = ctx;
    job *j = c->owner;
    bool good = true;
    size_t seen = c->text.n + 1;
    if (ev->index <= 0) c->cached = ev->cached_tokens;
    if (ev->index == 0) metrics_observe(j->srv->counts, HISTOGRAM_QUEUE, ev->queue_seconds);
    if (stream_is_gone(j->out) || j->failed) {
        end_choice(c, FINISH_CANCELLED);
        return false;
    }
    if (ev->prompt_read) return send_reading(c, ev);
    if (ev->token >= 0) good = ev->index < 0 ? take_prompt_token(c, ev) : take_token(c, ev);
    if (ev->ends) good = good && take_end(c, ev);
    c->end_token = ev->ends;
    if (ev->finish == FINISH_STOP || ev->finish == FINISH_LENGTH)
        good = good && (!c->text_maker || detok_finish(c->text_maker, &c->text, NULL) == OK);
    if (!good || c->text.bad || ev->finish == FINISH_ERROR) {
        fail_job(j, ev->finish == FINISH_ERROR && ev->error ? ev->error : "out of memory");
        end_choice(c, FINISH_ERROR);
        return false;
    }
    if (stops_here(c, seen)) {
        end_choice(c, FINISH_STOP);
        return false;
    }
    if (ev->finish) {
        end_choice(c, ev->finish);
        return false;
    }
    if (ev->index < 0) return true;
    const request *r = &j->req;
    size_t certain = c->text.n;
    if (r->n_stop && certain) certain = stop_certain(r->stop, r->n_stop, (const char *)c->text.p, c->echo, certain);
    if (certain < c->sent) certain = c->sent;
    send_chunk(c, certain);
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
        if ((all || i == ev->beam) && !first[i].finish) on_event(&first[i], ev);
        live |= !first[i].finish;
    }
    stream_drop(out);
    return live;
}

/* Whether a text of a beam search has a stop string. */
static bool is_whole_text(void *ctx, const int32_t *ids, int64_t n)
{
    const choice *c = ctx;
    const request *r = &c->owner->req;
    const tokenizer *t = engine_target_tokenizer(c->owner->srv->g);
    buf text = {0};
    size_t cut;
    if (!t || n < r->min_tokens) return false;
    const int flags = DETOKENIZE_SKIP_SPECIAL | DETOKENIZE_CONTINUE;
    const bool made = tokenizer_decode(t, ids, (size_t)n, flags, &text, NULL) == OK && !text.bad;
    const bool found = made && stop_find(r->stop, r->n_stop, (const char *)text.p, 0, 0, text.n, false, &cut);
    buf_free(&text);
    return found;
}

/* Feeds the prompt to the detokenizer, and makes its text and the records of its tokens. */
static int prepare_choice(job *j, choice *c, int index, const prompt *p, err *e)
{
    const tokenizer *t = engine_target_tokenizer(j->srv->g);
    const request *r = &j->req;
    bool keep = r->prompt_logprobs >= 0 || (r->echo && r->logprobs >= 0);
    int rc = OK;
    c->owner = j;
    c->index = index;
    c->from = p;
    if (t) rc = detok_open(&c->text_maker, t, DETOKENIZE_SKIP_SPECIAL, e);
    for (size_t i = 0; i < p->ids.n && !rc; i++) {
        if (keep && !add_record(c, &c->prompt_tokens, p->ids.id[i], NAN, r->echo ? c->text.n : 0))
            rc = err_set(e, ERR_MEMORY, "out of memory");
        if (t && !rc) rc = detok_next(c->text_maker, p->ids.id[i], &c->text, e);
    }
    if (rc) return rc;
    if (r->echo && p->text) { /* shown as it was written; the tokens' offsets stay inside it */
        size_t n = strlen(p->text);
        c->text.n = 0;
        buf_str(&c->text, p->text);
        for (size_t i = 0; i < c->prompt_tokens.n; i++)
            if (c->prompt_tokens.p[i].offset > n) c->prompt_tokens.p[i].offset = n;
    }
    if (!r->echo) { /* text_offset counts from the beginning of the prompt all the same */
        span shown = p->text ? span_str(p->text) : buf_span(&c->text);
        for (size_t i = 0; i < shown.n; i++) c->sent_chars += (shown.p[i] & 0xc0) != 0x80;
        c->text.n = 0;
    }
    c->echo = c->text.n;
    return c->text.bad ? err_set(e, ERR_MEMORY, "out of memory") : OK;
}

static int new_job(job **out, server *s, exchange *x, request *r, err *e)
{
    job *j = *out = mem_zero(1, sizeof *j);
    if (!j) {
        request_free(r);
        return err_set(e, ERR_MEMORY, "out of memory");
    }
    pthread_mutex_init(&j->lock, NULL);
    j->srv = s;
    j->req = *r;
    *r = (request){0};
    j->began = x->began;
    j->created = time(NULL);
    uint64_t random[2] = {0};
    if (getrandom(random, sizeof random, 0) < 0) random[0] = atomic_fetch_add(&s->serial, 1);
    const char *prefix = j->req.reply ? j->req.reply->prefix : j->req.chat ? "chatcmpl-" : "cmpl-";
    snprintf(j->id, sizeof j->id, "%s%016llx%08x", prefix, (unsigned long long)random[0], (unsigned)random[1]);
    int rc = stream_open(&j->out, &(stream_owner){j, resume_job, cancel_job, free_job}, e);
    if (rc) {
        free_job(j);
        *out = NULL;
        return rc;
    }
    size_t n = j->req.n_prompts * (size_t)j->req.drawn;
    j->choices = mem_zero(n, sizeof *j->choices);
    if (!j->choices) return err_set(e, ERR_MEMORY, "out of memory");
    j->n_choices = n;
    atomic_store(&j->pending, n + 1);
    for (size_t i = 0; i < n && !rc; i++)
        rc = prepare_choice(j, &j->choices[i], (int)i, &j->req.prompts[i / (size_t)j->req.drawn], e);
    return rc;
}

query completion_query(const choice *c)
{
    const request *r = &c->owner->req;
    int64_t k = r->logprobs > r->prompt_logprobs ? r->logprobs : r->prompt_logprobs;
    if (r->best_of > 1 && r->beams == 1 && k < 0) k = 0; /* the best are found by them */
    query q = {.ids = c->from->ids.id,
               .n_ids = c->from->ids.n,
               .enc_ids = c->from->enc.id,
               .n_enc = c->from->enc.n,
               .max_tokens = r->max_tokens,
               .min_tokens = r->min_tokens,
               .ignore_eos = r->ignore_eos,
               .stop_ids = r->stop_ids.id,
               .n_stop_ids = (int32_t)r->stop_ids.n,
               .allowed = r->allowed,
               .n_allowed = r->n_allowed,
               .bad = r->bad.id,
               .n_bad = (int32_t)r->bad.n,
               .sample = r->sample,
               .beams = (int32_t)r->beams,
               .n_best = r->beams > 1 ? (int32_t)r->n : 0,
               .is_whole = r->beams > 1 && r->n_stop ? is_whole_text : NULL,
               .length_penalty = r->length_penalty,
               .early_stopping = r->early_stopping,
               .bias = r->bias,
               .n_bias = r->n_bias,
               .constraint = r->form,
               .n_logprobs = (int32_t)k,
               .prompt_logprobs = c->prompt_tokens.n > 0,
               .tells_reading = r->tells_reading && r->streams && r->beams == 1,
               .salt = r->salt,
               .priority = r->priority,
               .owner = r->owner,
               .request = (uint64_t)(uintptr_t)c->owner,
               .on_token = r->beams > 1 ? on_beam_event : on_event,
               .ctx = (void *)c};
    q.sample.choice = c->index % r->drawn;
    return q;
}

/* One query; the engine may call back before this returns. */
static int add_choice(job *j, choice *c, err *e)
{
    const request *r = &j->req;
    if (r->beams > 1 && c->index % r->n) return OK; /* of the search of the prompt's first */
    query q = completion_query(c);
    if (r->beams == 1 && c->index % r->drawn) q.same_prompt_as = j->choices[c->index - c->index % r->drawn].query_id;
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
        for (size_t i = 0; i < j->req.n_prompts; i++)
            stream_count(j->out, (int64_t)(j->req.prompts[i].enc.n + j->req.prompts[i].ids.n), 0);
        end_reply(j); /* takes back the one that kept the reply open while queries were added */
        return;
    }
    if (e.code == ERR_LIMIT) reply_error(x, 400, "prompt", "context_length_exceeded", "%s", e.msg);
    else reply_err(x, NULL, &e);
    if (!j) return;
    stream_leave(j->out);
    stream_drop(j->out);
}
