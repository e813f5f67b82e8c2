/* chat_request.c - see chat_request.h. Everything a client can get wrong in a conversation is found here. */
#include "serve/chat_request.h"

#include "base/mem.h"
#include "sample/call_form.h"
#include "sample/form_source.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGES_MAX = 1 << 16, TOOLS_MAX = 1024, NAME_BYTES = 64 };

#define TEMPLATE_FIELDS                                                                                                \
    REQUEST_FIELD("messages", FIELD_NODE, chat.messages), REQUEST_FIELD("tools", FIELD_NODE, chat.tools),              \
        REQUEST_FIELD("tool_choice", FIELD_NODE, chat.tool_choice),                                                    \
        REQUEST_FIELD("chat_template_kwargs", FIELD_NODE, chat.template_kwargs),                                       \
        REQUEST_FIELD("reasoning_effort", FIELD_TEXT, chat.reasoning_effort),                                          \
        REQUEST_FIELD("add_generation_prompt", FIELD_BOOL, chat.generation_prompt),                                    \
        REQUEST_FIELD("continue_final_message", FIELD_BOOL, chat.continues_final)

const field chat_fields[] = {
    REQUEST_FIELDS,
    TEMPLATE_FIELDS,
    {.name = "max_completion_tokens",
     .alias = "max_tokens",
     .type = FIELD_INT,
     .offset = offsetof(request, max_tokens),
     .min = -1,
     .max = 1 << 30,
     .never_zero = true},
    REQUEST_FIELD("logprobs", FIELD_BOOL, chat.logprobs),
    REQUEST_NUMBER("top_logprobs", FIELD_INT, chat.top_logprobs, 0, REQUEST_LOGPROBS_MAX),
    REQUEST_FIELD("parallel_tool_calls", FIELD_BOOL, chat.parallel_calls),
    {.name = "add_special_tokens", .type = FIELD_ONLY, .only = "false"}, /* the template writes them */
    {.name = "parse_special", .type = FIELD_ONLY, .only = "false"},
    {.name = "echo", .type = FIELD_ONLY, .only = "false"},
    {NULL},
};
const field chat_template_fields[] = {REQUEST_FIELD("model", FIELD_TEXT, asked.model), TEMPLATE_FIELDS, {NULL}};

static bool refuse_chat(exchange *x, const char *at, const char *code, const char *why)
{
    reply_error(x, 400, at, code, "%s: %s", at, why);
    return false;
}

bool chat_request_adapt(exchange *x, request *r)
{
    if (json_type(json_get(r->body, "top_logprobs")) != JSON_NULL && !r->chat.logprobs)
        return refuse_chat(x, "top_logprobs", "invalid_value", "it needs \"logprobs\": true");
    if (r->chat.logprobs) r->logprobs = r->chat.top_logprobs;
    return true;
}

/* ---- messages ---- */

typedef struct message_fields {
    const char *role, *name, *tool_call_id, *reasoning_content;
    const json *content, *tool_calls, *refusal;
} message_fields;

#define AT(member) .offset = offsetof(message_fields, member)
static const field message_rows[] = {
    {.name = "role", .type = FIELD_TEXT, AT(role)},
    {.name = "content", .type = FIELD_NODE, AT(content)},
    {.name = "name", .type = FIELD_TEXT, AT(name)},
    {.name = "tool_calls", .type = FIELD_NODE, AT(tool_calls)},
    {.name = "tool_call_id", .type = FIELD_TEXT, AT(tool_call_id)},
    {.name = "reasoning_content", .alias = "reasoning", .type = FIELD_TEXT, AT(reasoning_content)},
    {.name = "refusal", .type = FIELD_NODE, AT(refusal)},
    {NULL},
};

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0) return true;
    return false;
}

static bool check_part(server *s, exchange *x, const json *part)
{
    struct {
        const char *type, *text, *refusal;
    } p = {0};
    const field rows[] = {{.name = "type", .type = FIELD_TEXT, .offset = 0},
                          {.name = "text", .type = FIELD_TEXT, .offset = sizeof(char *)},
                          {.name = "refusal", .type = FIELD_TEXT, .offset = 2 * sizeof(char *)},
                          {NULL}};
    static const char *const known[] = {"text", "refusal", "input_text", "output_text", NULL};
    if (json_type(part) != JSON_OBJECT) return field_wrong_type(x, "content", "a string or an array of parts", part);
    const char *type = json_str(json_get(part, "type"), NULL);
    if (type && !is_one_of(type, known)) {
        reply_error(x, 400, "messages", "unsupported", "content: parts of type \"%.60s\" are not possible, only text",
                    type);
        return false;
    }
    if (!fields_read(x, rows, s->o->lenient, part, &p)) return false;
    if (!p.type) return refuse_chat(x, "messages", "missing_field", "a part of content lacks its type");
    if (!p.text && !p.refusal) return refuse_chat(x, "messages", "missing_field", "a part of content lacks its text");
    return true;
}

