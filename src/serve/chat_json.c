/* chat_json.c - see chat_json.h. */
#include "serve/chat_json.h"

#include "base/mem.h"
#include "serve/chat_request.h"
#include "serve/completion_json.h"
#include "serve/reply_form.h"

#include <math.h>
#include <string.h>

bool chat_take(job *j, choice *c, size_t upto)
{
    chat_part *p = &c->chat;
    if (!p->parser && call_parser_open(&p->parser, &j->req.made.parse, NULL)) return false;
    if (upto < p->taken) upto = p->taken;
    const span more = span_of(c->answer.text.p + p->taken, upto - p->taken);
    const size_t before = p->message.reasoning.n;
    p->taken = upto;
    if (call_parser_feed(p->parser, more, c->answer.finish != FINISH_NONE, &p->message, NULL)) return false;
    if (p->message.reasoning.n > before) p->reasoning_tokens = c->answer.n_tokens;
    return true;
}

/* Whether calls, or arguments of the last one, are not in earlier chunks. */
static bool calls_wait(const chat_part *p)
{
    const chat_message *m = &p->message;
    return m->n_calls > p->calls_sent || (p->calls_sent && m->calls[p->calls_sent - 1].arguments.n > p->arguments_sent);
}

span chat_arguments_take(chat_part *p)
{
    if (!p->calls_sent) return (span){0};
    const buf *all = &p->message.calls[p->calls_sent - 1].arguments;
    const span more = span_of(all->p + p->arguments_sent, all->n - p->arguments_sent);
    p->arguments_sent = all->n;
    return more;
}

static const char *finish_word(const choice *c)
{
    if (c->answer.finish == FINISH_NONE) return "null";
    if (c->answer.finish == FINISH_LENGTH) return "\"length\"";
    return c->chat.message.n_calls ? "\"tool_calls\"" : "\"stop\"";
}

/* {"token", "logprob", "bytes": what a token is. */
static void write_token(buf *out, const job *j, int32_t id, float logprob)
{
    const tokenizer *t = engine_target_tokenizer(j->srv->g);
    buf raw = {0};
    if (!tokenizer_bytes(t, id, &raw)) {
        const span piece = tokenizer_piece(t, id);
        raw.n = 0;
        buf_add(&raw, piece.p, piece.n);
    }
    buf_str(out, "{\"token\":");
    json_quote(out, buf_span(&raw));
    buf_str(out, ",\"logprob\":");
    reply_logprob_write(out, logprob);
    buf_str(out, ",\"bytes\":[");
    for (size_t i = 0; i < raw.n; i++) buf_printf(out, "%s%d", i ? "," : "", raw.p[i]);
    buf_byte(out, ']');
    if (raw.bad) out->bad = true;
    buf_free(&raw);
}

static void write_logprobs(buf *out, const job *j, choice *c, size_t upto)
{
    if (j->req.logprobs < 0) {
        buf_str(out, "null");
        return;
    }
    buf_str(out, "{\"content\":[");
    for (bool first = true; c->tokens_sent < c->tokens.n; c->tokens_sent++, first = false) {
        const token_record *t = &c->tokens.p[c->tokens_sent];
        if (!c->answer.finish && t->offset >= upto) break;
        if (!first) buf_byte(out, ',');
        write_token(out, j, t->id, t->logprob);
        buf_str(out, ",\"top_logprobs\":[");
        for (int32_t k = 0; k < t->n_top && k < j->req.chat.top_logprobs; k++) {
            const top_logprob *best = &c->top[t->first_top + (size_t)k];
            if (k) buf_byte(out, ',');
            write_token(out, j, best->id, best->logprob);
            buf_byte(out, '}');
        }
        buf_str(out, "]}");
    }
    buf_str(out, "],\"refusal\":null}");
}

static void write_call(buf *out, const tool_call *t, int index)
{
    buf_byte(out, '{');
    if (index >= 0) buf_printf(out, "\"index\":%d,", index);
    buf_printf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", t->id);
    json_quote(out, buf_span(&t->name));
    buf_str(out, ",\"arguments\":");
    json_quote(out, buf_span(&t->arguments));
    buf_str(out, "}}");
}

