/* recipe.c - see recipe.h. */
#include "models/compile/recipe.h"

#include "models/spec/spec_split.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STACK_MAX = 1 << 16 };

typedef struct reader {
    config_eval *values;
    arena *mem;
    int layer;
    const char *where;
    err *e;
} reader;

static int value_in(reader *r, span text, value *out)
{
    const expr *x;
    char *copy = arena_strn(r->mem, (const char *)text.p, text.n);
    if (!copy) return err_memory(r->e, r->where);
    int rc = expr_parse(&x, r->mem, copy, r->where, r->e);
    const char *unknown = rc ? NULL : config_unknown_name(r->values, x);
    if (unknown) rc = err_set(r->e, ERR_SPEC, "%s: '%s' is not a name of [config]", r->where, unknown);
    return rc ? rc : config_value(r->values, x, r->layer, NULL, r->where, out, r->e);
}

/* The number that an expression gives. */
static int read_number(reader *r, span text, double *out)
{
    value v;
    int rc = value_in(r, text, &v);
    if (rc) return rc;
    if (v.kind != VALUE_NUMBER)
        return err_set(r->e, ERR_SPEC, "%s: '%.*s' has no value that is a number", r->where, (int)text.n,
                       (const char *)text.p);
    *out = v.number;
    return OK;
}

static int read_count(reader *r, span text, int64_t *out)
{
    double v;
    int rc = read_number(r, text, &v);
    if (rc) return rc;
    if (!(v >= 0 && v <= INT32_MAX) || v != floor(v))
        return err_set(r->e, ERR_SPEC, "%s: '%.*s' is %g: expected a whole number", r->where, (int)text.n,
                       (const char *)text.p, v);
    *out = (int64_t)v;
    return OK;
}

/* A whole number or a text, as part of a name. */
static int put_part(reader *r, span text, buf *to)
{
    value v;
    int64_t n;
    int rc = value_in(r, text, &v);
    if (!rc && v.kind == VALUE_TEXT) return buf_printf(to, "%s", v.text), OK;
    if (!rc) rc = read_count(r, text, &n);
    if (!rc) buf_printf(to, "%lld", (long long)n);
    return rc;
}

/* Cuts `text` at the keyword between blanks: " take ", " at ", " .. ". */
static bool cut_at(span text, const char *keyword, span *left, span *right)
{
    size_t n = strlen(keyword);
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, keyword, n) == 0) {
            *left = span_trim(span_of(text.p, i));
            *right = span_trim(span_of(text.p + i + n, text.n - i - n));
            return true;
        }
    return false;
}

static span after_word(span s, size_t n) { return span_trim(span_of(s.p + n, s.n - n)); }

/* "A .. B" of rows or columns. */
static int read_run(reader *r, const char *what, span args, int64_t *first, int64_t *n)
{
    span a, b;
    int64_t to;
    if (!cut_at(args, "..", &a, &b)) return err_set(r->e, ERR_SPEC, "%s: expected '%s A .. B'", r->where, what);
    int rc = read_count(r, a, first);
    if (!rc) rc = read_count(r, b, &to);
    if (rc) return rc;
    if (to <= *first)
        return err_set(r->e, ERR_SPEC, "%s: %s %lld .. %lld are none", r->where, what, (long long)*first,
                       (long long)to);
    *n = to - *first;
    return OK;
}

static int read_every(reader *r, span args, recipe *out)
{
    span stride, rest, length, start;
    if (!cut_at(args, " take ", &stride, &rest) || !cut_at(rest, " at ", &length, &start))
        return err_set(r->e, ERR_SPEC, "%s: expected 'every S take L at O'", r->where);
    int rc = read_count(r, stride, &out->stride);
    if (!rc) rc = read_count(r, length, &out->block);
    if (!rc) rc = read_count(r, start, &out->row0);
    if (rc) return rc;
    if (out->block < 1 || out->row0 + out->block > out->stride)
        return err_set(r->e, ERR_SPEC, "%s: %lld rows at %lld do not fit in every %lld", r->where,
                       (long long)out->block, (long long)out->row0, (long long)out->stride);
    return OK;
}

/* Ends the first part of a stack's name at {A .. B}. */
static int start_stack(reader *r, span from, span to, buf *head, recipe *out)
{
    if (out->tail) return err_set(r->e, ERR_SPEC, "%s: a name has two ranges", r->where);
    int rc = read_count(r, from, &out->from);
    if (!rc) rc = read_count(r, to, &out->to);
    if (rc) return rc;
    if (out->to <= out->from || out->to - out->from > STACK_MAX)
        return err_set(r->e, ERR_SPEC, "%s: a stack of tensors %lld .. %lld", r->where, (long long)out->from,
                       (long long)out->to);
    out->name = arena_str(r->mem, buf_cstr(head));
    out->tail = "";
    head->n = 0;
    return out->name && !head->bad ? OK : err_memory(r->e, r->where);
}

/* The name with every {expression} replaced by its value; {A .. B} makes it a stack. */
static int fill_name(reader *r, span name, recipe *out)
{
    buf b = {0};
    int rc = OK;
    const char *last;
    for (size_t i = 0; i < name.n && !rc; i++) {
        const uint8_t *end = name.p[i] == '{' ? memchr(name.p + i, '}', name.n - i) : NULL;
        if (!end) {
            buf_byte(&b, name.p[i]);
            continue;
        }
        span inside = span_of(name.p + i + 1, (size_t)(end - (name.p + i + 1))), from, to;
        if (cut_at(inside, "..", &from, &to)) rc = start_stack(r, from, to, &b, out);
        else rc = put_part(r, inside, &b);
        i = (size_t)(end - name.p);
    }
    if (!rc && (!(last = arena_str(r->mem, buf_cstr(&b))) || b.bad)) rc = err_memory(r->e, r->where);
    if (!rc && out->tail) out->tail = last;
    else if (!rc) out->name = last;
    buf_free(&b);
    return rc;
}