static bool check_content(server *s, exchange *x, const message_fields *m)
{
    switch (json_type(m->content)) {
    case JSON_STRING: return true;
    case JSON_ARRAY:
        for (const json *p = json_first(m->content); p; p = json_next(p))
            if (!check_part(s, x, p)) return false;
        return true;
    case JSON_NULL:
        if (strcmp(m->role, "assistant") == 0 && (json_count(m->tool_calls) || m->refusal || m->reasoning_content))
            return true;
        return refuse_chat(x, "messages", "missing_field", "a message lacks its content");
    default: return field_wrong_type(x, "content", "a string or an array of parts", m->content);
    }
}

static bool check_call(server *s, exchange *x, const json *call)
{
    struct {
        const char *id, *type;
        const json *function;
    } c = {0};
    struct {
        const char *name;
        const json *arguments;
    } f = {0};
    const field rows[] = {{.name = "id", .type = FIELD_TEXT, .offset = 0},
                          {.name = "type", .type = FIELD_TEXT, .offset = sizeof(char *)},
                          {.name = "function", .type = FIELD_NODE, .offset = 2 * sizeof(char *)},
                          {.name = "index", .type = FIELD_IGNORE},
                          {NULL}};
    const field inner[] = {{.name = "name", .type = FIELD_TEXT, .offset = 0},
                           {.name = "arguments", .type = FIELD_NODE, .offset = sizeof(char *)},
                           {NULL}};
    if (json_type(call) != JSON_OBJECT) return field_wrong_type(x, "tool_calls", "an array of objects", call);
    if (!fields_read(x, rows, s->o->lenient, call, &c)) return false;
    if (json_type(c.function) != JSON_OBJECT)
        return refuse_chat(x, "messages", "missing_field", "a tool call lacks its function");
    if (!fields_read(x, inner, s->o->lenient, c.function, &f)) return false;
    if (!f.name) return refuse_chat(x, "messages", "missing_field", "a tool call lacks its function's name");
    const json_kind kind = json_type(f.arguments);
    return kind == JSON_NULL || kind == JSON_STRING || kind == JSON_OBJECT ||
           field_wrong_type(x, "arguments", "JSON in a string", f.arguments);
}

static bool check_message(server *s, exchange *x, const json *v)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", NULL};
    message_fields m = {0};
    if (json_type(v) != JSON_OBJECT) return field_wrong_type(x, "messages", "an array of objects", v);
    if (!fields_read(x, message_rows, s->o->lenient, v, &m)) return false;
    if (!m.role) return refuse_chat(x, "messages", "missing_field", "a message lacks its role");
    if (!is_one_of(m.role, roles)) {
        reply_error(x, 400, "messages", "invalid_value",
                    "role: \"%.60s\" is none of system, developer, user, assistant, tool", m.role);
        return false;
    }
    if (m.tool_calls && json_type(m.tool_calls) != JSON_ARRAY)
        return field_wrong_type(x, "tool_calls", "an array", m.tool_calls);
    if (m.tool_calls && strcmp(m.role, "assistant") != 0)
        return refuse_chat(x, "messages", "invalid_value", "only an assistant's message has tool_calls");
    for (const json *c = json_first(m.tool_calls); c; c = json_next(c))
        if (!check_call(s, x, c)) return false;
    return check_content(s, x, &m);
}

static bool check_messages(server *s, exchange *x, const request *r)
{
    const json *v = r->chat.messages;
    if (!v) {
        reply_error(x, 400, "messages", "missing_field", "messages is missing");
        return false;
    }
    if (json_type(v) != JSON_ARRAY) return field_wrong_type(x, "messages", "an array", v);
    if (!json_count(v)) return refuse_chat(x, "messages", "invalid_value", "messages is empty");
    if (json_count(v) > MESSAGES_MAX) {
        reply_error(x, 400, "messages", "invalid_value", "messages: at most %d", MESSAGES_MAX);
        return false;
    }
    for (const json *m = json_first(v); m; m = json_next(m))
        if (!check_message(s, x, m)) return false;
    return true;
}

