/* call_body.c - see call_body.h. Arguments are passed on as they were written: nothing is parsed and printed again. */
#define _GNU_SOURCE
#include "chat/call_body.h"

#include "base/schema_text.h"

#include <string.h>

enum { NESTING_MAX = 200 };

static size_t string_length(span s)
{
    for (size_t i = 1; i < s.n; i++) {
        if (s.p[i] == '\\') i++;
        else if (s.p[i] == '"') return i + 1;
    }
    return 0;
}

size_t call_json_length(span s)
{
    int depth = 0;
    if (s.n && s.p[0] == '"') return string_length(s);
    if (s.n && s.p[0] != '{' && s.p[0] != '[') {
        size_t n = 0;
        while (n < s.n && !byte_is_blank(s.p[n]) && !strchr(",}]", s.p[n])) n++;
        return n;
    }
    for (size_t i = 0; i < s.n; i++) {
        const uint8_t c = s.p[i];
        if (c == '"') {
            const size_t n = string_length(span_of(s.p + i, s.n - i));
            if (!n) return 0;
            i += n - 1;
        } else if (c == '{' || c == '[') {
            if (++depth > NESTING_MAX) return 0;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

bool call_value_is_json(span s)
{
    json *j = NULL;
    const bool ok = json_parse(&j, s, "value", NULL) == OK;
    json_free(j);
    return ok;
}

/* A member of the object `s` by one of its names. */
static span find_member(span s, const char *const *names)
{
    size_t i = 1;
    while (i < s.n) {
        while (i < s.n && (byte_is_blank(s.p[i]) || s.p[i] == ',')) i++;
        const size_t key = i < s.n && s.p[i] == '"' ? string_length(span_of(s.p + i, s.n - i)) : 0;
        if (!key) break;
        const span name = span_of(s.p + i + 1, key - 2);
        i += key;
        while (i < s.n && (byte_is_blank(s.p[i]) || s.p[i] == ':')) i++;
        const size_t n = call_json_length(span_of(s.p + i, s.n - i));
        if (!n) break;
        for (const char *const *w = names; *w; w++)
            if (span_is(name, *w)) return span_of(s.p + i, n);
        i += n;
    }
    return (span){0};
}

/* The text of a JSON string, put into w->text. */
static span string_text(call_body_walk *w, span s)
{
    json *j = NULL;
    const size_t at = w->text.n;
    if (json_parse(&j, s, "name", NULL) == OK) buf_str(&w->text, json_str(j, ""));
    json_free(j);
    return span_of(w->text.p + at, w->text.n - at);
}

static bool from_object(call_body_walk *w, span s, span *name, span *arguments)
{
    static const char *const names[] = {"name", "tool_name", "function", NULL};
    static const char *const values[] = {"arguments", "parameters", NULL};
    if (!s.n || s.p[0] != '{' || !call_value_is_json(s)) return false;
    const span quoted = find_member(s, names), given = find_member(s, values);
    if (!quoted.n || quoted.p[0] != '"') return false;
    w->text.n = 0;
    *arguments = given.n ? given : span_str("{}");
    if (given.n && given.p[0] == '"') { /* JSON in a string */
        const size_t n = string_text(w, given).n, m = string_text(w, quoted).n;
        *arguments = span_of(w->text.p, n);
        *name = span_of(w->text.p + n, m);
    } else {
        *name = string_text(w, quoted);
    }
    return name->n > 0 && !w->text.bad;
}

static bool next_of_list(call_body_walk *w, span *name, span *arguments)
{
    const span s = span_without_blanks(w->body);
    if (!w->at && s.n && s.p[0] == '{') { /* one call without its list */
        w->done = true;
        return from_object(w, s, name, arguments);
    }
    if (!s.n || s.p[0] != '[') return false;
    size_t i = w->at ? w->at : 1;
    while (i < s.n && (byte_is_blank(s.p[i]) || s.p[i] == ',')) i++;
    if (i < s.n && s.p[i] == ']') {
        w->done = true;
        *name = (span){0};
        return w->at > 0;
    }
    const size_t n = call_json_length(span_of(s.p + i, s.n - i));
    w->at = i + n;
    return n && from_object(w, span_of(s.p + i, n), name, arguments);
}

/* "functions.name:0" and "name" alike. */
static span plain_name(span s)
{
    s = span_without_blanks(s);
    if (span_starts(s, "functions.")) s = span_of(s.p + 10, s.n - 10);
    const uint8_t *colon = memrchr(s.p, ':', s.n);
    for (const uint8_t *c = colon ? colon + 1 : NULL; c && c < s.p + s.n; c++)
        if (*c < '0' || *c > '9') colon = NULL;
    if (colon) s.n = (size_t)(colon - s.p);
    return s;
}

static bool from_named(call_body_walk *w, span *name, span *arguments)
{
    const char *separator = w->format->separator;
    const uint8_t *sep = memmem(w->body.p, w->body.n, separator, strlen(separator));
    if (!sep) return false;
    span head = span_of(w->body.p, (size_t)(sep - w->body.p));
    const uint8_t *extra = memmem(head.p, head.n, "[CALL_ID]", 9);
    if (extra) head.n = (size_t)(extra - head.p);
    const span tail = span_of(sep + strlen(separator), (size_t)(w->body.p + w->body.n - sep) - strlen(separator));
    *name = plain_name(head);
    if (span_is(*name, "function")) { /* function, separator, name, then the arguments between marks of code */
        const uint8_t *line = memchr(tail.p, '\n', tail.n);
        if (!line) return false;
        *name = plain_name(span_of(tail.p, (size_t)(line - tail.p)));
    }
    const uint8_t *open = memchr(tail.p, '{', tail.n), *close = memrchr(tail.p, '}', tail.n);
    *arguments = open && close > open ? span_of(open, (size_t)(close - open) + 1) : span_str("{}");
    w->done = true;
    return name->n && call_value_is_json(*arguments);
}

bool call_argument_is_text(const json *tools, span function, const char *key)
{
    for (const json *t = json_first(tools); t; t = json_next(t)) {
        const json *f = json_get(t, "function"), *parameters = json_get(f, "parameters");
        if (span_is(function, json_str(json_get(f, "name"), "")))
            return schema_is_text(parameters, schema_of_member(parameters, key));
    }
    return false;
}

static void put_argument(call_body_walk *w, span function, span key, span value)
{
    buf name = {0};
    buf_add(&name, key.p, key.n);
    const bool text = call_argument_is_text(w->tools, function, buf_cstr(&name));
    const span v = span_without_blanks(value);
    buf_free(&name);
    buf_str(&w->text, w->text.n > 1 ? ", " : "");
    json_quote(&w->text, key);
    buf_str(&w->text, ": ");
    if (!text && call_value_is_json(v)) buf_add(&w->text, v.p, v.n);
    else json_quote(&w->text, value);
}

/* What lies between two marks, from *at on, which goes behind the second; p NULL: they are not there. */
static span between(span s, size_t *at, const char *open, const char *close)
{
    const uint8_t *a = memmem(s.p + *at, s.n - *at, open, strlen(open));
    if (!a) return (span){0};
    a += strlen(open);
    const uint8_t *b = memmem(a, (size_t)(s.p + s.n - a), close, strlen(close));
    if (!b) return (span){0};
    *at = (size_t)(b - s.p) + strlen(close);
    return span_of(a, (size_t)(b - a));
}

/* A value on lines of its own: without the line ends around it. */
static span without_lines(span s)
{
    if (s.n && s.p[0] == '\n') s = span_of(s.p + 1, s.n - 1);
    if (s.n && s.p[s.n - 1] == '\n') s.n--;
    return s;
}

static bool from_tags(call_body_walk *w, span *name, span *arguments)
{
    size_t at = 0;
    w->done = true;
    *name = span_without_blanks(between(w->body, &at, "<function=", ">"));
    if (!name->n) return false;
    buf_str(&w->text, "{");
    for (;;) {
        const span key = between(w->body, &at, "<parameter=", ">");
        if (!key.p) break;
        const size_t value_at = at;
        span value = between(w->body, &at, "", "</parameter>");
        if (!value.p) return false;
        value = span_of(w->body.p + value_at, value.n);
        put_argument(w, *name, span_without_blanks(key), without_lines(value));
    }
    buf_str(&w->text, "}");
    *arguments = buf_span(&w->text);
    return !w->text.bad;
}

static bool from_pairs(call_body_walk *w, span *name, span *arguments)
{
    size_t at = 0;
    const uint8_t *end = memmem(w->body.p, w->body.n, "<arg_key>", 9);
    w->done = true;
    *name = span_without_blanks(end ? span_of(w->body.p, (size_t)(end - w->body.p)) : w->body);
    if (!name->n || memchr(name->p, '{', name->n)) return false;
    buf_str(&w->text, "{");
    for (;;) {
        const span key = between(w->body, &at, "<arg_key>", "</arg_key>");
        if (!key.p) break;
        const span value = between(w->body, &at, "<arg_value>", "</arg_value>");
        if (!value.p) return false;
        put_argument(w, *name, span_without_blanks(key), value);
    }
    buf_str(&w->text, "}");
    *arguments = buf_span(&w->text);
    return !w->text.bad;
}

bool call_body_next(call_body_walk *w, span *name, span *arguments)
{
    *name = *arguments = (span){0};
    if (w->done) return true;
    switch (w->format->body) {
    case CALL_OBJECT:
    case CALL_LIST: return next_of_list(w, name, arguments);
    case CALL_NAMED: return from_named(w, name, arguments);
    case CALL_TAGS: return from_tags(w, name, arguments);
    case CALL_PAIRS: return from_pairs(w, name, arguments);
    case CALL_CHANNELS: break;
    }
    return false;
}
