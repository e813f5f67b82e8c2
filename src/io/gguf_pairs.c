/* gguf_pairs.c - see gguf_pairs.h. */
#include "io/gguf_pairs.h"

#include "base/mem.h"

#include <string.h>

static void add_pair(gguf_pairs *p, const char *key, gguf_type type, gguf_type element, uint64_t count, span data)
{
    if (!mem_grow((void **)&p->pair, &p->cap, p->n + 1, sizeof *p->pair)) {
        p->bad = true;
        return;
    }
    gguf_pair *q = &p->pair[p->n];
    *q = (gguf_pair){.type = type, .element = element, .count = count};
    q->key = arena_str(&p->mem, key);
    q->data = span_of(arena_strn(&p->mem, (const char *)data.p, data.n), data.n);
    if (q->key && q->data.p) p->n++;
    else p->bad = true;
}

void gguf_add_value(gguf_pairs *p, const char *key, gguf_type type, span bytes)
{
    add_pair(p, key, type, type, 1, bytes);
}

void gguf_add_text(gguf_pairs *p, const char *key, const char *s)
{
    add_pair(p, key, GGUF_STRING, GGUF_STRING, 1, span_str(s));
}

void gguf_add_uint(gguf_pairs *p, const char *key, gguf_type type, uint64_t v)
{
    static const uint8_t size[GGUF_TYPE_COUNT] = {
#define X(id, value, bytes, kind) [value] = bytes,
        GGUF_TYPES(X)
#undef X
    };
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(v >> 8 * i);
    add_pair(p, key, type, type, 1, span_of(bytes, size[type]));
}

void gguf_add_float(gguf_pairs *p, const char *key, float v)
{
    add_pair(p, key, GGUF_F32, GGUF_F32, 1, span_of(&v, 4));
}

void gguf_add_array(gguf_pairs *p, const char *key, gguf_type element, uint64_t count, span packed)
{
    add_pair(p, key, GGUF_ARRAY, element, count, packed);
}

void gguf_add_all(gguf_pairs *p, const gguf_pairs *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const gguf_pair *q = &from->pair[i];
        bool known = false;
        for (size_t k = 0; k < p->n && !known; k++) known = strcmp(p->pair[k].key, q->key) == 0;
        if (!known) add_pair(p, q->key, q->type, q->element, q->count, q->data);
    }
    p->bad |= from->bad;
}

void gguf_pairs_free(gguf_pairs *p)
{
    mem_free(p->pair);
    arena_free(&p->mem);
    *p = (gguf_pairs){0};
}