/* ---- tools ---- */

static bool is_name(const char *name)
{
    const size_t n = strlen(name);
    return n && n <= NAME_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == n;
}

static bool check_tool(server *s, exchange *x, const json *tool)
{
    struct {
        const char *type;
        const json *function;
    } t = {0};
    struct {
        const char *name;
        const json *parameters;
    } f = {0};
    const field rows[] = {{.name = "type", .type = FIELD_TEXT, .offset = 0},
                          {.name = "function", .type = FIELD_NODE, .offset = sizeof(char *)},
                          {NULL}};
    const field inner[] = {{.name = "name", .type = FIELD_TEXT, .offset = 0},
                           {.name = "parameters", .type = FIELD_NODE, .offset = sizeof(char *)},
                           {.name = "description", .type = FIELD_IGNORE},
                           {.name = "strict", .type = FIELD_IGNORE},
                           {NULL}};
    if (json_type(tool) != JSON_OBJECT) return field_wrong_type(x, "tools", "an array of objects", tool);
    if (!fields_read(x, rows, s->o->lenient, tool, &t)) return false;
    if (t.type && strcmp(t.type, "function") != 0) {
        reply_error(x, 400, "tools", "unsupported", "tools: type \"%.60s\"; only function is possible", t.type);
        return false;
    }
    if (json_type(t.function) != JSON_OBJECT)
        return refuse_chat(x, "tools", "missing_field", "a tool lacks its function");
    if (!fields_read(x, inner, s->o->lenient, t.function, &f)) return false;
    if (!f.name) return refuse_chat(x, "tools", "missing_field", "a function lacks its name");
    if (!is_name(f.name))
        return refuse_chat(x, "tools", "invalid_value", "the name of a function has 1 to 64 letters, digits, _ and -");
    if (f.parameters && json_type(f.parameters) != JSON_OBJECT)
        return field_wrong_type(x, "parameters", "an object", f.parameters);
    return true;
}

static const json *find_tool(const json *tools, const char *name)
{
    for (const json *t = json_first(tools); t; t = json_next(t))
        if (strcmp(json_str(json_path(t, "function.name"), ""), name) == 0) return t;
    return NULL;
}

static bool check_tools(server *s, exchange *x, const request *r)
{
    const json *v = r->chat.tools;
    if (!v) return true;
    if (json_type(v) != JSON_ARRAY) return field_wrong_type(x, "tools", "an array", v);
    if (json_count(v) > TOOLS_MAX) return refuse_chat(x, "tools", "invalid_value", "too many");
    for (const json *t = json_first(v); t; t = json_next(t))
        if (!check_tool(s, x, t)) return false;
    return true;
}

typedef enum { TOOLS_NONE, TOOLS_AUTO, TOOLS_REQUIRED, TOOLS_NAMED, TOOLS_WRONG } tool_use;

/* What tool_choice says; the name of TOOLS_NAMED in *name. TOOLS_WRONG: the reply is in x. */
static tool_use read_tool_choice(exchange *x, const request *r, const char **name)
{
    const json *v = r->chat.tool_choice;
    const bool any = json_count(r->chat.tools) > 0;
    const char *word = json_str(v, NULL);
    if (!v) return any ? TOOLS_AUTO : TOOLS_NONE;
    if (json_type(v) == JSON_OBJECT) {
        const char *type = json_str(json_get(v, "type"), "");
        *name = json_str(json_path(v, "function.name"), NULL);
        if (strcmp(type, "function") != 0 || !*name) {
            refuse_chat(x, "tool_choice", "invalid_value",
                        "expected {\"type\": \"function\", \"function\": {\"name\": …}}");
            return TOOLS_WRONG;
        }
        if (find_tool(r->chat.tools, *name)) return TOOLS_NAMED;
        reply_error(x, 400, "tool_choice", "invalid_value", "tool_choice: \"%.64s\" is not among the tools", *name);
        return TOOLS_WRONG;
    }
    if (!word) {
        field_wrong_type(x, "tool_choice", "a string or an object", v);
        return TOOLS_WRONG;
    }
    if (strcmp(word, "none") == 0) return TOOLS_NONE;
    if (strcmp(word, "auto") == 0) return any ? TOOLS_AUTO : TOOLS_NONE;
    if (strcmp(word, "required") == 0 && any) return TOOLS_REQUIRED;
    if (strcmp(word, "required") == 0)
        refuse_chat(x, "tool_choice", "invalid_value", "required, but there are no tools");
    else
        reply_error(x, 400, "tool_choice", "invalid_value",
                    "tool_choice: \"%.60s\" is none of none, auto, required and an object", word);
    return TOOLS_WRONG;
}

