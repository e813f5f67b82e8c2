/* chat_template.c - see chat_template.h. */
#define _GNU_SOURCE
#include "chat/chat_template.h"

#include "base/arena.h"
#include "base/mem.h"

#include <string.h>

enum { OWN_MAX = 8 };

struct chat_template {
    arena mem;
    jinja *t;
    span source; /* in mem */
    jinja_own own[OWN_MAX + 1];
    chat_caps caps;
    const call_format *calls;
    const reasoning_marks *reasoning;
};

span chat_template_source(const chat_template *c) { return c->source; }
const call_format *chat_template_calls(const chat_template *c) { return c->calls; }
const reasoning_marks *chat_template_reasoning(const chat_template *c) { return c->reasoning; }

void chat_template_close(chat_template *c)
{
    if (!c) return;
    jinja_close(c->t);
    arena_free(&c->mem);
    mem_free(c);
}

static void add_own(chat_template *c, const tokenizer *t)
{
    static const struct {
        const char *name;
        token_role role;
    } roles[] = {{"bos_token", TOKEN_BOS},  {"eos_token", TOKEN_EOS}, {"unk_token", TOKEN_UNK},
                 {"pad_token", TOKEN_PAD},  {"sep_token", TOKEN_SEP}, {"cls_token", TOKEN_CLS},
                 {"mask_token", TOKEN_MASK}};
    int n = 0;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) { /* the first two are there for all */
        const int32_t id = t ? tokenizer_role(t, roles[i].role) : -1;
        const span piece = id < 0 ? (span){0} : tokenizer_piece(t, id);
        const char *text = piece.n ? arena_strn(&c->mem, (const char *)piece.p, piece.n) : i < 2 ? "" : NULL;
        if (text) c->own[n++] = (jinja_own){roles[i].name, text};
    }
}

/* ---- what it can do ---- */

#define USER "{\"role\":\"user\",\"content\":\"PROBE_user\"}"
#define CALL(content, arguments)                                                                                       \
    "{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[{\"id\":\"callPROBE\",\"type\":\"function\","     \
    "\"function\":{\"name\":\"PROBE_call\",\"arguments\":" arguments "}}]}"
#define ANSWER "{\"role\":\"assistant\",\"content\":\"PROBE_answer\"}"
#define RESULT "{\"role\":\"tool\",\"name\":\"PROBE_call\",\"tool_call_id\":\"callPROBE\",\"content\":\"PROBE_result\"}"
#define TOOLS                                                                                                          \
    "[{\"type\":\"function\",\"function\":{\"name\":\"PROBE_call\",\"description\":\"d\",\"parameters\":{\"type\":"    \
    "\"object\",\"properties\":{\"PROBE_key\":{\"type\":\"string\",\"description\":\"d\"}},\"required\":[]}}}]"
#define OBJECT "{\"PROBE_key\":\"PROBE_value\"}"
#define TEXT   "\"{\\\"PROBE_key\\\": \\\"PROBE_value\\\"}\""

/* The text of a conversation that is given as JSON; empty: the template refuses it. */
static void probe(const chat_template *c, const char *messages, bool tools, buf *out)
{
    buf context = {0};
    jinja_output o = {0};
    buf_printf(&context, "{\"messages\":[%s],\"tools\":%s,\"documents\":null,\"add_generation_prompt\":true}", messages,
               tools                 ? TOOLS
               : c->caps.empty_tools ? "[]"
                                     : "null");
    out->n = 0;
    if (!jinja_render(c->t, &(jinja_input){buf_span(&context), c->own, 0}, &o, NULL))
        buf_add(out, o.text.p ? (const void *)o.text.p : "", o.text.n);
    jinja_output_free(&o);
    buf_free(&context);
}

static bool shows(const chat_template *c, const char *messages, bool tools, const char *what)
{
    buf out = {0};
    probe(c, messages, tools, &out);
    const bool there = strstr(buf_cstr(&out), what) != NULL;
    buf_free(&out);
    return there;
}

static bool template_mentions(const chat_template *c, const char *what)
{
    return memmem(c->source.p, c->source.n, what, strlen(what)) != NULL;
}

/* What a template does with a call and its result, between a question and `tail`. */
typedef struct call_shown {
    bool object, text, result, python; /* arguments as an object, as text; python: objects in Python's quotes */
} call_shown;

