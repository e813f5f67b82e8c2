/* grammar_phrase.c - see grammar_phrase.h. Ranges of characters become ranges of bytes as in RE2: a range is
 * cut where the number of bytes changes, and where not all values of the bytes after the first that differs are in
 * it. */
#include "sample/grammar_phrase.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

void grammar_builder_open(grammar_builder *b, err *e)
{
    *b = (grammar_builder){.deadline = clock_now() + GRAMMAR_SECONDS_MAX, .e = e};
}

void grammar_builder_close(grammar_builder *b)
{
    arena_free(&b->mem);
    map_free(&b->names);
    mem_free(b->rule);
    *b = (grammar_builder){0};
}

bool grammar_builder_good(grammar_builder *b, size_t more)
{
    if (b->e->code) return false;
    const size_t held = b->mem.total + b->cap_rule * sizeof *b->rule;
    if (held > GRAMMAR_BYTES_MAX || more > GRAMMAR_BYTES_MAX - held)
        err_set(b->e, ERR_LIMIT, "the grammar needs more than %d MiB: use fewer or smaller repetitions",
                GRAMMAR_BYTES_MAX >> 20);
    else if (++b->steps % 256 == 0 && clock_now() > b->deadline)
        err_set(b->e, ERR_LIMIT, "the grammar takes more than %d s to compile", GRAMMAR_SECONDS_MAX);
    return !b->e->code;
}

static void *take_memory(grammar_builder *b, size_t count, size_t size)
{
    uint64_t bytes;
    if (!mem_mul(count, size, &bytes)) bytes = SIZE_MAX;
    if (!grammar_builder_good(b, bytes)) return NULL;
    void *p = arena_alloc(&b->mem, bytes);
    if (!p) err_memory(b->e, "a grammar");
    return p;
}

static span copy_text(grammar_builder *b, span s)
{
    uint8_t *p = take_memory(b, s.n, 1);
    if (!p) return (span){0};
    if (s.n) memcpy(p, s.p, s.n);
    return span_of(p, s.n);
}

uint32_t grammar_rule_new(grammar_builder *b, span name, phrase *body)
{
    void *p = b->rule;
    const span own = copy_text(b, name);
    if (!grammar_builder_good(b, sizeof *b->rule)) return 0;
    if (!mem_grow(&p, &b->cap_rule, b->n_rule + 1, sizeof *b->rule)) {
        err_memory(b->e, "a grammar");
        return 0;
    }
    b->rule = p;
    b->rule[b->n_rule] = (grammar_rule){.name = own, .body = body};
    return (uint32_t)b->n_rule++;
}

uint32_t grammar_rule_named(grammar_builder *b, span name)
{
    uint32_t at = map_get(&b->names, name);
    if (at != MAP_NONE) return at;
    at = grammar_rule_new(b, name, NULL);
    if (!b->e->code && !map_put(&b->names, b->rule[at].name, at)) err_memory(b->e, "a grammar");
    return at;
}

static phrase *make_phrase(grammar_builder *b, phrase_kind kind)
{
    phrase *x = take_memory(b, 1, sizeof *x);
    if (x) x->kind = kind;
    return x;
}

phrase *phrase_never(grammar_builder *b) { return make_phrase(b, PHRASE_NEVER); }

phrase *phrase_text(grammar_builder *b, span text)
{
    phrase *x = make_phrase(b, PHRASE_TEXT);
    if (x) x->text = copy_text(b, text);
    return x;
}

phrase *phrase_string(grammar_builder *b, const char *text) { return phrase_text(b, span_str(text)); }

phrase *phrase_set(grammar_builder *b, byte_set set)
{
    phrase *x = make_phrase(b, PHRASE_SET);
    if (x) x->set = set;
    return x;
}

phrase *phrase_range(grammar_builder *b, unsigned from, unsigned to)
{
    byte_set s = {0};
    byte_set_add(&s, from, to);
    return phrase_set(b, s);
}

phrase *phrase_rule(grammar_builder *b, uint32_t rule)
{
    phrase *x = make_phrase(b, PHRASE_RULE);
    if (x) x->rule = rule;
    return x;
}

phrase *phrase_repeat(grammar_builder *b, phrase *of, int64_t min, int64_t max)
{
    phrase *x = make_phrase(b, PHRASE_REPEAT);
    if (!x || !(x->item = take_memory(b, 1, sizeof(phrase *)))) return NULL;
    x->item[0] = of;
    x->n = 1;
    x->min = min;
    x->max = max;
    return x;
}

phrase *phrase_list(grammar_builder *b, phrase_kind kind) { return make_phrase(b, kind); }

/* Arrays of 1, 2, 4, … */
phrase *phrase_add(grammar_builder *b, phrase *list, phrase *x)
{
    if (!list || !x) return NULL;
    if ((list->n & (list->n - 1)) == 0) {
        phrase **more = take_memory(b, list->n ? 2 * list->n : 1, sizeof *more);
        if (!more) return NULL;
        if (list->n) memcpy(more, list->item, list->n * sizeof *more);
        list->item = more;
    }
    list->item[list->n++] = x;
    return list;
}

static phrase *two(grammar_builder *b, phrase_kind kind, phrase *x, phrase *y)
{
    return phrase_add(b, phrase_add(b, phrase_list(b, kind), x), y);
}