static void write_choice(buf *out, const job *j, choice *c, int index)
{
    const chat_message *m = &c->chat.message;
    buf_printf(out, "{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", index);
    if (m->n_calls && !m->content.n) buf_str(out, "null");
    else json_quote(out, buf_span(&m->content));
    if (m->reasoning.n) {
        buf_str(out, ",\"reasoning_content\":");
        json_quote(out, buf_span(&m->reasoning));
    }
    for (size_t i = 0; i < m->n_calls; i++) {
        buf_str(out, i ? "," : ",\"tool_calls\":[");
        write_call(out, &m->calls[i], -1);
    }
    if (m->n_calls) buf_byte(out, ']');
    buf_str(out, ",\"refusal\":null},\"logprobs\":");
    write_logprobs(out, j, c, c->answer.text.n);
    buf_printf(out, ",\"finish_reason\":%s", finish_word(c));
    reply_extras_write(out, j, c, index, true);
    buf_byte(out, '}');
}

/* Members of a delta. */
static void write_delta(buf *out, choice *c)
{
    chat_part *p = &c->chat;
    const chat_message *m = &p->message;
    bool comma = false;
    if (!c->begun) {
        buf_str(out, "\"role\":\"assistant\",\"content\":");
        json_quote(out, span_of(m->content.p, m->content.n));
        p->content_sent = m->content.n;
        comma = true;
    } else if (m->content.n > p->content_sent) {
        buf_str(out, "\"content\":");
        json_quote(out, span_of(m->content.p + p->content_sent, m->content.n - p->content_sent));
        p->content_sent = m->content.n;
        comma = true;
    }
    if (m->reasoning.n > p->reasoning_sent) {
        buf_str(out, comma ? ",\"reasoning_content\":" : "\"reasoning_content\":");
        json_quote(out, span_of(m->reasoning.p + p->reasoning_sent, m->reasoning.n - p->reasoning_sent));
        p->reasoning_sent = m->reasoning.n;
        comma = true;
    }
    if (!calls_wait(p)) return;
    buf_str(out, comma ? ",\"tool_calls\":[" : "\"tool_calls\":[");
    const span more = chat_arguments_take(p);
    if (more.n) {
        buf_printf(out, "{\"index\":%zu,\"function\":{\"arguments\":", p->calls_sent - 1);
        json_quote(out, more);
        buf_str(out, "}}");
    }
    for (bool first = !more.n; p->calls_sent < m->n_calls; p->calls_sent++, first = false) {
        if (!first) buf_byte(out, ',');
        write_call(out, &m->calls[p->calls_sent], (int)p->calls_sent);
        p->arguments_sent = m->calls[p->calls_sent].arguments.n;
    }
    buf_byte(out, ']');
}

static void write_chunk(buf *out, job *j, choice *c, size_t upto, bool last)
{
    buf_str(out, "data: ");
    reply_head_write(out, j);
    buf_printf(out, "{\"index\":%d,\"delta\":{", c->index);
    if (!last) write_delta(out, c);
    buf_str(out, "},\"logprobs\":");
    if (last) buf_str(out, "null");
    else write_logprobs(out, j, c, upto);
    buf_printf(out, ",\"finish_reason\":%s", last ? finish_word(c) : "null");
    reply_extras_write(out, j, c, c->index, last);
    buf_str(out, j->req.made.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void write_events(buf *out, job *j, choice *c, size_t upto)
{
    const chat_part *p = &c->chat;
    const bool tokens = j->req.logprobs >= 0 && c->tokens_sent < c->tokens.n &&
                        (c->answer.finish || c->tokens.p[c->tokens_sent].offset < upto);
    if (!c->begun || p->message.content.n > p->content_sent || p->message.reasoning.n > p->reasoning_sent ||
        calls_wait(p) || tokens)
        write_chunk(out, j, c, upto, false);
    if (c->answer.finish) write_chunk(out, j, c, upto, true);
    c->sent = upto;
}

static void write_whole(buf *out, job *j) { reply_whole_write(out, j, write_choice); }

static void write_usage(buf *out, const job *j)
{
    int64_t reasoning = 0;
    for (size_t i = 0; i < j->n_choices; i++) reasoning += j->choices[i].chat.reasoning_tokens;
    reply_usage_write(out, j);
    buf_printf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%lld}}", (long long)reasoning);
}

const reply_form chat_form = {.prefix = "chatcmpl-",
                              .object = {"chat.completion", "chat.completion.chunk"},
                              .adapt = chat_request_adapt,
                              .read_prompts = chat_prompt_read,
                              .done = true,
                              .take = chat_take,
                              .events = write_events,
                              .reading = reply_reading_write,
                              .whole = write_whole,
                              .usage = write_usage,
                              .error = reply_error_event_write};