static bool shows_call(const buf *out)
{
    const char *s = buf_cstr((buf *)out);
    return strstr(s, "PROBE_call") && strstr(s, "PROBE_value"); /* the name alone is there with the tools, too */
}

static call_shown look_at_call(const chat_template *c, bool null_content, const char *tail)
{
    static const char *const by_object[] = {CALL("\"\"", OBJECT), CALL("null", OBJECT)}, *const by_text[] = {
                                                                                             CALL("\"\"", TEXT),
                                                                                             CALL("null", TEXT)};
    call_shown is = {0};
    buf messages = {0}, out = {0};
    buf_printf(&messages, USER ",%s," RESULT "%s", by_object[null_content], tail);
    probe(c, buf_cstr(&messages), true, &out);
    is.object = shows_call(&out);
    is.result = strstr(buf_cstr(&out), "PROBE_result") != NULL;
    is.python = strstr(buf_cstr(&out), "'PROBE_key'") != NULL;
    messages.n = 0;
    buf_printf(&messages, USER ",%s," RESULT "%s", by_text[null_content], tail);
    probe(c, buf_cstr(&messages), true, &out);
    is.text = strstr(buf_cstr(&out), "PROBE_value") != NULL;
    is.result |= strstr(buf_cstr(&out), "PROBE_result") != NULL;
    buf_free(&messages);
    buf_free(&out);
    return is;
}

/* Templates differ in what may follow a result: some count a question after it as two in a row, some want an answer
 * first; and some show a call only where there is no content beside it. */
static void find_calls(chat_template *c)
{
    static const char *const tails[] = {"," USER, "", "," ANSWER "," USER, "," ANSWER};
    enum { TAILS = sizeof tails / sizeof *tails };
    chat_caps *k = &c->caps;
    call_shown is = {0};
    for (int null_content = 0; null_content < 2 && !k->calls; null_content++)
        for (int i = 0; i < TAILS && !k->calls; i++) {
            is = look_at_call(c, null_content, tails[i]);
            k->calls = is.object || is.text;
            k->results |= is.result;
            k->only_null_content = k->calls && null_content;
        }
    k->object_arguments = is.object && !(is.python && is.text);
    if (!k->calls) return;
    buf out = {0};
    probe(c, k->object_arguments ? USER "," CALL("null", OBJECT) "," RESULT : USER "," CALL("null", TEXT) "," RESULT,
          true, &out);
    k->null_content = k->only_null_content ||
                      (strstr(buf_cstr(&out), "PROBE_value") && !strstr(buf_cstr(&out), "None"));
    buf_free(&out);
}

static void find_caps(chat_template *c)
{
    chat_caps *k = &c->caps;
    static const char parts[] = "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"PROBE_user\"}]}";
    k->empty_tools = !shows(c, USER, false, "PROBE_user");
    if (k->empty_tools) k->empty_tools = shows(c, USER, false, "PROBE_user");
    k->parts = !shows(c, USER, false, "PROBE_user") && shows(c, parts, false, "PROBE_user");
    const char *system = k->parts ? "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"PROBE_system\"}]},"
                                    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"PROBE_user\"}]}"
                                  : "{\"role\":\"system\",\"content\":\"PROBE_system\"}," USER;
    k->system = shows(c, system, false, "PROBE_system");
    k->developer = template_mentions(c, "developer") &&
                   shows(c, "{\"role\":\"developer\",\"content\":\"PROBE_system\"}," USER, false, "PROBE_system");
    k->tools = shows(c, USER, true, "PROBE_call");
    k->short_ids = template_mentions(c, "length 9") || template_mentions(c, "|length != 9") ||
                   template_mentions(c, "| length != 9");
    find_calls(c);
}

int chat_template_open(chat_template **out, span source, const char *format, const tokenizer *t, err *e)
{
    chat_template *c = *out = mem_zero(1, sizeof *c);
    if (!c) return err_memory(e, "the chat template");
    int rc = jinja_open(&c->t, source, e);
    c->source = span_str(arena_strn(&c->mem, (const char *)source.p, source.n));
    if (!rc) {
        add_own(c, t);
        find_caps(c);
        c->calls = format ? call_format_find(format) : c->caps.tools ? call_format_of_template(source) : NULL;
        if (!c->calls) c->calls = call_format_find("hermes");
        c->reasoning = reasoning_of_template(source);
        return OK;
    }
    chat_template_close(c);
    *out = NULL;
    return rc;
}

