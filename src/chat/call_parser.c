/* call_parser.c - see call_parser.h: what is not yet certain waits in a buffer; a state tells what the text is in. */
#define _GNU_SOURCE
#include "chat/call_parser.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "chat/call_body.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

typedef enum {
    IN_CONTENT,
    IN_REASONING,
    IN_CALL,
    IN_HEADER,
    IN_ARGUMENTS,
    IN_TAGS,  /* between two arguments that are tags */
    IN_VALUE, /* of such an argument */
    BEHIND_ARGUMENTS
} parser_state;

enum { MARKS_MAX = 8 };

/* Where a scan is in JSON text. */
typedef struct json_place {
    int depth; /* objects and arrays that are open */
    bool string, escaped;
} json_place;

struct call_parser {
    call_parser_options o;
    parser_state state;
    buf in;           /* fed, not used up */
    size_t at;        /* ... from here on */
    bool begun;       /* content or reasoning of this state has something other than blanks */
    bool said;        /* so has the content as a whole */
    json_place place; /* IN_ARGUMENTS */
    buf names;        /* IN_TAGS: of the arguments so far, each between NUL bytes */
    bool text, again; /* IN_VALUE: it stands as it is; its name has come before */
    bool left_out;    /* CALL_CHANNELS: this call is not wanted */
    buf recipient;    /* CALL_CHANNELS: what a message's head says */
};

void chat_message_free(chat_message *m)
{
    buf_free(&m->reasoning);
    buf_free(&m->content);
    for (size_t i = 0; i < m->n_calls; i++) {
        buf_free(&m->calls[i].name);
        buf_free(&m->calls[i].arguments);
    }
    mem_free(m->calls);
    *m = (chat_message){0};
}

int call_parser_open(call_parser **out, const call_parser_options *o, err *e)
{
    call_parser *p = *out = mem_zero(1, sizeof *p);
    if (!p) return err_memory(e, NULL);
    p->o = *o;
    const bool channels = o->format && o->format->body == CALL_CHANNELS;
    p->state = o->thinking ? IN_REASONING : channels ? IN_HEADER : IN_CONTENT;
    return OK;
}

void call_parser_close(call_parser *p)
{
    if (!p) return;
    buf_free(&p->in);
    buf_free(&p->names);
    buf_free(&p->recipient);
    mem_free(p);
}

