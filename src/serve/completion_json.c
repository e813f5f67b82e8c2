/* completion_json.c - choices as JSON: the same writer for whole replies and for chunks, so that the chunks of a stream
 * add up to the reply. Text is written by hand into one buffer: a chunk costs about a microsecond and no allocation. */
#include "serve/completion_json.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/receipt.h"
#include "serve/api_fill_in.h"
#include "serve/reply_form.h"

#include <math.h>
#include <string.h>

/* A token as the client sees it: its text, or its bytes when they are no text by themselves. */
static void write_piece(buf *out, const job *j, int32_t id)
{
    const tokenizer *t = engine_target_tokenizer(j->srv->g);
    buf raw = {0}, shown = {0};
    if (!t) {
        buf_printf(out, "\"token_id:%d\"", id);
    } else if (!tokenizer_bytes(t, id, &raw)) {
        json_quote(out, tokenizer_piece(t, id));
    } else if (utf8_is_valid(buf_span(&raw))) {
        json_quote(out, buf_span(&raw));
    } else {
        buf_str(&shown, "bytes:");
        for (size_t i = 0; i < raw.n; i++) buf_printf(&shown, "\\x%02x", raw.p[i]);
        json_quote(out, buf_span(&shown));
    }
    if (raw.bad || shown.bad) out->bad = true;
    buf_free(&raw);
    buf_free(&shown);
}

void reply_logprob_write(buf *out, float v)
{
    if (isnan(v)) buf_str(out, "null");
    else buf_printf(out, "%.8g", v < -9999.0f ? -9999.0 : v > 0 ? 0.0 : (double)v); /* JSON has no infinity */
}

/* {"piece": logprob, …}: the k best and the token itself. Two ids may look alike: the better one keeps the name. */
static void write_top(buf *out, const job *j, const choice *c, const token_record *t, int64_t k)
{
    if (isnan(t->logprob)) {
        buf_str(out, "null");
        return;
    }
    size_t start[REQUEST_LOGPROBS_MAX + 1], length[REQUEST_LOGPROBS_MAX + 1];
    int32_t best = t->n_top < k ? t->n_top : (int32_t)k;
    int n = 0;
    bool has_own = false;
    buf_byte(out, '{');
    for (int32_t i = 0; i <= best; i++) {
        if (i == best && has_own) break;
        const top_logprob own = {t->id, t->logprob};
        const top_logprob *e = i < best ? &c->top[t->first_top + (size_t)i] : &own;
        has_own |= e->id == t->id;
        size_t before = out->n;
        if (n) buf_byte(out, ',');
        start[n] = out->n;
        write_piece(out, j, e->id);
        length[n] = out->n - start[n];
        bool twice = false;
        for (int q = 0; q < n && !out->bad; q++)
            twice |= length[q] == length[n] && memcmp(out->p + start[q], out->p + start[n], length[n]) == 0;
        if (twice) {
            out->n = before;
            continue;
        }
        buf_byte(out, ':');
        reply_logprob_write(out, e->logprob);
        n++;
    }
    buf_byte(out, '}');
}

typedef struct record_range {
    const token_record *p;
    size_t n;
} record_range;

static record_range rest_of(const record_list *l, size_t from)
{
    return from < l->n ? (record_range){l->p + from, l->n - from} : (record_range){NULL, 0};
}

/* [{"id", "token", "bytes", "logprob"}, …]: the k best, two that look alike too. bytes: null where it is no text. */
static void write_rivals(buf *out, const job *j, const choice *c, const token_record *t)
{
    const tokenizer *text = engine_target_tokenizer(j->srv->g);
    const int32_t k = t->n_top < j->req.logprobs ? t->n_top : (int32_t)j->req.logprobs;
    buf_byte(out, '[');
    for (int32_t i = 0; i < k; i++) {
        const top_logprob *e = &c->top[t->first_top + (size_t)i];
        buf raw = {0};
        const bool is_text = text && tokenizer_bytes(text, e->id, &raw);
        buf_printf(out, "%s{\"id\":%d,\"token\":", i ? "," : "", e->id);
        write_piece(out, j, e->id);
        buf_str(out, is_text ? ",\"bytes\":[" : ",\"bytes\":null");
        for (size_t n = 0; n < raw.n && is_text; n++) buf_printf(out, "%s%d", n ? "," : "", raw.p[n]);
        buf_str(out, is_text ? "],\"logprob\":" : ",\"logprob\":");
        reply_logprob_write(out, e->logprob);
        buf_byte(out, '}');
        out->bad |= raw.bad;
        buf_free(&raw);
    }
    buf_byte(out, ']');
}

