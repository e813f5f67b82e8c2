/* native_json.c - choices in the form of llama.cpp's own endpoints. Members and their names:
 * examples/server/README.md of llama.cpp. */
#include "base/clock.h"
#include "serve/api_fill_in.h"
#include "serve/completion_json.h"
#include "serve/reply_form.h"

#include <string.h>

/* "id", "token", "bytes", "logprob" of one token. */
static void write_token(buf *out, const job *j, int32_t id, float logprob)
{
    const tokenizer *t = engine_target_tokenizer(j->srv->g);
    buf raw = {0};
    if (t && !tokenizer_bytes(t, id, &raw)) {
        const span piece = tokenizer_piece(t, id);
        raw.n = 0;
        buf_add(&raw, piece.p, piece.n);
    }
    buf_printf(out, "\"id\":%d,\"token\":", id);
    json_quote(out, buf_span(&raw));
    buf_str(out, ",\"bytes\":[");
    for (size_t i = 0; i < raw.n; i++) buf_printf(out, "%s%d", i ? "," : "", raw.p[i]);
    buf_str(out, "],\"logprob\":");
    reply_logprob_write(out, logprob);
    out->bad |= raw.bad;
    buf_free(&raw);
}

/* Tokens from first on that begin before byte `upto`, with their rivals; returns how many. */
static size_t write_probabilities(buf *out, const job *j, const choice *c, size_t first, size_t upto)
{
    size_t i = first;
    buf_str(out, ",\"completion_probabilities\":[");
    for (; i < c->tokens.n; i++) {
        const token_record *t = &c->tokens.p[i];
        if (!c->answer.finish && t->offset >= upto) break;
        buf_str(out, i > first ? ",{" : "{");
        write_token(out, j, t->id, t->logprob);
        buf_str(out, ",\"top_logprobs\":[");
        for (int32_t k = 0; k < t->n_top && k < j->req.logprobs; k++) {
            const top_logprob *e = &c->top[t->first_top + (size_t)k];
            buf_str(out, k ? ",{" : "{");
            write_token(out, j, e->id, e->logprob);
            buf_byte(out, '}');
        }
        buf_str(out, "]}");
    }
    buf_byte(out, ']');
    return i - first;
}

static void write_ids(buf *out, const int32_t *id, size_t n)
{
    buf_str(out, ",\"tokens\":[");
    for (size_t i = 0; i < n; i++) buf_printf(out, "%s%d", i ? "," : "", id[i]);
    buf_byte(out, ']');
}

/* What holds for the request: the sampling parameters and its bounds. */
static void write_settings(buf *out, const job *j)
{
    const request *r = &j->req;
    json *o = json_new_object();
    param_json(sample_param_rows, sample_param_count, &r->sample, o);
    json_add_int(o, "n_predict", r->max_tokens < INT32_MAX ? r->max_tokens : -1);
    json_add_int(o, "n_probs", r->logprobs > 0 ? r->logprobs : 0);
    json_add_int(o, "min_tokens", r->min_tokens);
    json_add_bool(o, "ignore_eos", r->ignore_eos);
    json_add_bool(o, "stream", r->streams);
    json *stop = json_add_array(o, "stop");
    for (int i = 0; i < r->made.n_stop; i++) json_add_str(stop, NULL, r->made.stop[i]);
    if (!json_print(out, o, false)) out->bad = true;
    json_free(o);
}

static void write_timings(buf *out, const job *j, const choice *c)
{
    const double now = clock_now(), first = c->answer.first > 0 ? c->answer.first : now;
    const double read = first - j->began, made = c->answer.last - first;
    const int64_t n = (int64_t)c->from->ids.n, more = c->answer.n_tokens > 1 ? c->answer.n_tokens - 1 : 0;
    buf_printf(out,
               ",\"timings\":{\"cache_n\":%lld,\"prompt_n\":%lld,\"prompt_ms\":%.3f,\"prompt_per_second\":%.3f,"
               "\"predicted_n\":%lld,\"predicted_ms\":%.3f,\"predicted_per_second\":%.3f}",
               (long long)c->answer.cached, (long long)(n - c->answer.cached), read * 1e3,
               read > 0 ? (double)(n - c->answer.cached) / read : 0.0, (long long)c->answer.n_tokens, made * 1e3,
               made > 0 ? (double)more / made : 0.0);
}

