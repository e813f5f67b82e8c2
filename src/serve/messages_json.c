/* messages_json.c - see messages_json.h. A message is a list of blocks: reasoning, text, calls. Streams open, fill and
 * close them one after the other. */
#include "serve/messages_json.h"

#include "serve/chat_json.h"
#include "serve/chat_request.h"

#include <string.h>

typedef enum { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_CALL } block_kind;

bool messages_error_write(buf *out, int status, const char *at, const char *code, const char *message)
{
    const char *type = status == 401   ? "authentication_error"
                       : status == 403 ? "permission_error"
                       : status == 404 ? "not_found_error"
                       : status == 413 ? "request_too_large"
                       : status == 429 ? "rate_limit_error"
                       : status == 503 ? "overloaded_error"
                       : status >= 500 ? "api_error"
                                       : "invalid_request_error";
    buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
    json_quote(out, span_str(message));
    buf_str(out, ",\"param\":");
    json_quote_or_null(out, at);
    buf_str(out, ",\"code\":");
    json_quote_or_null(out, code);
    return buf_str(out, "}}");
}

static void write_error(buf *out, int status, const char *code, const char *message)
{
    (void)code;
    buf_str(out, "event: error\ndata: ");
    messages_error_write(out, status, NULL, NULL, message);
    buf_str(out, "\n\n");
}

static const char *stop_reason(const choice *c)
{
    if (c->answer.finish == FINISH_LENGTH) return "\"max_tokens\"";
    if (c->chat.message.n_calls) return "\"tool_use\"";
    return c->answer.stop_word ? "\"stop_sequence\"" : "\"end_turn\"";
}

static void write_stop(buf *out, const choice *c)
{
    buf_printf(out, "\"stop_reason\":%s,\"stop_sequence\":", stop_reason(c));
    json_quote_or_null(out, c->chat.message.n_calls ? NULL : c->answer.stop_word);
}

static void write_input_usage(buf *out, const choice *c)
{
    buf_printf(out, "\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%lld,",
               (long long)((int64_t)c->from->ids.n - c->answer.cached), (long long)c->answer.cached);
}

static void write_call(buf *out, const tool_call *t, bool with_input)
{
    buf_printf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", t->id);
    json_quote(out, buf_span(&t->name));
    buf_str(out, ",\"input\":");
    if (with_input && t->whole) buf_add(out, t->arguments.p, t->arguments.n);
    else buf_str(out, "{}");
    buf_byte(out, '}');
}

static void write_text_block(buf *out, const char *type, const char *member, const buf *text, bool *comma)
{
    buf_printf(out, "%s{\"type\":\"%s\",\"%s\":", *comma ? "," : "", type, member);
    json_quote(out, buf_span(text));
    buf_str(out, strcmp(type, "thinking") == 0 ? ",\"signature\":\"\"}" : "}");
    *comma = true;
}

static void write_head(buf *out, const job *j)
{
    buf_printf(out, "\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", j->id);
    json_quote(out, span_str(server_model_name(j->srv)));
}

static void write_whole(buf *out, job *j)
{
    choice *c = &j->choices[0];
    const chat_message *m = &c->chat.message;
    bool comma = false;
    buf_byte(out, '{');
    write_head(out, j);
    buf_str(out, ",\"content\":[");
    if (m->reasoning.n) write_text_block(out, "thinking", "thinking", &m->reasoning, &comma);
    if (m->content.n || (!m->n_calls && !m->reasoning.n)) write_text_block(out, "text", "text", &m->content, &comma);
    for (size_t i = 0; i < m->n_calls; i++) {
        if (comma) buf_byte(out, ',');
        write_call(out, &m->calls[i], true);
        comma = true;
    }
    buf_str(out, "],");
    write_stop(out, c);
    buf_str(out, ",\"usage\":{");
    write_input_usage(out, c);
    buf_printf(out, "\"output_tokens\":%lld}}", (long long)c->answer.n_tokens);
}

/* ---- streams ---- */

static void begin_event(buf *out, const char *type)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void close_block(buf *out, chat_part *p)
{
    if (p->block == BLOCK_NONE) return;
    begin_event(out, "content_block_stop");
    buf_printf(out, ",\"index\":%d}\n\n", p->n_blocks - 1);
    p->block = BLOCK_NONE;
}

/* Opens a block, unless one of its kind is open; call: its call, for BLOCK_CALL. */
static void open_block(buf *out, chat_part *p, block_kind kind, const tool_call *call)
{
    if ((int)kind == p->block && kind != BLOCK_CALL) return;
    close_block(out, p);
    begin_event(out, "content_block_start");
    buf_printf(out, ",\"index\":%d,\"content_block\":", p->n_blocks);
    if (kind == BLOCK_CALL) write_call(out, call, false);
    else
        buf_str(out, kind == BLOCK_TEXT ? "{\"type\":\"text\",\"text\":\"\"}"
                                        : "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    buf_str(out, "}\n\n");
    p->block = (int)kind;
    p->n_blocks++;
}

static void write_delta(buf *out, const chat_part *p, const char *type, const char *member, span text)
{
    begin_event(out, "content_block_delta");
    buf_printf(out, ",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":", p->n_blocks - 1, type, member);
    json_quote(out, text);
    buf_str(out, "}}\n\n");
}

/* What is new of the arguments of the call that was begun last. */
static void write_arguments(buf *out, chat_part *p)
{
    const span more = chat_arguments_take(p);
    if (more.n) write_delta(out, p, "input_json_delta", "partial_json", more);
}

static void write_events(buf *out, job *j, choice *c, size_t upto)
{
    (void)upto; /* the message is as far */
    chat_part *p = &c->chat;
    const chat_message *m = &p->message;
    if (!c->begun) {
        begin_event(out, "message_start");
        buf_str(out, ",\"message\":{");
        write_head(out, j);
        buf_str(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{");
        write_input_usage(out, c);
        buf_str(out, "\"output_tokens\":0}}}\n\n");
        c->begun = true;
    }
    write_arguments(out, p);
    if (m->reasoning.n > p->reasoning_sent) {
        open_block(out, p, BLOCK_THINKING, NULL);
        write_delta(out, p, "thinking_delta", "thinking",
                    span_of(m->reasoning.p + p->reasoning_sent, m->reasoning.n - p->reasoning_sent));
        p->reasoning_sent = m->reasoning.n;
    }
    if (m->content.n > p->content_sent) {
        open_block(out, p, BLOCK_TEXT, NULL);
        write_delta(out, p, "text_delta", "text",
                    span_of(m->content.p + p->content_sent, m->content.n - p->content_sent));
        p->content_sent = m->content.n;
    }
    for (; p->calls_sent < m->n_calls; write_arguments(out, p)) {
        open_block(out, p, BLOCK_CALL, &m->calls[p->calls_sent++]);
        p->arguments_sent = 0;
    }
    if (!c->answer.finish) return;
    close_block(out, p);
    begin_event(out, "message_delta");
    buf_str(out, ",\"delta\":{");
    write_stop(out, c);
    buf_printf(out, "},\"usage\":{\"output_tokens\":%lld}}\n\n", (long long)c->answer.n_tokens);
    begin_event(out, "message_stop");
    buf_str(out, "}\n\n");
}

const reply_form messages_form = {.prefix = "msg_",
                                  .adapt = chat_request_adapt,
                                  .read_prompts = chat_prompt_read,
                                  .take = chat_take,
                                  .events = write_events,
                                  .whole = write_whole,
                                  .error = write_error};
