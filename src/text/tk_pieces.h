/* tk_pieces.h - a text cut into pieces: what pre-tokenizers hand on to each other. */
#pragma once
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct text_piece {
    uint32_t at, n; /* bytes of the text; never empty */
    bool first;     /* begins where the whole input began (Metaspace asks) */
} text_piece;

typedef struct piece_list {
    text_piece *v;
    size_t n, cap; /* {0} is a valid empty list */
} piece_list;

/* Appends; empty pieces vanish. false: out of memory. */
static inline bool piece_add(piece_list *l, size_t at, size_t end, bool first)
{
    if (at == end) return true;
    if (l->n == l->cap) {
        void *p = l->v;
        if (!mem_grow(&p, &l->cap, l->n + 1, sizeof *l->v)) return false;
        l->v = (text_piece *)p;
    }
    l->v[l->n++] = (text_piece){(uint32_t)at, (uint32_t)(end - at), first};
    return true;
}