static const char *stop_type(const choice *c)
{
    return c->answer.finish == FINISH_LENGTH ? "limit"
           : c->answer.finish != FINISH_STOP ? "none"
           : c->answer.end_token             ? "eos"
                                             : "word";
}

/* The members of a finished choice behind its text. */
static void write_end(buf *out, const job *j, const choice *c, int index)
{
    buf_printf(out, ",\"index\":%d,\"stop\":true,\"stop_type\":\"%s\",\"stopping_word\":", index, stop_type(c));
    json_quote(out, span_str(c->answer.stop_word ? c->answer.stop_word : ""));
    buf_printf(out, ",\"tokens_predicted\":%lld,\"tokens_evaluated\":%zu,\"tokens_cached\":%lld,\"truncated\":false,",
               (long long)c->answer.n_tokens, c->from->ids.n, (long long)c->answer.cached);
    buf_str(out, "\"model\":");
    json_quote(out, span_str(server_model_name(j->srv)));
    buf_str(out, ",\"prompt\":");
    json_quote(out, span_str(c->from->text ? c->from->text : ""));
    write_timings(out, j, c);
    buf_str(out, ",\"generation_settings\":");
    write_settings(out, j);
    buf_byte(out, '}');
}

/* The last event has everything. */
static void write_events(buf *out, job *j, choice *c, size_t upto)
{
    buf_str(out, "data: {\"content\":");
    json_quote(out, upto > c->sent ? span_of(c->answer.text.p + c->sent, upto - c->sent) : span_str(""));
    write_ids(out, c->answer.ids.id + c->made_sent, c->answer.ids.n - c->made_sent);
    c->made_sent = c->answer.ids.n;
    if (j->req.logprobs > 0) c->tokens_sent += write_probabilities(out, j, c, c->tokens_sent, upto);
    if (upto > c->sent) c->sent = upto;
    if (c->answer.finish) write_end(out, j, c, c->index);
    else
        buf_printf(out, ",\"index\":%d,\"stop\":false,\"tokens_predicted\":%lld,\"tokens_evaluated\":%zu}", c->index,
                   (long long)c->answer.n_tokens, c->from->ids.n);
    buf_str(out, "\n\n");
}

static void write_reading(buf *out, const job *j, const choice *c, int64_t read)
{
    buf_printf(out,
               "data: {\"content\":\"\",\"tokens\":[],\"index\":%d,\"stop\":false,\"tokens_predicted\":0,"
               "\"tokens_evaluated\":%zu,",
               c->index, c->from->ids.n);
    reply_progress_write(out, j, c, read);
    buf_str(out, "}\n\n");
}

/* An object, or an array of them where there are several choices. */
static void write_whole(buf *out, job *j)
{
    const bool many = j->n_choices > 1;
    if (many) buf_byte(out, '[');
    for (size_t i = 0; i < j->n_choices; i++) {
        const choice *c = &j->choices[i];
        buf_str(out, i ? ",{\"content\":" : "{\"content\":");
        json_quote(out, buf_span(&c->answer.text));
        write_ids(out, c->answer.ids.id, c->answer.ids.n);
        if (j->req.logprobs > 0) write_probabilities(out, j, c, 0, c->answer.text.n);
        write_end(out, j, c, (int)i);
    }
    if (many) buf_byte(out, ']');
}

static bool adapt(exchange *x, request *r)
{
    (void)x;
    if (r->logprobs == 0) r->logprobs = -1; /* n_probs */
    return true;
}

#define NATIVE_FORM                                                                                                    \
    .prefix = "cmpl-", .returns_ids = true, .may_be_empty = true, .adapt = adapt, .events = write_events,              \
    .reading = write_reading, .whole = write_whole, .error = reply_error_event_write
const reply_form native_form = {NATIVE_FORM, .read_prompts = request_read_prompts};
const reply_form fill_in_form = {NATIVE_FORM, .read_prompts = fill_in_read};
