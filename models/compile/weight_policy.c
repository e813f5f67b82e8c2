/* weight_policy.c - see weight_policy.h. */
#include "models/compile/weight_policy.h"

#include "base/buf.h"
#include "base/glob.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/spec/spec_split.h"
#include "tensor/quant.h"

#include <stdio.h>
#include <strings.h>

int weight_type(const char *name, const char *where, dtype *out, err *e)
{
    static const char *const brief[][2] = {{"q8", "q8_0"},     {"q6", "q6_b64"}, {"q5", "q5_b64"}, {"q4", "q4_b32"},
                                           {"q3h", "q3h_b64"}, {"q3", "q3_b32"}, {"q2", "q2_b32"}};
    const char *full = name;
    for (size_t i = 0; i < sizeof brief / sizeof *brief; i++)
        if (strcasecmp(name, brief[i][0]) == 0) full = brief[i][1];
    *out = dtype_by_name(full);
    if (*out != DTYPE_NONE && quant_can_encode(*out)) return OK;
    if (*out == DTYPE_Q8_1 || *out == DTYPE_Q8_K)
        return err_set(e, ERR_USAGE,
                       "%s %.60s: is how ggml holds activations, with sums beside the codes; for weights there is q8_0",
                       where, name);
    buf can = {0};
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++)
        if (quant_can_encode((dtype)t)) buf_printf(&can, "%s%s", can.n ? ", " : "", dtype_info[t].name);
    err_set(e, ERR_USAGE, "%s %.60s: weights can be held as %s", where, name, buf_cstr(&can));
    buf_free(&can);
    return ERR_USAGE;
}

static int read_line(weight_policy *p, span line, const char *where, err *e)
{
    const uint8_t *equal = memchr(line.p, '=', line.n);
    size_t at = equal ? (size_t)(equal - line.p) : 0;
    span left = span_trim(span_of(line.p, at)),
         right = span_trim(span_of(line.p + at + 1, equal ? line.n - at - 1 : 0));
    weight_rule r = {.pattern = arena_strn(&p->mem, (const char *)left.p, left.n), .where = arena_str(&p->mem, where)};
    const char *type = arena_strn(&p->mem, (const char *)right.p, right.n);
    if (!left.n || !right.n)
        return err_set(e, ERR_USAGE, "%s: expected PATTERN = TYPE, as in '*.attn.v = q6_b64'", where);
    if (!r.pattern || !r.where || !type || !mem_grow((void **)&p->rules, &p->cap, p->n + 1, sizeof *p->rules))
        return err_memory(e, where);
    char at_type[300];
    snprintf(at_type, sizeof at_type, "%s: type", where);
    int rc = strcasecmp(type, "keep") == 0 ? OK : weight_type(type, at_type, &r.type, e);
    if (!rc) p->rules[p->n++] = r;
    return rc;
}

int policy_read(weight_policy *p, span text, const char *what, err *e)
{
    int rc = OK;
    for (int number = 1; !rc && text.n; number++) {
        const uint8_t *end = memchr(text.p, '\n', text.n);
        size_t n = end ? (size_t)(end - text.p) : text.n, next = n + (end != NULL);
        span line = span_trim(span_of(text.p, n && text.p[n - 1] == '\r' ? n - 1 : n));
        char where[280];
        text = span_of(text.p + next, text.n - next);
        snprintf(where, sizeof where, "%.250s:%d", what, number);
        if (line.n && line.p[0] != '#') rc = read_line(p, line, where, e);
    }
    return rc;
}

void policy_free(weight_policy *p)
{
    mem_free(p->rules);
    arena_free(&p->mem);
    *p = (weight_policy){0};
}

static bool rule_fits(const weight_rule *r, const weight_names *w)
{
    const char *dot = strchr(w->name, '.'), *brief = dot ? dot + 1 : w->name;
    const char *names[] = {w->name, brief, w->tensor, strcmp(brief, "token") == 0 ? "embed" : NULL,
                           w->tied ? "head" : NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && glob_match(span_str(r->pattern), names[i])) return true;
    return false;
}

dtype policy_type(weight_policy *p, const weight_names *w)
{
    const weight_rule *wins = NULL;
    for (size_t i = p->n; i-- > 0;) {
        weight_rule *r = &p->rules[i];
        if (!rule_fits(r, w)) continue;
        r->fitted = true;
        r->used |= !wins;
        if (!wins) wins = r;
    }
    if (wins) return wins->type;
    if (w->table) return w->tied ? p->head : p->table;
    return strcmp(w->name, "dec.head") == 0 ? p->head : p->body;
}

int policy_check_used(const weight_policy *p, err *e)
{
    for (size_t i = 0; i < p->n; i++) {
        const weight_rule *r = &p->rules[i];
        if (!r->fitted)
            return err_set(e, ERR_USAGE, "%s: '%s' decides nothing: no matrix is called so", r->where, r->pattern);
        if (!r->used) log_line(LOG_WARN, "%s: '%s' decides nothing: lines below it win", r->where, r->pattern);
    }
    return OK;
}