bool call_parser_wants(const call_parser_options *o, span special)
{
    const char *list = o->format ? o->format->special : NULL;
    if (o->reasoning && (span_is(special, o->reasoning->open) || span_is(special, o->reasoning->close))) return true;
    while (list && *list) {
        const size_t n = strcspn(list, " ");
        if (special.n == n && memcmp(special.p, list, n) == 0) return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

static span rest_of_text(const call_parser *p) { return span_of(p->in.p + p->at, p->in.n - p->at); }

/* The first of the marks in s: its index, with where it lies in *at; -1: none, and *at is where one may begin. */
static int find_mark(span s, const char *const *mark, int n, size_t *at)
{
    for (*at = 0; *at < s.n; ++*at) {
        bool may = false;
        for (int i = 0; i < n; i++) {
            const size_t len = strlen(mark[i]), left = s.n - *at;
            if (memcmp(s.p + *at, mark[i], len < left ? len : left) != 0) continue;
            if (len <= left) return i;
            may = true;
        }
        if (may) return -1;
    }
    return -1;
}

/* Appends to content or reasoning. Blanks at the beginning go; those at the end wait, unless `final`. Returns how many
 * bytes were used. */
static size_t put_text(call_parser *p, buf *to, span s)
{
    size_t from = 0, end = s.n;
    const bool trims = p->state == IN_REASONING || p->o.format;
    while ((trims || p->o.reasoning) && !p->begun && from < s.n && byte_is_blank(s.p[from])) from++;
    while (trims && end > from && byte_is_blank(s.p[end - 1])) end--;
    if (end > from) p->begun = true;
    if (end > from && p->state == IN_CONTENT) p->said = true;
    buf_add(to, s.p + from, end - from);
    return end > from ? end : from;
}

static tool_call *new_call(chat_message *m, span name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint8_t random[24] = {0};
    void *v = m->calls;
    if (!mem_grow(&v, &m->cap_calls, m->n_calls + 1, sizeof *m->calls)) return NULL;
    m->calls = v;
    tool_call *c = &m->calls[m->n_calls];
    *c = (tool_call){0};
    if (getrandom(random, sizeof random, 0) < 0) random[0] = (uint8_t)m->n_calls;
    int n = snprintf(c->id, sizeof c->id, "call_");
    for (size_t i = 0; i < sizeof random; i++) c->id[n++] = letters[random[i] % (sizeof letters - 1)];
    m->n_calls++;
    return buf_add(&c->name, name.p, name.n) ? c : NULL;
}

static bool is_name_byte(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

/* The head of a bound call at the beginning of s, up to its arguments: the bytes that it takes; 0: it is not there. */
static size_t call_head(const call_parser *p, span s, span *name)
{
    const call_format *f = p->o.format;
    const char *before = f->writing.before, *at = strchr(before, '@');
    if (!p->o.bound) return 0;
    const size_t opened = f->open && strncmp(before, f->open, strlen(f->open)) == 0 ? strlen(f->open) : 0;
    const size_t lead = (size_t)(at - before) - opened, tail = strlen(at + 1);
    size_t from = 0; /* of a list: its beginning, or what stands between two calls */
    while (f->body == CALL_LIST && from < s.n && (byte_is_blank(s.p[from]) || s.p[from] == '[' || s.p[from] == ','))
        from++;
    if (s.n - from < lead || memcmp(s.p + from, before + opened, lead) != 0) return 0;
    size_t end = from += lead;
    while (end < s.n && is_name_byte(s.p[end])) end++;
    if (end == from || s.n - end <= tail || memcmp(s.p + end, at + 1, tail) != 0) return 0;
    *name = span_of(s.p + from, end - from);
    return s.p[end + tail] == (f->writing.key ? '<' : '{') ? end + tail : 0;
}

/* Begins a call whose arguments follow. False: s does not begin with its head. */
static bool begin_call(call_parser *p, span s, chat_message *to)
{
    span name;
    const size_t head = p->o.one_call && to->n_calls ? 0 : call_head(p, s, &name);
    if (!head) return false;
    if (!new_call(to, name)) to->content.bad = true;
    p->at = (size_t)(s.p - p->in.p) + head;
    p->place = (json_place){0};
    p->names.n = 0;
    p->state = to->content.bad ? IN_CALL : p->o.format->writing.key ? IN_TAGS : IN_ARGUMENTS;
    if (p->state == IN_TAGS && !buf_str(&to->calls[to->n_calls - 1].arguments, "{")) to->content.bad = true;
    return !to->content.bad;
}

/* Bytes of s up to the end of an object that has begun before it, or of s. */
static size_t scan_object(json_place *at, span s)
{
    for (size_t i = 0; i < s.n; i++) {
        const uint8_t c = s.p[i];
        if (at->string) {
            at->string = at->escaped || c != '"';
            at->escaped = !at->escaped && c == '\\';
        } else if (c == '"') {
            at->string = true;
        } else if (c == '{' || c == '[') {
            at->depth++;
        } else if ((c == '}' || c == ']') && --at->depth == 0) {
            return i + 1;
        }
    }
    return s.n;
}

static bool step_arguments(call_parser *p, chat_message *to)
{
    tool_call *c = &to->calls[to->n_calls - 1];
    const span s = rest_of_text(p);
    const size_t n = scan_object(&p->place, s);
    if (!buf_add(&c->arguments, s.p, n)) to->content.bad = true;
    p->at += n;
    if (p->place.depth) return false;
    c->whole = true;
    p->state = BEHIND_ARGUMENTS;
    return true;
}

/* Whether s begins with a mark: 1, 0, or -1 where it is too short to tell. */
static int begins_with(span s, const char *mark)
{
    const size_t n = strlen(mark);
    if (memcmp(s.p, mark, s.n < n ? s.n : n) != 0) return 0;
    return s.n < n ? -1 : 1;
}

/* The beginning of the next argument, or the end of all. */
static bool step_tags(call_parser *p, bool last, chat_message *to)
{
    const call_writing *w = &p->o.format->writing;
    tool_call *c = &to->calls[to->n_calls - 1];
    span s = rest_of_text(p);
    const int more = begins_with(s, w->key), over = begins_with(s, w->after);
    size_t at;
    if (more <= 0 && (more || over) && over <= 0) { /* one of both begins here */
        if (last) p->at = p->in.n;
        return false;
    }
    if (more <= 0) {
        buf_str(&c->arguments, "}");
        c->whole = true;
        p->state = over ? BEHIND_ARGUMENTS : IN_CONTENT;
        return true;
    }
    s = span_of(s.p + strlen(w->key), s.n - strlen(w->key));
    if (find_mark(s, &w->value, 1, &at) < 0) {
        if (last) p->at = p->in.n;
        return false;
    }
    if (!p->names.n) buf_byte(&p->names, 0);
    const size_t before = p->names.n;
    buf_add(&p->names, s.p, at);
    buf_byte(&p->names, 0);
    if (p->names.bad) {
        to->content.bad = true;
        return false;
    }
    const uint8_t *key = p->names.p + before;
    p->again = memmem(p->names.p, before, key - 1, at + 2) != NULL;
    p->text = call_argument_is_text(p->o.tools, buf_span(&c->name), (const char *)key);
    if (!p->again) {
        buf_str(&c->arguments, c->arguments.n > 1 ? ", " : "");
        json_quote(&c->arguments, span_of(s.p, at));
        buf_str(&c->arguments, p->text ? ": \"" : ": ");
    }
    p->at += strlen(w->key) + at + strlen(w->value);
    p->state = IN_VALUE;
    p->place = (json_place){0};
    return true;
}

/* Appends a part of a string literal. */
static void put_quoted(buf *to, span s)
{
    buf quoted = {0};
    if (json_quote(&quoted, s)) buf_add(to, quoted.p + 1, quoted.n - 2);
    else to->bad = true;
    buf_free(&quoted);
}

/* The end of a value that is JSON, if it is: the mark outside its strings; -1: not yet. */
static ptrdiff_t json_end(span s, const char *end)
{
    const span value = span_without_blanks(s);
    const bool strings = value.n && memchr("{[\"", value.p[0], 3);
    bool string = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"') string = strings && !string;
        else if (string && s.p[i] == '\\') i++;
        else if (!string && s.n - i >= strlen(end) && !memcmp(s.p + i, end, strlen(end))) return (ptrdiff_t)i;
    }
    return -1;
}

static bool step_value(call_parser *p, bool last, chat_message *to)
{
    const call_writing *w = &p->o.format->writing;
    buf *arguments = &to->calls[to->n_calls - 1].arguments;
    const span s = rest_of_text(p);
    size_t at = 0;
    bool found;
    if (p->text) {
        found = find_mark(s, &w->end, 1, &at) >= 0;
        if (!found) at -= utf8_incomplete_tail(span_of(s.p, at));
        if (!p->again) put_quoted(arguments, span_of(s.p, at));
        if (found && !p->again) buf_str(arguments, "\"");
    } else {
        const ptrdiff_t end = json_end(s, w->end);
        found = end >= 0;
        at = found ? (size_t)end : 0;
        const span value = span_without_blanks(span_of(s.p, at));
        if (found && !p->again && call_value_is_json(value)) buf_add(arguments, value.p, value.n);
        else if (found && !p->again) json_quote(arguments, span_of(s.p, at));
    }
    p->at += found ? at + strlen(w->end) : last ? s.n : at;
    if (found) p->state = IN_TAGS;
    return found;
}

/* What is written behind the arguments: of a list, to its end or up to the next call. */
static bool step_behind(call_parser *p, bool last)
{
    const call_writing *w = &p->o.format->writing;
    const bool list = p->o.format->body == CALL_LIST;
    const size_t after = w->after ? strlen(w->after) : 0;
    const size_t close = list ? strlen(w->close) : 0, between = list ? strlen(w->between) : 0;
    const span s = rest_of_text(p);
    if (s.n < after + (close > between ? close : between) && !last) return false;
    const bool more = list && s.n >= after + between && memcmp(s.p + after, w->between, between) == 0;
    const size_t used = after + (more ? between : close);
    p->at += used < s.n ? used : s.n;
    p->state = more ? IN_CALL : IN_CONTENT;
    p->begun = p->begun && !p->o.format->bare;
    return true;
}

/* Adds the calls of a body; false: it has none. */
static bool add_calls(call_parser *p, span body, chat_message *to)
{
    span name, arguments;
    call_body_walk walk = {.format = p->o.format, .tools = p->o.tools, .body = body};
    size_t n = 0;
    bool good = true;
    while ((good = call_body_next(&walk, &name, &arguments)) && name.n) {
        n++;
        if (p->o.one_call && to->n_calls) continue;
        tool_call *c = new_call(to, name);
        if (!c || !buf_add(&c->arguments, arguments.p, arguments.n)) to->content.bad = true;
        if (!c) break;
        c->whole = true;
    }
    buf_free(&walk.text);
    return good && n;
}

/* The end of a call in s, which begins behind its opening; *skip: bytes of the closing mark. -1: not yet. */
static ptrdiff_t call_end(const call_format *f, span s, size_t *skip)
{
    *skip = 0;
    if (f->close) {
        const uint8_t *end = memmem(s.p, s.n, f->close, strlen(f->close));
        *skip = strlen(f->close);
        return end ? end - s.p : -1;
    }
    size_t from = 0;
    if (f->body == CALL_NAMED) {
        const uint8_t *sep = memmem(s.p, s.n, f->separator, strlen(f->separator));
        if (!sep) return -1;
        from = (size_t)(sep - s.p) + strlen(f->separator);
    }
    while (from < s.n && byte_is_blank(s.p[from])) from++;
    const size_t n = call_json_length(span_of(s.p + from, s.n - from));
    return n ? (ptrdiff_t)(from + n) : -1;
}

/* What is left at the end is a part of a call, which was cut: it is no content. */
static bool left_of_call(const call_parser *p, const chat_message *to)
{
    return p->o.bound && (p->o.required || to->n_calls);
}

/* A text that begins like an object, where the format allows calls without marks. False: wait for more. */
static bool take_bare(call_parser *p, bool last, chat_message *to)
{
    span s = rest_of_text(p);
    size_t from = 0;
    while (from < s.n && (byte_is_blank(s.p[from]) || (to->n_calls && (s.p[from] == ';' || s.p[from] == ',')))) from++;
    if (from == s.n || s.p[from] != '{') {
        if (from == s.n && !last) return false;
        p->begun = true; /* it is text after all */
        return true;
    }
    if (begin_call(p, span_of(s.p + from, s.n - from), to)) return true;
    const size_t n = call_json_length(span_of(s.p + from, s.n - from));
    if (!n && !last) return false;
    if (n && add_calls(p, span_of(s.p + from, n), to)) p->at += from + n;
    else if (!n && left_of_call(p, to)) p->at = p->in.n;
    else p->begun = true;
    return true;
}

/* One step in content; false: more text is needed. */
static bool step_content(call_parser *p, bool last, chat_message *to)
{
    const char *mark[MARKS_MAX];
    int n = 0, first_drop, of_call = -1, of_reasoning = -1;
    const call_format *f = p->o.format;
    if (f && f->bare && !p->begun && !p->said) {
        if (!take_bare(p, last, to)) return false;
        if (p->state == IN_ARGUMENTS) return true;
        if (p->at == p->in.n) return false;
        if (!p->begun) return true;
    }
    if (f && f->open) mark[of_call = n++] = f->open;
    if (p->o.reasoning) mark[of_reasoning = n++] = p->o.reasoning->open;
    first_drop = n;
    for (int i = 0; f && i < 4 && f->drop[i]; i++) mark[n++] = f->drop[i];
    size_t at;
    const int found = find_mark(rest_of_text(p), mark, n, &at);
    if (found < 0 && last) at = left_of_call(p, to) ? 0 : rest_of_text(p).n;
    const size_t used = put_text(p, &to->content, span_of(rest_of_text(p).p, at));
    if (found < 0) {
        p->at += used;
        return false;
    }
    p->at += at + strlen(mark[found]);
    if (found >= first_drop) return true;
    p->state = found == of_call ? IN_CALL : IN_REASONING;
    if (found == of_reasoning) p->begun = false;
    return true;
}

static bool step_reasoning(call_parser *p, bool last, chat_message *to)
{
    const char *mark[1] = {p->o.reasoning->close};
    size_t at;
    const int found = find_mark(rest_of_text(p), mark, 1, &at);
    if (found < 0 && last) at = rest_of_text(p).n;
    const size_t used = put_text(p, &to->reasoning, span_of(rest_of_text(p).p, at));
    if (found < 0) {
        p->at += used;
        return false;
    }
    p->at += at + strlen(mark[0]);
    p->state = IN_CONTENT;
    p->begun = false;
    return true;
}

static bool step_call(call_parser *p, bool last, chat_message *to)
{
    size_t skip;
    const call_format *f = p->o.format;
    span s = rest_of_text(p);
    if (begin_call(p, s, to)) return true;
    ptrdiff_t end = call_end(f, s, &skip);
    if (end < 0 && !last) return false;
    if (end < 0) { /* cut off, or closed by the end of the text */
        end = (ptrdiff_t)s.n;
        skip = 0;
    }
    const bool cut = last && (size_t)end == s.n && (to->n_calls || p->o.bound); /* a part of a call says nothing */
    if (!add_calls(p, span_of(s.p, (size_t)end), to) && !cut) {                 /* as it was written */
        buf_str(&to->content, f->open);
        buf_add(&to->content, s.p, (size_t)end + skip);
    }
    p->at += (size_t)end + skip;
    p->state = IN_CONTENT;
    p->begun = p->begun && !f->bare;
    return true;
}

/* CALL_CHANNELS: "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json" before <|message|>. */
static bool step_header(call_parser *p, bool last, chat_message *to)
{
    static const char *const mark[] = {"<|message|>"};
    size_t at;
    if (find_mark(rest_of_text(p), mark, 1, &at) < 0) {
        if (last) p->at = p->in.n;
        return false;
    }
    p->recipient.n = 0;
    buf_add(&p->recipient, rest_of_text(p).p, at);
    p->at += at + strlen(mark[0]);
    const char *head = buf_cstr(&p->recipient);
    p->state = strstr(head, "to=functions.") && p->o.format ? IN_CALL
               : strstr(head, "analysis")                   ? IN_REASONING
                                                            : IN_CONTENT;
    p->begun = false;
    p->left_out = p->o.one_call && to->n_calls;
    if (p->state != IN_CALL || p->left_out) return true;
    const char *name = strstr(head, "to=functions.") + strlen("to=functions.");
    if (!new_call(to, span_of(name, strcspn(name, " <\n")))) to->content.bad = true;
    return !to->content.bad;
}

static bool step_channel(call_parser *p, bool last, chat_message *to)
{
    static const char *const mark[] = {"<|end|>", "<|call|>", "<|start|>", "<|channel|>", "<|return|>"};
    size_t at, used;
    const int found = find_mark(rest_of_text(p), mark, 5, &at);
    if (found < 0 && last) at = rest_of_text(p).n;
    if (p->state == IN_CALL) {
        tool_call *c = to->n_calls ? &to->calls[to->n_calls - 1] : NULL;
        if (c && !p->left_out && !buf_add(&c->arguments, rest_of_text(p).p, at)) to->content.bad = true;
        if (c && !p->left_out) c->whole = found >= 0 || last;
        used = at;
    } else {
        used = put_text(p, p->state == IN_REASONING ? &to->reasoning : &to->content, span_of(rest_of_text(p).p, at));
    }
    p->at += found < 0 ? used : at + strlen(mark[found]);
    if (found >= 0) p->state = IN_HEADER;
    return found >= 0;
}

int call_parser_feed(call_parser *p, span text, bool last, chat_message *to, err *e)
{
    if (p->at) {
        memmove(p->in.p, p->in.p + p->at, p->in.n - p->at);
        p->in.n -= p->at;
        p->at = 0;
    }
    buf_add(&p->in, text.p, text.n);
    const bool channels = p->o.format && p->o.format->body == CALL_CHANNELS;
    bool more = p->in.n > 0;
    while (more && p->at < p->in.n) {
        switch (p->state) {
        case IN_HEADER: more = step_header(p, last, to); break;
        case IN_ARGUMENTS: more = step_arguments(p, to); break;
        case IN_TAGS: more = step_tags(p, last, to); break;
        case IN_VALUE: more = step_value(p, last, to); break;
        case BEHIND_ARGUMENTS: more = step_behind(p, last); break;
        case IN_CALL: more = channels ? step_channel(p, last, to) : step_call(p, last, to); break;
        case IN_REASONING: more = channels ? step_channel(p, last, to) : step_reasoning(p, last, to); break;
        case IN_CONTENT: more = channels ? step_channel(p, last, to) : step_content(p, last, to); break;
        }
    }
    const bool bad = p->in.bad || p->recipient.bad || to->content.bad || to->reasoning.bad;
    return bad ? err_memory(e, NULL) : OK;
}