/* The four parallel arrays over the tokens of both ranges; with ids, the rivals of each besides. */
static void write_logprobs(buf *out, const job *j, const choice *c, const record_range part[2])
{
    static const char *const key[] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                      "],\"text_offset\":[", "],\"top_tokens\":["};
    const int columns = j->req.returns_ids && j->req.logprobs > 0 ? 5 : 4;
    for (int column = 0; column < columns; column++) {
        buf_str(out, key[column]);
        size_t at = c->sent, chars = c->sent_chars;
        bool comma = false;
        for (int r = 0; r < 2; r++)
            for (size_t i = 0; i < part[r].n; i++) {
                const token_record *t = &part[r].p[i];
                if (comma) buf_byte(out, ',');
                comma = true;
                if (column == 0) write_piece(out, j, t->id);
                else if (column == 1) reply_logprob_write(out, t->logprob);
                else if (column == 2) write_top(out, j, c, t, j->req.logprobs);
                else if (column == 4) write_rivals(out, j, c, t);
                else {
                    for (; at < t->offset && at < c->answer.text.n; at++)
                        chars += (c->answer.text.p[at] & 0xc0) != 0x80;
                    buf_printf(out, "%zu", chars);
                }
            }
    }
    buf_str(out, "]}");
}

/* [null, {"id": {"logprob", "rank", "decoded_token"}}, …]: the prompt under the model. */
static void write_prompt_logprobs(buf *out, const job *j, const choice *c)
{
    buf_byte(out, '[');
    for (size_t i = 0; i < c->prompt_tokens.n; i++) {
        const token_record *t = &c->prompt_tokens.p[i];
        if (i) buf_byte(out, ',');
        if (isnan(t->logprob)) {
            buf_str(out, "null");
            continue;
        }
        int32_t best = t->n_top < j->req.prompt_logprobs ? t->n_top : (int32_t)j->req.prompt_logprobs;
        bool has_own = false;
        buf_byte(out, '{');
        for (int32_t k = 0; k <= best; k++) {
            if (k == best && has_own) break;
            const top_logprob own = {t->id, t->logprob};
            const top_logprob *e = k < best ? &c->top[t->first_top + (size_t)k] : &own;
            has_own |= e->id == t->id;
            buf_printf(out, "%s\"%d\":{\"logprob\":", k ? "," : "", e->id);
            reply_logprob_write(out, e->logprob);
            if (k < best) buf_printf(out, ",\"rank\":%d", k + 1);
            buf_str(out, ",\"decoded_token\":");
            write_piece(out, j, e->id);
            buf_byte(out, '}');
        }
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
}

void reply_head_write(buf *out, const job *j)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", j->id,
               j->req.reply->object[j->req.streams], (long long)j->created);
    json_quote(out, span_str(server_model_name(j->srv)));
    buf_printf(out, ",\"system_fingerprint\":\"%s-%s\",\"choices\":[", j->srv->here.model, j->srv->here.arithmetic);
}

static void write_ids(buf *out, const char *name, const int32_t *id, size_t n)
{
    buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) buf_printf(out, "%s%d", i ? "," : "", id[i]);
    buf_byte(out, ']');
}

/* The ids since the last part; before the first, those of the prompt, once for all of its choices. */
static void write_new_ids(buf *out, const job *j, choice *c, int index)
{
    if (!c->begun && index % j->req.n == 0) write_ids(out, "prompt_token_ids", c->from->ids.id, c->from->ids.n);
    write_ids(out, "token_ids", c->answer.ids.id + c->made_sent, c->answer.ids.n - c->made_sent);
    c->made_sent = c->answer.ids.n;
}

static void write_receipt(buf *out, const job *j, const choice *c)
{
    const query q = completion_query(c);
    json *to = json_new_object();
    receipt_write(to, j->srv->g, &j->srv->here, &q, c->answer.ids.id, c->answer.ids.n,
                  c->answer.finish == FINISH_LENGTH ? RECEIPT_LENGTH
                  : c->answer.end_token             ? RECEIPT_END_TOKEN
                                                    : RECEIPT_STOP_TEXT);
    buf_str(out, ",\"receipt\":");
    if (!json_print(out, to, false)) out->bad = true;
    json_free(to);
}

void reply_extras_write(buf *out, const job *j, choice *c, int index, bool whole)
{
    if (whole && j->req.prompt_logprobs >= 0) {
        buf_str(out, ",\"prompt_logprobs\":");
        write_prompt_logprobs(out, j, c);
    }
    if (j->req.returns_ids) write_new_ids(out, j, c, index);
    if (j->req.receipt && whole) write_receipt(out, j, c);
    c->begun = true;
}

