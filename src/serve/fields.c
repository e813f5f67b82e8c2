/* fields.c - see fields.h. */
#include "serve/fields.h"

#include "base/log.h"
#include "base/param.h"
#include "serve/server.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *json_type_name(const json *j)
{
    switch (json_type(j)) {
    case JSON_NULL: return "null";
    case JSON_BOOL: return "a boolean";
    case JSON_NUMBER: return "a number";
    case JSON_STRING: return "a string";
    case JSON_ARRAY: return "an array";
    case JSON_OBJECT: return "an object";
    }
    return "unknown";
}

bool field_wrong_type(exchange *x, const char *name, const char *expected, const json *v)
{
    reply_error(x, 400, name, "invalid_type", "%s: expected %s, got %s", name, expected, json_type_name(v));
    return false;
}

static bool read_number(exchange *x, const field *f, const json *v, void *to)
{
    double value = json_num(v, 0);
    int64_t exact = 0;
    bool whole = f->type == FIELD_INT, fits = json_int64(v, &exact);
    if (whole && json_type(v) == JSON_NUMBER && !fits && value == floor(value)) {
        reply_error(x, 400, f->name, "out_of_range", "%s: %.17g is no whole number of 64 bits", f->name, value);
        return false;
    }
    if (json_type(v) != JSON_NUMBER || (whole && !fits))
        return field_wrong_type(x, f->name, whole ? "a whole number" : "a number", v);
    if ((f->min || f->max) && !(value >= f->min && value <= f->max)) {
        reply_error(x, 400, f->name, "out_of_range", "%s: %.15g is out of range: %.15g to %.15g", f->name, value,
                    f->min, f->max);
        return false;
    }
    if (f->never_zero && value == 0) {
        reply_error(x, 400, f->name, "out_of_range", "%s: at least 1, or -1 for no limit", f->name);
        return false;
    }
    if (whole) *(int64_t *)to = exact;
    else *(double *)to = value;
    return true;
}

static bool read_only_value(exchange *x, const field *f, const json *v)
{
    buf text = {0};
    bool is = json_print(&text, v, false) && strcmp(buf_cstr(&text), f->only) == 0;
    buf_free(&text);
    if (!is) reply_error(x, 400, f->name, "unsupported", "%s: only %s is possible", f->name, f->only);
    return is;
}

static bool read_field(exchange *x, const field *f, const json *v, void *into)
{
    char *to = (char *)into + f->offset;
    if (f->type == FIELD_IGNORE) return true;
    switch (f->type) {
    case FIELD_INT:
    case FIELD_FLOAT: return read_number(x, f, v, to);
    case FIELD_BOOL:
        if (json_type(v) != JSON_BOOL) return field_wrong_type(x, f->name, "true or false", v);
        *(bool *)to = json_bool(v, false);
        return true;
    case FIELD_TEXT:
        if (json_type(v) != JSON_STRING) return field_wrong_type(x, f->name, "a string", v);
        *(const char **)to = json_str(v, NULL);
        return true;
    case FIELD_NODE: *(const json **)to = v; return true;
    case FIELD_ONLY: return read_only_value(x, f, v);
    case FIELD_IGNORE: break;
    }
    return true;
}

static const field *find_field(const field *rows, const char *name)
{
    for (const field *f = rows; f && f->name; f++)
        if (strcmp(f->name, name) == 0 || (f->alias && strcmp(f->alias, name) == 0)) return f;
    return NULL;
}

/* The path of an endpoint that has the field, or NULL. */
static const char *elsewhere(const char *name)
{
    for (int i = 0; i < route_count; i++)
        if (find_field(route_all[i]->fields, name)) return route_all[i]->path;
    return NULL;
}

static bool unknown_field(exchange *x, const field *rows, bool lenient, const char *name)
{
    const char *near = NULL, *path = x->endpoint && rows == x->endpoint->fields ? elsewhere(name) : NULL;
    int best = 3;
    for (const field *f = rows; f->name; f++) {
        int d = edit_distance(f->name, name);
        if (d < best && (size_t)d < strlen(name)) {
            best = d;
            near = f->name;
        }
    }
    if (lenient) {
        log_line(LOG_WARN, "%.100s: field \"%.80s\" ignored", x->path, name);
        return true;
    }
    char shown[84];
    snprintf(shown, sizeof shown, "%.80s", name);
    if (path)
        reply_error(x, 400, shown, "unknown_field", "\"%s\" is a field of %s, not of %s", shown, path,
                    x->endpoint->path);
    else if (near)
        reply_error(x, 400, shown, "unknown_field", "unknown field \"%s\"; did you mean \"%s\"?", shown, near);
    else reply_error(x, 400, shown, "unknown_field", "unknown field \"%s\"", shown);
    return false;
}

static bool is_given(const json *object, const char *name) { return json_type(json_get(object, name)) != JSON_NULL; }

bool fields_read(exchange *x, const field *rows, bool lenient, const json *object, void *into)
{
    for (const json *m = json_first(object); m; m = json_next(m)) {
        const field *f = find_field(rows, json_key(m));
        if (json_type(m) == JSON_NULL) continue; /* as if it were not there */
        if (!f) {
            if (!unknown_field(x, rows, lenient, json_key(m))) return false;
            continue;
        }
        if (f->alias && is_given(object, f->name) && is_given(object, f->alias)) {
            reply_error(x, 400, f->name, "duplicate_field", "%s and %s are the same field", f->name, f->alias);
            return false;
        }
        field sent = *f;
        sent.name = json_key(m); /* errors name what was sent */
        if (!read_field(x, &sent, m, into)) return false;
    }
    return true;
}

bool fields_only(exchange *x, const char *at, const json *object, const char *names)
{
    if (json_type(object) != JSON_OBJECT) return field_wrong_type(x, at, "an object", object);
    for (const json *m = json_first(object); m; m = json_next(m)) {
        const size_t n = strlen(json_key(m));
        const char *p = names;
        while (*p && !(strncmp(p, json_key(m), n) == 0 && strchr(" ", p[n])))
            p += strcspn(p, " ") + (strchr(p, ' ') != 0);
        if (*p || json_type(m) == JSON_NULL) continue;
        if (!x->lenient) {
            reply_error(x, 400, json_key(m), "unknown_field", "%s: unknown field \"%.80s\"", at, json_key(m));
            return false;
        }
        log_line(LOG_WARN, "%.100s: field \"%.80s\" of %s ignored", x->path, json_key(m), at);
    }
    return true;
}

static json *parse(exchange *x)
{
    json *j = NULL;
    err e = {0};
    if (json_parse(&j, x->body, "request body", &e)) {
        reply_error(x, e.code == ERR_MEMORY ? 500 : 400, NULL, "invalid_json", "%s", e.msg);
        return NULL;
    }
    if (json_type(j) == JSON_OBJECT) return j;
    reply_error(x, 400, NULL, "invalid_json", "request body: expected an object, got %s", json_type_name(j));
    json_free(j);
    return NULL;
}

json *body_read(const server *s, exchange *x, void *into)
{
    json *body = parse(x);
    if (!body || fields_read(x, x->endpoint->fields, s->o->lenient, body, into)) return body;
    json_free(body);
    return NULL;
}
