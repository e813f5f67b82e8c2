/* fake_state.h - inside the device that is nobody's: what its two files share. */
#pragma once
#include "fake_backend.h"

#include "ops/run.h"
#include "tensor/panel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(that, ...)                                                                                               \
    do {                                                                                                               \
        if (!(that)) {                                                                                                 \
            fprintf(stderr, "fake device: " __VA_ARGS__);                                                              \
            fprintf(stderr, "\n");                                                                                     \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { ALIGN = 64, VARIANTS = 64, CANARY = 0xa5 };

typedef struct matrix {
    bool wanted;
    dtype type;
    int64_t rows, cols;
    uint64_t row_bytes, block_bytes;
    uint8_t *blocks;     /* [blocks of a row][rows] */
    panel_strip *strips; /* [spans of a row][rows]; of packed weights, instead */
} matrix;

/* The pages of a state: [page][token][head] records. */
typedef struct cache {
    uint8_t *at; /* NULL: not in this segment */
    kv_store like;
    uint64_t k_bytes, v_bytes, token_bytes; /* of the keys of a head of a token, of the values, of all heads */
} cache;

/* The slots of a state: [floats][slot]. */
typedef struct slots {
    float *at; /* NULL: not in this segment */
    int32_t n;
} slots;

typedef struct rope_table {
    uint32_t serial;
    float *at; /* [positions][dims / 2] cosines, then sines */
    uint64_t floats;
} rope_table;

/* A segment as it was compiled, and its step. */
typedef struct placed {
    program seen; /* p with constants in the device's memory */
    segment part;
    uint8_t *act;
    step st;          /* in the device's memory */
    uint32_t stretch; /* the next one, or the one at work */
    const step *now;  /* the step that was sent */
    int32_t *rows[16], *rope_of, *out, *pool, *table, *known;
    page_copy *copies;
    float *vec;
    int32_t page_cap;
} placed;

/* A mapping from whose beginning memory is taken. */
typedef struct mapping {
    uint8_t *at;
    uint64_t bytes, used;
} mapping;

/* Weights, the same for all devices over them. */
typedef struct fake_weights {
    const program *p;
    fake_options o;
    mapping memory;
    atomic_ullong taken;  /* by devices */
    atomic_bool lost;     /* and so are they */
    pthread_mutex_t lock; /* of: */
    int readers;          /* whoever is at work: the memory can be read */
    matrix *weights;      /* [n_weight] */
    held_weight *held;    /* [n_weight] vectors */
} fake_weights;

typedef struct fake {
    fake_weights *w;
    const program *p;
    int max_rows[AXIS_COUNT];
    cache_options pages;
    mapping memory;
    bool has_slots;

    cache *states;     /* [n_state] */
    slots *slots;      /* [n_state] */
    rope_table *ropes; /* [n_rope][VARIANTS] */
    float *row;        /* of a matrix, as floats; or scales of activations in `raw` */
    uint8_t *raw;      /* the same in blocks, or codes of activations */
    uint8_t *tiles;    /* of one state, in the CPU's order */

    /* What definitions see: vectors, and matrices of one op with a slot; tiles and slots of one op; working memory. */
    held_weight *held;     /* [n_weight] */
    kv_store *kv;          /* [n_state] */
    slot_store *slot_view; /* [n_state] */
    float *slot_memory;    /* slots of one state, in the order of definitions */
    float *slot_weights;   /* matrices of one op with a slot, likewise */
    float *scratch;
    placed *at; /* the segment at work, or the last one */
    int32_t most_seq;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool working, stopping;
    uint64_t turn;
} fake;

/* The rows or panels of a weight, from the order of files. */
void matrix_take(const matrix *w, const uint8_t *from);

/* Bytes of the keys or values of one head and token. */
uint64_t record_bytes(dtype t, int32_t dim, bool values);
/* A page, to the CPU's order or from it. */
void page_move(const cache *c, int32_t page, uint8_t *tiles, bool to_tiles);

/* A stretch of the step that was sent, on the device's thread. */
void run_stretch(fake *d, uint32_t stretch);

/* Floats of a slot of an op: its state, and rows apart. */
static inline uint64_t fake_slot_floats(const fake *d, const op *o)
{
    return (uint64_t)(d->p->states[o->state].slot_floats + d->pages.slot_rows * program_slot_row(d->p, o));
}