/* index: in the reply. */
static void write_choice(buf *out, const job *j, choice *c, int index, size_t upto, bool whole)
{
    buf_printf(out, "{\"index\":%d,\"text\":", index);
    json_quote(out, upto > c->sent ? span_of(c->answer.text.p + c->sent, upto - c->sent) : span_str(""));
    buf_str(out, ",\"logprobs\":");
    if (j->req.logprobs < 0) {
        buf_str(out, "null");
    } else {
        record_range part[2] = {rest_of(&c->prompt_tokens, j->req.echo ? c->prompt_tokens_sent : c->prompt_tokens.n),
                                rest_of(&c->tokens, c->tokens_sent)};
        while (part[1].n && !c->answer.finish && part[1].p[part[1].n - 1].offset >= upto) part[1].n--;
        write_logprobs(out, j, c, part);
        c->prompt_tokens_sent += part[0].n;
        c->tokens_sent += part[1].n;
    }
    for (; c->sent < upto; c->sent++) c->sent_chars += (c->answer.text.p[c->sent] & 0xc0) != 0x80;
    buf_printf(out, ",\"finish_reason\":%s",
               c->answer.finish == FINISH_STOP     ? "\"stop\""
               : c->answer.finish == FINISH_LENGTH ? "\"length\""
                                                   : "null");
    reply_extras_write(out, j, c, index, whole);
    buf_byte(out, '}');
}

static void write_whole_choice(buf *out, const job *j, choice *c, int index)
{
    write_choice(out, j, c, index, c->answer.text.n, true);
}

void reply_usage_write(buf *out, const job *j)
{
    int64_t given = 0, generated = 0, cached = 0;
    for (size_t i = 0; i < j->n_choices; i++) {
        generated += j->choices[i].answer.n_tokens;
        if (i % (size_t)j->req.made.drawn) continue; /* the choices of a prompt share it */
        given += (int64_t)(j->choices[i].from->enc.n + j->choices[i].from->ids.n);
        cached += j->choices[i].answer.cached;
    }
    buf_printf(out,
               "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%lld}",
               (long long)given, (long long)generated, (long long)(given + generated), (long long)cached);
}

static void write_usage(buf *out, const job *j)
{
    reply_usage_write(out, j);
    buf_byte(out, '}');
}

static void write_events(buf *out, job *j, choice *c, size_t upto)
{
    buf_str(out, "data: ");
    reply_head_write(out, j);
    write_choice(out, j, c, c->index, upto, c->answer.finish != FINISH_NONE);
    buf_str(out, j->req.made.include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

/* ---- what other forms have too ---- */

void reply_usage_event_write(buf *out, const job *j)
{
    buf_str(out, "data: ");
    reply_head_write(out, j);
    buf_str(out, "],");
    j->req.reply->usage(out, j);
    buf_str(out, "}\n\n");
}

void reply_error_event_write(buf *out, int status, const char *code, const char *message)
{
    buf_str(out, "data: ");
    error_text(out, status, NULL, code, message);
    buf_str(out, "\n\n");
}

void reply_progress_write(buf *out, const job *j, const choice *c, int64_t read)
{
    buf_printf(out, "\"prompt_progress\":{\"total\":%zu,\"cache\":%lld,\"processed\":%lld,\"time_ms\":%.3f}",
               c->from->ids.n, (long long)c->answer.cached, (long long)read, (clock_now() - j->began) * 1e3);
}

void reply_reading_write(buf *out, const job *j, const choice *c, int64_t read)
{
    buf_str(out, "data: ");
    reply_head_write(out, j);
    buf_str(out, "],");
    reply_progress_write(out, j, c, read);
    buf_str(out, "}\n\n");
}

static double mean_logprob(const choice *c)
{
    return c->logprob_sum / (double)(c->answer.n_tokens ? c->answer.n_tokens : 1);
}

void reply_whole_write(buf *out, job *j, void (*write)(buf *out, const job *j, choice *c, int index))
{
    const int n = (int)j->req.n, drawn = (int)j->req.made.drawn;
    const bool sorts = j->req.best_of > 1 && j->req.beams == 1; /* then those of highest mean come back, best first */
    reply_head_write(out, j);
    for (int index = 0; index < (int)j->req.made.n_prompts * n; index++) {
        choice *all = &j->choices[index / n * drawn], *best = &all[index % n];
        for (int k = 0; k < drawn && sorts; k++)
            if (!all[k].begun && (best->begun || mean_logprob(&all[k]) > mean_logprob(best))) best = &all[k];
        if (index) buf_byte(out, ',');
        write(out, j, best, index);
    }
    buf_str(out, "],");
    j->req.reply->usage(out, j);
    buf_byte(out, '}');
}

static void write_whole(buf *out, job *j) { reply_whole_write(out, j, write_whole_choice); }

static bool read_prompts(server *s, exchange *x, request *r)
{
    return fill_in_asked(r) ? fill_in_read(s, x, r) : request_read_prompts(s, x, r);
}

const reply_form completion_form = {.prefix = "cmpl-",
                                    .object = {"text_completion", "text_completion"},
                                    .max_tokens = 16,
                                    .read_prompts = read_prompts,
                                    .done = true,
                                    .events = write_events,
                                    .reading = reply_reading_write,
                                    .whole = write_whole,
                                    .usage = write_usage,
                                    .error = reply_error_event_write};
