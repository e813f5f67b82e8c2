/* held.h - what a device holds between steps, as definitions and kernels read it: weights, pages of keys and values,
 * slots. The layout is the same on every device, so that pages and weights move between them as bytes. */
#pragma once
#include "base/gpu.h"
#include "core/program.h"

#include <stddef.h>
#include <stdint.h>

/* ---- weights */
typedef struct held_weight {
    const uint8_t *data;  /* row n at data + n * stride; packed: panel n / 16; any alignment; NULL: not bound yet */
    dtype type;           /* vectors: DTYPE_F32 */
    uint64_t stride;      /* bytes from row to row, or from panel to panel */
    bool packed;          /* tensor/panel.h */
    int64_t rows, cols;   /* vectors: rows = n, cols = 1, contiguous */
    const uint8_t **part; /* [weight.parts] first row of each where the files do not store them in one run; else NULL */
    void *own;            /* memory taken for it; NULL: used in the mapped file */
    uint64_t own_bytes;
    bool streams;   /* of the CPU: a vector body reads it for products with one row */
    uint8_t way[2]; /* and its cpu/fetch_way.h for one row of activations, for two */
} held_weight;

/* The run `part` of `rows` rows, as a weight of its own; packed: whole panels. */
static inline held_weight held_part(const held_weight *w, int64_t part, int64_t rows)
{
    held_weight h = *w;
    int64_t units = w->packed ? rows / 16 : rows;
    h.data = w->part ? w->part[part] : w->data + (uint64_t)(part * units) * w->stride;
    h.part = NULL;
    h.rows = rows;
    return h;
}

/* Row n as float32: cols values. */
GPU_CODE void held_row(const held_weight *w, int64_t n, float *to);

/* ---- keys and values. Of each page a state has, per head, a tile of keys [k_dim][PAGE_TOKENS] (transposed: 16 keys
 * are one vector) and a tile of values [PAGE_TOKENS][v_dim]; tiles of codes: kv_codes.h. A page holds the tiles of all
 * states of its group, because they are read and written together; so short contexts touch little memory. */
typedef struct kv_store {
    uint8_t *k, *v;  /* of page 0; 64-byte aligned */
    uint64_t stride; /* bytes from page to page */
    dtype k_type, v_type;
    int32_t heads, k_dim, v_dim;
    uint64_t k_page, v_page; /* bytes of this state in one page */
} kv_store;

/* The tile of one head in a page: keys, or values. */
static inline uint8_t *kv_tile(const kv_store *s, bool values, int32_t page, int64_t head)
{
    uint64_t tile = (values ? s->v_page : s->k_page) / (uint64_t)s->heads;
    return (values ? s->v : s->k) + (uint64_t)page * s->stride + (uint64_t)head * tile;
}

/* Fills types, sizes and their bytes. */
void kv_layout(kv_store *s, const state *of, dtype k_type, dtype v_type);

/* The pages of the states of one group that the program writes: fills kv[n_state] of those, tiles from `base` on, and
 * gives the bytes of a page; 0: it writes none. Called with base NULL first where the bytes are to be known. */
uint64_t kv_place(kv_store *kv, const program *p, int group, dtype k_type, dtype v_type, uint8_t *base);

/* ---- states of fixed size: of each slot, the floats of every STATE_SLOT that the device's segment has, and rows
 * apart (step.slot_apart), each as program_slot_row says. */
typedef struct slot_store {
    float *at;       /* of slot 0; 64-byte aligned */
    uint64_t stride; /* floats from slot to slot */
    uint64_t rows;   /* floats from `at` to the first row apart */
} slot_store;

static inline float *slot_at(const slot_store *s, int32_t slot) { return s->at + (uint64_t)slot * s->stride; }

/* Row i of those that a slot keeps apart, of `floats` each. */
static inline float *slot_row(const slot_store *s, int32_t slot, int64_t i, int64_t floats)
{
    return slot_at(s, slot) + s->rows + i * floats;
}

/* The slots of the states that the program has, with so many rows apart, likewise: fills slots[n_state], gives the
 * floats of a slot. */
uint64_t slots_place(slot_store *slots, const program *p, int rows, float *base);