phrase *phrase_both(grammar_builder *b, phrase *x, phrase *y) { return two(b, PHRASE_SEQUENCE, x, y); }
phrase *phrase_either(grammar_builder *b, phrase *x, phrase *y) { return two(b, PHRASE_CHOICE, x, y); }
phrase *phrase_common(grammar_builder *b, phrase *x, phrase *y) { return two(b, PHRASE_COMMON, x, y); }

phrase *phrase_needed(grammar_builder *b, phrase *x, const char *otherwise)
{
    const span told = copy_text(b, span_of(otherwise, strlen(otherwise) + 1));
    const uint32_t rule = grammar_rule_new(b, span_str("a text that is needed"), x);
    if (grammar_builder_good(b, 0)) b->rule[rule].needed = (const char *)told.p;
    return phrase_rule(b, rule);
}

/* ---- characters */

bool char_class_add(grammar_builder *b, char_class *c, uint32_t from, uint32_t to)
{
    if (c->n == c->cap) {
        char_range *more = take_memory(b, c->cap ? 2 * c->cap : 8, sizeof *more);
        if (!more) return false;
        if (c->n) memcpy(more, c->p, c->n * sizeof *more);
        c->p = more;
        c->cap = c->cap ? 2 * c->cap : 8;
    }
    c->p[c->n++] = (char_range){from, to};
    return true;
}

static int by_from(const void *a, const void *b)
{
    const char_range *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

bool char_class_close(grammar_builder *b, char_class *c, bool negated)
{
    char_class out = {0};
    uint32_t next = 0; /* the first that no range has reached yet */
    if (c->n) qsort(c->p, c->n, sizeof *c->p, by_from);
    char_class merged = {0};
    for (size_t i = 0; i < c->n; i++) {
        if (merged.n && c->p[i].from <= merged.p[merged.n - 1].to + 1) {
            if (c->p[i].to > merged.p[merged.n - 1].to) merged.p[merged.n - 1].to = c->p[i].to;
        } else if (!char_class_add(b, &merged, c->p[i].from, c->p[i].to)) {
            return false;
        }
    }
    if (negated) {
        for (size_t i = 0; i < merged.n; i++) {
            if (merged.p[i].from > next && !char_class_add(b, &out, next, merged.p[i].from - 1)) return false;
            next = merged.p[i].to + 1;
        }
        if (next <= CHAR_MAX_CODE && !char_class_add(b, &out, next, CHAR_MAX_CODE)) return false;
        merged = out;
        out = (char_class){0};
    }
    for (size_t i = 0; i < merged.n; i++) { /* no surrogates */
        const char_range r = merged.p[i];
        const char_range low = {r.from, r.to < 0xd7ff ? r.to : 0xd7ff},
                         high = {r.from > 0xe000 ? r.from : 0xe000, r.to};
        if (low.from <= low.to && !char_class_add(b, &out, low.from, low.to)) return false;
        if (high.from <= high.to && !char_class_add(b, &out, high.from, high.to)) return false;
    }
    *c = out;
    return true;
}

/* Adds a range of characters of equal length that differ in the last bytes only, or cuts it into such ranges. */
static void add_bytes(grammar_builder *b, phrase *list, uint32_t from, uint32_t to)
{
    static const uint32_t last[] = {0x7f, 0x7ff, 0xffff};
    for (int i = 0; i < 3; i++)
        if (from <= last[i] && to > last[i]) {
            add_bytes(b, list, from, last[i]);
            add_bytes(b, list, last[i] + 1, to);
            return;
        }
    for (int i = 1; i < 4 && to > 0x7f; i++) {
        const uint32_t tail = (UINT32_C(1) << (6 * i)) - 1;
        if ((from & ~tail) == (to & ~tail)) continue;
        if (from & tail) {
            add_bytes(b, list, from, from | tail);
            add_bytes(b, list, (from | tail) + 1, to);
            return;
        }
        if ((to & tail) != tail) {
            add_bytes(b, list, from, (to & ~tail) - 1);
            add_bytes(b, list, to & ~tail, to);
            return;
        }
    }
    uint8_t low[4], high[4];
    const size_t n = utf8_encode(from, low);
    utf8_encode(to, high);
    phrase *bytes = phrase_list(b, PHRASE_SEQUENCE);
    for (size_t i = 0; i < n; i++) bytes = phrase_add(b, bytes, phrase_range(b, low[i], high[i]));
    phrase_add(b, list, bytes);
}

phrase *phrase_class(grammar_builder *b, const char_class *c)
{
    phrase *list = phrase_list(b, PHRASE_CHOICE);
    byte_set ascii = {0};
    bool any = false;
    for (size_t i = 0; i < c->n && c->p[i].from < 0x80; i++) {
        byte_set_add(&ascii, c->p[i].from, c->p[i].to < 0x7f ? c->p[i].to : 0x7f);
        any = true;
    }
    if (any) phrase_add(b, list, phrase_set(b, ascii));
    for (size_t i = 0; i < c->n && grammar_builder_good(b, 0); i++)
        if (c->p[i].to > 0x7f) add_bytes(b, list, c->p[i].from > 0x80 ? c->p[i].from : 0x80, c->p[i].to);
    return b->e->code ? NULL : list;
}
