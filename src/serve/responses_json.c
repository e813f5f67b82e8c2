/* responses_json.c - replies of POST /v1/responses: a response is a list of items, which are reasoning, a message, or
 * calls. Streams open, fill and close them one after the other, by typed events with numbers. */
#include "serve/chat_json.h"
#include "serve/chat_request.h"
#include "serve/reply_form.h"

#include <string.h>

typedef enum { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL } item_kind;

/* What is written of an item; cut: the text ended within it by its length. */
typedef enum { PART_ADDED, PART_DONE, PART_CUT } part_state;

static void write_error(buf *out, int status, const char *code, const char *message)
{
    (void)status, (void)code;
    buf_str(out, "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"param\":null,\"message\":");
    json_quote(out, span_str(message));
    buf_str(out, "}\n\n");
}

static void write_text_part(buf *out, const char *type, span text)
{
    buf_printf(out, "{\"type\":\"%s\",\"text\":", type);
    json_quote(out, text);
    buf_str(out, strcmp(type, "output_text") == 0 ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

/* The item at `index` of the output. */
static void write_item(buf *out, const job *j, item_kind kind, int index, const tool_call *call, part_state state)
{
    const chat_message *m = &j->choices[0].chat.message;
    static const char *const words[] = {"in_progress", "completed", "incomplete"};
    const char *status = words[state];
    if (kind == ITEM_REASONING) {
        buf_printf(out, "{\"id\":\"rs_%s_%d\",\"type\":\"reasoning\",\"summary\":[],\"content\":[", j->id + 5, index);
        if (state != PART_ADDED) write_text_part(out, "reasoning_text", buf_span(&m->reasoning));
        buf_printf(out, "],\"status\":\"%s\"}", status);
    } else if (kind == ITEM_MESSAGE) {
        buf_printf(out,
                   "{\"id\":\"msg_%s_%d\",\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                   j->id + 5, index, status);
        if (state != PART_ADDED) write_text_part(out, "output_text", buf_span(&m->content));
        buf_str(out, "]}");
    } else {
        buf_printf(out,
                   "{\"id\":\"fc_%s_%d\",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":\"%s\",\"name\":",
                   j->id + 5, index, status, call->id);
        json_quote(out, buf_span(&call->name));
        buf_str(out, ",\"arguments\":");
        json_quote(out, state != PART_ADDED ? buf_span(&call->arguments) : span_str(""));
        buf_byte(out, '}');
    }
}

static bool is_cut(const choice *c) { return c->answer.finish == FINISH_LENGTH; }

static void write_output(buf *out, const job *j)
{
    const choice *c = &j->choices[0];
    const chat_message *m = &c->chat.message;
    const bool message = m->content.n || (!m->n_calls && !m->reasoning.n);
    const int total = (m->reasoning.n > 0) + message + (int)m->n_calls;
    for (int i = 0, call = 0; i < total; i++) {
        const item_kind kind = i == 0 && m->reasoning.n               ? ITEM_REASONING
                               : message && i == (m->reasoning.n > 0) ? ITEM_MESSAGE
                                                                      : ITEM_CALL;
        if (i) buf_byte(out, ',');
        write_item(out, j, kind, i, kind == ITEM_CALL ? &m->calls[call++] : NULL,
                   i + 1 == total && is_cut(c) ? PART_CUT : PART_DONE);
    }
}

static void write_usage(buf *out, const choice *c)
{
    const long long given = (long long)c->from->ids.n, made = (long long)c->answer.n_tokens;
    buf_printf(out,
               "{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld},\"output_tokens\":%lld,"
               "\"output_tokens_details\":{\"reasoning_tokens\":%lld},\"total_tokens\":%lld}",
               given, (long long)c->answer.cached, made, (long long)c->chat.reasoning_tokens, given + made);
}

static void write_member(buf *out, const char *name, const json *v, const char *otherwise)
{
    buf_printf(out, ",\"%s\":", name);
    if (v) json_print(out, v, false);
    else buf_str(out, otherwise);
}

/* The response; ended: with its output. */
static void write_response(buf *out, const job *j, bool ended)
{
    const choice *c = &j->choices[0];
    const json *asked = j->req.original;
    const bool cut = ended && is_cut(c);
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":null,",
               j->id, (long long)j->created,
               !ended ? "in_progress"
               : cut  ? "incomplete"
                      : "completed");
    buf_printf(out, "\"incomplete_details\":%s,\"model\":", cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    json_quote(out, span_str(server_model_name(j->srv)));
    buf_str(out, ",\"output\":[");
    if (ended) write_output(out, j);
    buf_str(out, "]");
    write_member(out, "instructions", json_get(asked, "instructions"), "null");
    write_member(out, "max_output_tokens", json_get(asked, "max_output_tokens"), "null");
    write_member(out, "tools", json_get(asked, "tools"), "[]");
    write_member(out, "tool_choice", json_get(asked, "tool_choice"), "\"auto\"");
    write_member(out, "text", json_get(asked, "text"), "{\"format\":{\"type\":\"text\"}}");
    write_member(out, "reasoning", json_get(asked, "reasoning"), "{\"effort\":null,\"summary\":null}");
    write_member(out, "metadata", json_get(asked, "metadata"), "{}");
    buf_printf(out,
               ",\"temperature\":%.6g,\"top_p\":%.6g,\"parallel_tool_calls\":%s,\"previous_response_id\":null,"
               "\"store\":false,\"truncation\":\"disabled\",\"usage\":",
               j->req.sample.temperature, j->req.sample.top_p, j->req.chat.parallel_calls ? "true" : "false");
    if (ended) write_usage(out, c);
    else buf_str(out, "null");
    buf_byte(out, '}');
}

static void write_whole(buf *out, job *j) { write_response(out, j, true); }

/* ---- streams ---- */

static void begin_part(buf *out, chat_part *p, const char *type)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d", type, type, p->n_events++);
}

static void end(buf *out) { buf_str(out, "}\n\n"); }

/* "item_id", "output_index", "content_index" of the open item. */
static void write_place(buf *out, const job *j, const chat_part *p)
{
    static const char *const prefix[] = {"", "rs", "msg", "fc"};
    buf_printf(out, ",\"item_id\":\"%s_%s_%d\",\"output_index\":%d", prefix[p->block], j->id + 5, p->n_blocks - 1,
               p->n_blocks - 1);
    if (p->block != ITEM_CALL) buf_str(out, ",\"content_index\":0");
}

static void write_text_event(buf *out, const job *j, chat_part *p, const char *type, const char *member, span text)
{
    begin_part(out, p, type);
    write_place(out, j, p);
    buf_printf(out, ",\"%s\":", member);
    json_quote(out, text);
    if (p->block == ITEM_MESSAGE) buf_str(out, ",\"logprobs\":[]");
    end(out);
}

static void write_part_event(buf *out, const job *j, chat_part *p, const char *type, span text)
{
    begin_part(out, p, type);
    write_place(out, j, p);
    buf_str(out, ",\"part\":");
    write_text_part(out, p->block == ITEM_MESSAGE ? "output_text" : "reasoning_text", text);
    end(out);
}

static void write_item_event(buf *out, const job *j, chat_part *p, part_state state, const tool_call *call)
{
    begin_part(out, p, state == PART_ADDED ? "response.output_item.added" : "response.output_item.done");
    buf_printf(out, ",\"output_index\":%d,\"item\":", p->n_blocks - 1);
    write_item(out, j, (item_kind)p->block, p->n_blocks - 1, call, state);
    end(out);
}

static void close_item(buf *out, const job *j, chat_part *p, part_state state)
{
    const chat_message *m = &p->message;
    const bool message = p->block == ITEM_MESSAGE;
    const tool_call *call = p->block == ITEM_CALL ? &m->calls[p->calls_sent - 1] : NULL;
    if (p->block == ITEM_NONE) return;
    if (call) {
        write_text_event(out, j, p, "response.function_call_arguments.done", "arguments", buf_span(&call->arguments));
    } else {
        const span text = buf_span(message ? &m->content : &m->reasoning);
        write_text_event(out, j, p, message ? "response.output_text.done" : "response.reasoning_text.done", "text",
                         text);
        write_part_event(out, j, p, "response.content_part.done", text);
    }
    write_item_event(out, j, p, state, call);
    p->block = ITEM_NONE;
}

/* Opens an item, unless one of its kind is open; call: its call, for ITEM_CALL. */
static void open_item(buf *out, const job *j, chat_part *p, item_kind kind, const tool_call *call)
{
    if (p->block == (int)kind && kind != ITEM_CALL) return;
    close_item(out, j, p, PART_DONE);
    p->block = (int)kind;
    p->n_blocks++;
    write_item_event(out, j, p, PART_ADDED, call);
    if (!call) write_part_event(out, j, p, "response.content_part.added", span_str(""));
}

static void write_state(buf *out, const job *j, chat_part *p, const char *type, bool ended)
{
    begin_part(out, p, type);
    buf_str(out, ",\"response\":");
    write_response(out, j, ended);
    end(out);
}

/* What is new of the arguments of the call that was begun last. */
static void write_arguments(buf *out, const job *j, chat_part *p)
{
    const span more = chat_arguments_take(p);
    if (more.n) write_text_event(out, j, p, "response.function_call_arguments.delta", "delta", more);
}

static void write_events(buf *out, job *j, choice *c, size_t upto)
{
    (void)upto; /* the message is as far */
    chat_part *p = &c->chat;
    const chat_message *m = &p->message;
    if (!c->begun) {
        write_state(out, j, p, "response.created", false);
        write_state(out, j, p, "response.in_progress", false);
        c->begun = true;
    }
    write_arguments(out, j, p);
    if (m->reasoning.n > p->reasoning_sent) {
        open_item(out, j, p, ITEM_REASONING, NULL);
        write_text_event(out, j, p, "response.reasoning_text.delta", "delta",
                         span_of(m->reasoning.p + p->reasoning_sent, m->reasoning.n - p->reasoning_sent));
        p->reasoning_sent = m->reasoning.n;
    }
    if (m->content.n > p->content_sent) {
        open_item(out, j, p, ITEM_MESSAGE, NULL);
        write_text_event(out, j, p, "response.output_text.delta", "delta",
                         span_of(m->content.p + p->content_sent, m->content.n - p->content_sent));
        p->content_sent = m->content.n;
    }
    for (; p->calls_sent < m->n_calls; write_arguments(out, j, p)) {
        open_item(out, j, p, ITEM_CALL, &m->calls[p->calls_sent]);
        p->calls_sent++;
        p->arguments_sent = 0;
    }
    if (!c->answer.finish) return;
    close_item(out, j, p, is_cut(c) ? PART_CUT : PART_DONE);
    write_state(out, j, p, is_cut(c) ? "response.incomplete" : "response.completed", true);
}

const reply_form responses_form = {.prefix = "resp_",
                                   .adapt = chat_request_adapt,
                                   .read_prompts = chat_prompt_read,
                                   .done = true,
                                   .take = chat_take,
                                   .events = write_events,
                                   .whole = write_whole,
                                   .error = write_error};