/* The name of another tensor; an empty one is none. */
static int read_other(reader *r, span name, const char **out)
{
    recipe other = {0};
    int rc = fill_name(r, name, &other);
    if (!rc && other.tail) rc = err_set(r->e, ERR_SPEC, "%s: a range where one tensor is named", r->where);
    if (!rc) *out = *other.name ? other.name : NULL;
    return rc;
}

/* "norm NAME eps E" */
static int read_norm(reader *r, span args, recipe *out)
{
    span name, eps;
    if (!cut_at(args, " eps ", &name, &eps)) return err_set(r->e, ERR_SPEC, "%s: expected 'norm NAME eps E'", r->where);
    int rc = read_other(r, name, &out->norm);
    return rc ? rc : read_number(r, eps, &out->norm_eps);
}

static int read_step(reader *r, span step, recipe *out)
{
    if (span_is(step, "transpose")) return out->transpose = true, OK;
    if (span_is(step, "fit")) return out->fit = true, OK;
    if (span_is(step, "conv1d")) return out->conv1d = out->transpose = true, OK;
    if (span_is(step, "kernel")) return out->kernel = true, OK;
    if (span_is(step, "rope_pairs")) return out->rope_pairs = true, OK;
    if (span_is(step, "head_pairs")) return out->rope_pairs = out->whole_head = true, OK;
    if (span_is(step, "unit")) return out->normalize_rows = true, OK;
    if (span_is(step, "alone")) return out->alone = true, OK;
    if (span_is(step, "exp")) return out->exponential = true, OK;
    if (span_is(step, "flat")) return out->flat = true, OK;
    if (span_is(step, "bare")) return out->bare = true, OK;
    if (span_starts(step, "rows ") || span_starts(step, "every ")) {
        if (out->sliced) return err_set(r->e, ERR_SPEC, "%s: rows are chosen twice", r->where);
        out->sliced = true;
        return step.p[0] == 'r' ? read_run(r, "rows", after_word(step, 5), &out->row0, &out->rows)
                                : read_every(r, after_word(step, 6), out);
    }
    if (span_starts(step, "lines ")) return read_count(r, after_word(step, 6), &out->lines);
    if (span_starts(step, "through ")) return read_other(r, after_word(step, 8), &out->through);
    if (span_starts(step, "norm ")) return read_norm(r, after_word(step, 5), out);
    if (span_starts(step, "columns ")) return read_run(r, "columns", after_word(step, 8), &out->col0, &out->cols);
    if (step.n && step.p[0] == '+') return read_number(r, after_word(step, 1), &out->add);
    if (step.n && step.p[0] == '*') return read_number(r, after_word(step, 1), &out->mul);
    return err_set(r->e, ERR_SPEC,
                   "%s: unknown recipe '%.*s': known are transpose, fit, conv1d, kernel, rope_pairs, head_pairs, "
                   "unit, alone, exp, flat, bare, lines N, rows A .. B, columns A .. B, every S take L at O, norm NAME "
                   "eps E, through "
                   "NAME, + N, * N",
                   r->where, (int)step.n, (const char *)step.p);
}

/* `through` is about a whole matrix, and stands alone or after norm. */
static int check_through(reader *r, const recipe *how)
{
    const bool more = how->tail || how->transpose || how->rope_pairs || how->sliced || how->cols || recipe_changes(how);
    if (how->norm && !how->through)
        return err_set(r->e, ERR_SPEC, "%s: norm is for rows that go through a layer", r->where);
    if (!how->through || !more) return OK;
    return err_set(r->e, ERR_SPEC, "%s: through is about a whole matrix, and stands alone or after norm", r->where);
}

int recipe_parse(recipe *out, config_eval *values, arena *mem, span part, int layer, const char *where, err *e)
{
    reader r = {values, mem, layer, where, e};
    *out = (recipe){.source = "", .mul = 1};
    const uint8_t *colon = memchr(part.p, ':', part.n);
    size_t n = colon ? (size_t)(colon - part.p) : 0;
    if (colon && expr_is_source((const char *)part.p, n)) {
        if (!(out->source = arena_strn(mem, (const char *)part.p, n))) return err_memory(r.e, r.where);
        part = span_of(colon + 1, part.n - n - 1);
    }
    n = 0;
    int depth = 0;
    for (; n < part.n && (depth || (part.p[n] != ' ' && part.p[n] != '(')); n++)
        depth += (part.p[n] == '{') - (part.p[n] == '}');
    int rc = fill_name(&r, span_of(part.p, n), out);
    if (rc) return rc;
    if (!*out->name) return err_set(e, ERR_SPEC, "%s: a tensor name is missing", where);
    part = span_trim(span_of(part.p + n, part.n - n));
    if (!part.n) return OK;
    if (part.p[0] != '(' || part.p[part.n - 1] != ')')
        return err_set(e, ERR_SPEC, "%s: expected '(recipe)' at '%.*s'", where, (int)part.n, (const char *)part.p);
    span rest = span_of(part.p + 1, part.n - 2), step;
    while (!rc && split_next(&rest, ',', &step)) rc = read_step(&r, step, out);
    return rc ? rc : check_through(&r, out);
}