/* ---- rendering ---- */

static bool is_variable_of_ours(const char *name)
{
    static const char *const names[] = {"messages", "tools", "add_generation_prompt", NULL};
    for (const char *const *n = names; *n; n++)
        if (strcmp(*n, name) == 0) return true;
    return false;
}

static bool write_context(const chat_template *c, const chat_input *in, const json *messages, buf *out)
{
    json *root = json_new_object();
    json_add_copy(root, "messages", messages);
    if (json_count(in->tools) && c->caps.tools) json_add_copy(root, "tools", in->tools);
    else if (c->caps.empty_tools) json_add_array(root, "tools");
    else json_add_null(root, "tools");
    json_add_bool(root, "add_generation_prompt", in->add_generation_prompt && !in->continue_final);
    for (const json *m = json_first(in->kwargs); m; m = json_next(m))
        if (!is_variable_of_ours(json_key(m))) json_add_copy(root, json_key(m), m);
    if (!json_get(root, "documents")) json_add_null(root, "documents");
    if (in->reasoning_effort && !json_get(root, "reasoning_effort")) {
        json_add_str(root, "reasoning_effort", in->reasoning_effort);
        if (strcmp(in->reasoning_effort, "none") == 0 && !json_get(root, "enable_thinking"))
            json_add_bool(root, "enable_thinking", false);
    }
    const bool ok = json_print(out, root, false);
    json_free(root);
    return ok;
}

static int render_messages(const chat_template *c, const chat_input *in, const json *messages, jinja_output *out,
                           err *e)
{
    buf context = {0};
    json *right = chat_messages_put_right(messages, in->tools, &c->caps);
    const bool ok = right && write_context(c, in, json_get(right, "messages"), &context);
    int rc = ok ? jinja_render(c->t, &(jinja_input){buf_span(&context), c->own, in->now}, out, e)
                : err_memory(e, "the messages");
    json_free(right);
    buf_free(&context);
    return rc;
}

/* Cuts what the template wrote behind the text of the last message. */
static int cut_to_final(const json *messages, jinja_output *out, err *e)
{
    const json *last = json_first(messages);
    while (json_next(last)) last = json_next(last);
    const char *text = json_str(json_get(last, "content"), "");
    while (*text == ' ' || *text == '\n' || *text == '\t' || *text == '\r') text++;
    size_t whole = strlen(text), n = whole;
    while (n && strchr(" \n\t\r", text[n - 1])) n--;
    const uint8_t *found = NULL;
    for (size_t i = out->text.n + 1; n && i-- > n && !found;)
        if (memcmp(out->text.p + i - n, text, n) == 0) found = out->text.p + i - n;
    if (!found)
        return err_set(e, ERR_USAGE, "continue_final_message: the template does not show the text of the last message");
    const size_t at = (size_t)(found - out->text.p), left = out->text.n - at;
    if (left >= whole && memcmp(found, text, whole) == 0) n = whole;
    out->text.n = out->user.n = at + n;
    return OK;
}

static bool has_late_system(const json *messages)
{
    bool first = true;
    for (const json *m = json_first(messages); m; m = json_next(m), first = false) {
        const char *role = json_str(json_get(m, "role"), "");
        if (!first && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)) return true;
    }
    return false;
}

int chat_template_apply(const chat_template *c, const chat_input *in, jinja_output *out, err *e)
{
    err first = {0};
    const json *messages = in->messages;
    int rc = render_messages(c, in, messages, out, &first);
    if (rc == ERR_FORMAT && has_late_system(messages)) { /* some want it at the beginning */
        json *moved = chat_messages_system_first(messages);
        if (moved && !render_messages(c, in, json_get(moved, "messages"), out, NULL)) rc = OK;
        json_free(moved);
    }
    if (rc) return err_copy(e, &first);
    return in->continue_final ? cut_to_final(messages, out, e) : OK;
}

bool chat_template_thinks(const chat_template *c, span prompt)
{
    if (!c->reasoning) return false;
    while (prompt.n && strchr(" \n\t\r", prompt.p[prompt.n - 1])) prompt.n--;
    const size_t n = strlen(c->reasoning->open);
    return prompt.n >= n && memcmp(prompt.p + prompt.n - n, c->reasoning->open, n) == 0;
}
