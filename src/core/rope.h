/* rope.h - rotary positions as tables of cosines and sines, built at load; kernels know no kind of scaling.
 *
 * RoPE: Su et al. 2021 (arXiv 2104.09864). A set holds one table per variant: most scalings have one; longrope has two
 * (short and long), chosen by the length a sequence is admitted with; dynamic NTK has one per admitted length above the
 * original. A sequence's variant is fixed at admission, so that its tokens never depend on what comes later. */
#pragma once
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, spec name, source) */
#define ROPE_SCALING_LIST(X)                                                                                           \
    X(NONE, "none", "arXiv 2104.09864")                                                                                \
    X(LINEAR, "linear", "position interpolation, arXiv 2306.15595")                                                    \
    X(DYNAMIC, "dynamic", "NTK-aware scaling by the admitted length")                                                  \
    X(YARN, "yarn", "arXiv 2309.00071")                                                                                \
    X(LLAMA3, "llama3", "Llama 3.1: three bands of wavelengths")                                                       \
    X(LONGROPE, "longrope", "arXiv 2402.13753: a factor per frequency, short and long")

typedef enum rope_scaling {
#define X(id, name, doc) ROPE_##id,
    ROPE_SCALING_LIST(X)
#undef X
        ROPE_SCALING_COUNT
} rope_scaling;
/* "none|linear|…": all of them as an option takes them (PARAM_WORD). */
#define ROPE_SCALING_WORD(id, name, doc) "|" name
#define ROPE_SCALING_WORDS               (&ROPE_SCALING_LIST(ROPE_SCALING_WORD)[1])

enum { ROPE_DIMS_MAX = 1024 };

typedef struct rope_params {
    int scaling; /* ROPE_* */
    int dims;    /* rotated dimensions per head, even, <= ROPE_DIMS_MAX */
    double theta, factor;
    int original;                            /* original_max_position_embeddings; 0 unknown */
    int max_positions;                       /* max_position_embeddings of the config */
    double low_freq, high_freq;              /* llama3 */
    double beta_fast, beta_slow;             /* yarn: 32, 1 */
    double mscale, mscale_all_dim;           /* yarn, 0 = absent */
    double attention_factor;                 /* yarn, longrope; 0 = computed */
    bool truncate;                           /* yarn: correction range rounded to whole dimensions (true by default) */
    const float *short_factor, *long_factor; /* longrope: dims / 2 each, owned by the program */
} rope_params;

typedef struct rope_variant {
    float *table; /* [positions][dims / 2] cosines, then as many sines */
    size_t bytes;
    int length;     /* dynamic: the admitted length it is made for */
    uint32_t users; /* sequences admitted and not released */
    uint32_t serial;
} rope_variant;

typedef struct rope_set {
    rope_params params;
    rope_variant *variant; /* built on demand by rope_admit */
    uint32_t n_variant, cap;
    int ctx;         /* positions per table */
    uint32_t serial; /* of the table built last */
} rope_set;

/* Checks the parameters; rope_fill builds variant 0, for positions 0 … ctx-1, unless it is there. */
int rope_init(rope_set *r, const rope_params *p, int ctx, err *e);
int rope_fill(rope_set *r, err *e);
void rope_close(rope_set *r);
/* The variant for a sequence that will hold at most `length` tokens: an index, stable until rope_release; or a negative
 * code (ERR_MEMORY, ERR_LIMIT when too many distinct dynamic lengths are in use). Not thread-safe: called by the engine
 * thread, between steps. */
int rope_admit(rope_set *r, int length, err *e);
void rope_release(rope_set *r, int variant); /* the sequence is gone */
/* A length that is given the same table, on any machine: what a variant is called where indices mean nothing. 0: any
 * that the model was made for. */
int rope_length(const rope_set *r, int variant);
/* The dims / 2 frequencies for a sequence of `length` tokens, and the factor that cosines and sines carry. */
void rope_frequencies(const rope_params *p, int length, float *inv, float *scale);

/* Tables of a variant: [ctx][dims / 2] cosines and sines (attention factor included); of a dynamic variant the first
 * `length` positions. */
static inline const float *rope_cos(const rope_set *r, int variant) { return r->variant[variant].table; }
static inline const float *rope_sin(const rope_set *r, int variant)
{
    const rope_variant *v = &r->variant[variant];
    return v->table + v->bytes / (2 * sizeof *v->table);
}
/* Another number for each table that was built: indices are used again. For devices that hold copies. Not 0. */
uint32_t rope_serial(const rope_set *r, int variant);