/* ---- calls that are bound to be right ---- */

/* A literal of call_writing with the tool's name. NULL: out of memory. */
static char *with_name(const char *pattern, const char *name)
{
    buf b = {0};
    for (const char *p = pattern; *p; p++) {
        if (*p == '@') buf_str(&b, name);
        else buf_byte(&b, (uint8_t)*p);
    }
    char *text = mem_str(buf_cstr(&b));
    buf_free(&b);
    return text;
}

/* As other forms: the same tools are compiled once, and receipts name them. */
static void compile_calls(server *s, request *r, const call_forms *all, err *e)
{
    const token_trie *t = engine_token_trie(s->g, e);
    buf source = {0};
    if (t && !call_form_print(&source, all)) err_memory(e, NULL);
    r->made.form = e->code ? NULL : form_cache_find(&s->forms, FORM_CALLS, buf_span(&source));
    if (!e->code && !r->made.form && form_compile(&r->made.form, FORM_CALLS, buf_span(&source), t, e) == OK)
        form_cache_add(&s->forms, r->made.form);
    buf_free(&source);
}

/* The first of the calls that is refused by itself, as `all` were; all.n: none is. */
static size_t refused_call(server *s, const call_forms *all)
{
    size_t i = 0;
    for (; i < all->n; i++) {
        request alone = {0};
        call_forms one = *all;
        err e = {0};
        one.form += i;
        one.n = 1;
        compile_calls(s, &alone, &one, &e);
        grammar_drop(alone.made.form);
        if (e.code == ERR_FORMAT) break;
    }
    return i;
}

/* Makes the form of the text from the declared tools, or one of them: what it must be (required), or what it must be
 * once it begins a call. */
static bool bind_calls(server *s, exchange *x, request *r, const call_format *f, tool_use use, const char *named)
{
    const call_writing *w = &f->writing;
    const size_t n = json_count(r->chat.tools);
    err e = {0};
    call_form *form = mem_zero(n, sizeof *form);
    call_forms all = {.form = form,
                      .open = w->open ? w->open : "",
                      .between = w->between ? w->between : "",
                      .close = w->close ? w->close : "",
                      .several = r->chat.parallel_calls && use != TOOLS_NAMED,
                      .trigger = use == TOOLS_AUTO || r->made.parse.thinking ? w->trigger : NULL,
                      .required = use != TOOLS_AUTO,
                      .key = w->key,
                      .value = w->value,
                      .end = w->end,
                      .special = f->special};
    if (!form) err_memory(&e, NULL);
    for (const json *tool = json_first(r->chat.tools); tool && form; tool = json_next(tool)) {
        const char *name = json_str(json_path(tool, "function.name"), "");
        if (named && strcmp(name, named) != 0) continue;
        char *before = with_name(w->before, name);
        if (!before) err_memory(&e, NULL);
        form[all.n++] = (call_form){before, w->after ? w->after : "", json_path(tool, "function.parameters")};
    }
    if (!e.code) compile_calls(s, r, &all, &e);
    const size_t refused = e.code == ERR_FORMAT ? refused_call(s, &all) : all.n;
    const json *culprit = named ? find_tool(r->chat.tools, named) : json_at(r->chat.tools, refused);
    for (size_t i = 0; i < all.n; i++) mem_free((char *)form[i].before);
    mem_free(form);
    r->made.parse.bound = !e.code;
    r->made.parse.required = all.required;
    if (!e.code) return true;
    if (e.code == ERR_MEMORY) reply_err(x, NULL, &e);
    else if (refused == all.n) reply_error(x, 400, "tools", "invalid_value", "tools: %s", e.msg);
    else
        reply_error(x, 400, "tools", "invalid_value", "tools: \"%.64s\": %s",
                    json_str(json_path(culprit, "function.name"), ""), e.msg);
    return false;
}

