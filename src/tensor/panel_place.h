/* panel_place.h - the place of a block in a span of 16 rows (panel.h); the readers of blocks (panel_pack.c,
 * panel_codebooks.c) write through it. */
#pragma once
#include "tensor/panel.h"

#include <stddef.h>
#include <string.h>

typedef struct panel_place {
    panel_span *span;
    int r, k, block; /* row; weight of the span; weights with one scale */
    uint8_t *line;   /* of a reader that makes lines itself: word of row r in the first line of weight k's tile */
} panel_place;

/* Codes of the row from weight k on. */
static inline uint8_t *place_codes(const panel_place *to) { return to->span->code[to->r] + to->k; }

/* One level: scale of the block's b-th group of weights, base of its first. */
static inline void put_scale(const panel_place *to, int b, const void *bits, size_t bytes)
{
    uint32_t v = 0;
    memcpy(&v, bits, bytes);
    to->span->scale[to->k / to->block + b][to->r] = v;
}
static inline void put_base(const panel_place *to, uint16_t base) { to->span->base[to->k / to->block][to->r] = base; }

/* Two levels. */
static inline void put_d(const panel_place *to, uint16_t d, uint16_t dmin)
{
    to->span->d[to->r] = d;
    to->span->dmin[to->r] = dmin;
}
static inline void put_sub(const panel_place *to, int b, int scale) { to->span->sub[b][to->r] = (int8_t)scale; }
static inline void put_minimum(const panel_place *to, int b, int m) { to->span->minimum[b][to->r] = (uint8_t)m; }

/* Word w of the block's picks. */
static inline void put_picks(const panel_place *to, int each, int w, uint32_t picks)
{
    to->span->picks[to->k / (8 * each) + w][to->r] = picks;
}

/* Puts one block, which may have any alignment. */
typedef void panel_reader(const uint8_t *block, const panel_place *to);

/* copy_NAME, the reader by read_NAME of a block_NAME: a copy is aligned. */
#define PANEL_READER(name)                                                                                             \
    static void copy_##name(const uint8_t *block, const panel_place *to)                                               \
    {                                                                                                                  \
        block_##name b;                                                                                                \
        memcpy(&b, block, sizeof b);                                                                                   \
        read_##name(&b, to);                                                                                           \
    }

/* The reader of a type whose codes go straight into lines (at most WORDS_LINES a span), NULL for others. */
enum { WORDS_LINES = 48 };
panel_reader *panel_words_reader(dtype t);
