/* panel_tail.h - the parts of a tail (panel.h), for those that write panels and those that read them. */
#pragma once
#include "tensor/panel.h"

/* Constants of a kind. */
#define PANEL_SCALE_BYTES(scale)             ((scale) == PANEL_F32 ? 4 : (scale) == PANEL_F16 ? 2 : 1)
#define PANEL_ROW_BYTES(blocks, scale, base) /* of the tail, for one row, without picks */                             \
    ((scale) == PANEL_SUB8   ? ((base) != PANEL_NONE ? 4 + 2 * (blocks) : 2 + (blocks))                                \
     : (scale) == PANEL_SUB4 ? 4 + (blocks)                                                                            \
                             : (blocks) * (PANEL_SCALE_BYTES(scale) + ((base) != PANEL_NONE ? 2 : 0)))

/* Picks: weights that have one, bits of one, words of eight in `tiles` tiles. */
static inline int panel_pick_weights(const panel_format *f) { return f->code == PANEL_PICK8 ? 8 : 16; }
static inline int panel_pick_bits(const panel_format *f) { return f->bits == 4 ? 3 : 4; }
static inline int panel_pick_words(const panel_format *f, int tiles)
{
    return panel_picks(f->code) ? (tiles * PANEL_K + 8 * panel_pick_weights(f) - 1) / (8 * panel_pick_weights(f)) : 0;
}

static inline int panel_tail_lines(const panel_format *f, int tiles)
{
    return f->tail_lines - panel_pick_words(f, f->span / PANEL_K) + panel_pick_words(f, tiles);
}

/* Offset of the byte of a block and row: two blocks side by side. */
static inline int panel_pair_at(int b, int r) { return (b / 2 * PANEL_ROWS + r) * 2 + b % 2; }