/* How calls of this text are read, and how they are bound. */
static bool read_calls(server *s, exchange *x, request *r, tool_use use, const char *named)
{
    const call_format *f = chat_template_calls(s->chat);
    const bool bound = use == TOOLS_REQUIRED || use == TOOLS_NAMED;
    r->made.parse.format = use == TOOLS_NONE && f->body != CALL_CHANNELS ? NULL : f; /* channels are in every text */
    if (use == TOOLS_NONE) return true;
    if (r->made.form && !bound) return true; /* the text has another form already */
    if (r->made.form)
        return refuse_chat(x, "tool_choice", "invalid_value", "a call that is required has a form of its own");
    if (r->beams > 1) return refuse_chat(x, "tools", "unsupported", "not with beams");
    return bind_calls(s, x, r, f, use, named);
}

/* ---- the prompt ---- */

static bool check_template(server *s, exchange *x, const request *r)
{
    if (!engine_tokenizer(s->g)) {
        reply_error(x, 400, NULL, "no_tokenizer", "this model has no tokenizer");
        return false;
    }
    if (!s->chat) {
        reply_error(x, 400, NULL, "unsupported", "%s", s->chat_why.msg);
        return false;
    }
    if (r->chat.template_kwargs && json_type(r->chat.template_kwargs) != JSON_OBJECT)
        return field_wrong_type(x, "chat_template_kwargs", "an object", r->chat.template_kwargs);
    if (r->chat.continues_final && json_bool(json_get(r->body, "add_generation_prompt"), false))
        return refuse_chat(x, "continue_final_message", "invalid_value", "not together with add_generation_prompt");
    return true;
}

static bool apply_template(server *s, exchange *x, const request *r, bool with_tools, jinja_output *text,
                           token_list *ids)
{
    const chat_input in = {.messages = r->chat.messages,
                           .tools = with_tools ? r->chat.tools : NULL,
                           .kwargs = r->chat.template_kwargs,
                           .reasoning_effort = r->chat.reasoning_effort,
                           .add_generation_prompt = r->chat.generation_prompt,
                           .continue_final = r->chat.continues_final,
                           .now = time(NULL)};
    err e = {0};
    int rc = chat_template_apply(s->chat, &in, text, &e);
    if (!rc) rc = tokenizer_encode_marked(engine_tokenizer(s->g), buf_span(&text->text), text->user.p, ids, &e);
    if (rc == ERR_FORMAT || rc == ERR_LIMIT)
        reply_error(x, 400, "messages", "invalid_value", "the chat template: %s", e.msg);
    else if (rc) reply_err(x, "messages", &e);
    return !rc;
}

bool chat_prompt_make(server *s, exchange *x, const request *r, jinja_output *text, token_list *ids)
{
    const char *name = NULL;
    if (!exchange_check_model(s, x, r->asked.model) || !check_template(s, x, r) || !check_messages(s, x, r) ||
        !check_tools(s, x, r))
        return false;
    const tool_use use = read_tool_choice(x, r, &name);
    return use != TOOLS_WRONG && apply_template(s, x, r, use != TOOLS_NONE, text, ids);
}

bool chat_prompt_read(server *s, exchange *x, request *r)
{
    const char *name = NULL;
    jinja_output text = {0};
    if (!check_template(s, x, r) || !check_messages(s, x, r) || !check_tools(s, x, r)) return false;
    const tool_use use = read_tool_choice(x, r, &name);
    if (use == TOOLS_WRONG) return false;
    r->made.prompts = mem_zero(1, sizeof *r->made.prompts);
    if (!r->made.prompts) {
        reply_error(x, 500, NULL, NULL, "out of memory");
        return false;
    }
    r->made.n_prompts = 1;
    bool good = apply_template(s, x, r, use != TOOLS_NONE, &text, &r->made.prompts->ids);
    if (good) {
        r->made.parse = (call_parser_options){
            .reasoning = chat_template_reasoning(s->chat),
            .thinking = !r->chat.continues_final && chat_template_thinks(s->chat, buf_span(&text.text)),
            .one_call = !r->chat.parallel_calls,
            .tools = r->chat.tools,
        };
        good = read_calls(s, x, r, use, name) && request_check_length(s, x, r->made.prompts);
    }
    jinja_output_free(&text);
    return good;
}
