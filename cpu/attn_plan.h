/* attn_plan.h - how the work of ATTN is divided: units of (rows of one sequence, one key/value head, some of its query
 * heads).
 *
 * The queries of a unit are its lines (rows x heads, heads fastest): they share every tile of keys and values. When
 * there are too few units to share evenly, workers take the ranges of ATTN_RANGE keys of each unit one by one and
 * merge them afterwards in the order of the contract, so this choice changes no bit. */
#pragma once
#include "cpu/cpu.h"
#include "ops/attn_keys.h"

enum { ATTN_LINES = 48 }; /* maximum number of lines of a unit */

typedef struct attn_plan {
    const step *st;
    attn_mask mask;
    const op *o;
    int kv_heads, per_kv; /* query heads of one key/value head; here the first and the last may have fewer */
} attn_plan;

/* Softmax state of the lines of a unit: maximum score, sum of exponentials, weighted sum of values [lines][padded
 * v_dim]. */
typedef struct attn_soft {
    float *max, *sum, *acc;
} attn_soft;

static inline uint64_t attn_padded(int64_t dim) { return ((uint64_t)dim + LANES - 1) / LANES * LANES; }
static inline uint64_t attn_soft_floats(uint64_t lines, int64_t v_dim) { return lines * (attn_padded(v_dim) + 2); }
static inline attn_soft attn_soft_at(float *memory, uint64_t lines, int64_t v_dim)
{
    float *max = memory + lines * attn_padded(v_dim);
    return (attn_soft){.acc = memory, .max = max, .sum = max + lines};
}

/* The scratch space of one worker. */
typedef struct attn_space {
    float *queries;      /* [lines][k_dim], or their codes: kv_codes.h */
    float *p;            /* [lines + 1][PAGE_TOKENS] scores, then exponentials */
    float *by;           /* [2 * lines: read in vectors] steps of weights in a score: kv_codes.h */
    float *k_codes;      /* of a tile of coded keys: scales and bases, each [blocks][PAGE_TOKENS] */
    float *v_wide;       /* a tile of values as floats, [PAGE_TOKENS][padded] */
    float *edge;         /* sums of a group of lines [ATTN_LINES][padded] that do not see whole tiles */
    attn_soft all, part; /* of the unit, of the range in work */
} attn_space;
static inline uint64_t attn_code_floats(int64_t k_dim) { return ((uint64_t)k_dim + 31) / 32 * 2 * PAGE_TOKENS; }
static inline uint64_t attn_space_floats(int64_t k_dim, int64_t v_dim)
{
    uint64_t tiles = attn_code_floats(k_dim) + attn_padded(v_dim) * (PAGE_TOKENS + ATTN_LINES);
    return ATTN_LINES * ((uint64_t)k_dim + 4) + (ATTN_LINES + 1) * PAGE_TOKENS + 2 * ATTN_LINES + tiles +
           2 * attn_soft_floats(ATTN_LINES, v_dim);
}
static inline attn_space attn_space_of(float *scratch, int64_t k_dim, int64_t v_dim)
{
    attn_space a = {.p = scratch};
    a.by = a.p + (ATTN_LINES + 1) * PAGE_TOKENS;
    a.k_codes = a.by + 2 * ATTN_LINES;
    a.v_wide = a.k_codes + attn_code_floats(k_dim);
    a.edge = a.v_wide + attn_padded(v_dim) * PAGE_TOKENS;
    float *sums = a.edge + attn_padded(v_dim) * ATTN_LINES;
    a.all = attn_soft_at(sums, ATTN_LINES, v_dim);
    a.part = attn_soft_at(sums + attn_soft_floats(ATTN_LINES, v_dim), ATTN_LINES, v_dim);
    a.queries = sums + 2 * attn_soft_floats(ATTN_LINES, v_dim);
    return a;
}

/* Lines of the next group when lines l … l1 - 1 are left: groups of about equal size, `most` lines at most. */
static inline int group_lines(int l, int l1, int most)
{
    int groups = (l1 - l + most - 1) / most;
    return (l1 - l + groups - 1) / groups;
}

typedef struct attn_unit {
    int seq, row0, rows, kv, head0, heads; /* first query head, of those here */
    int last;                              /* key that its last row sees */
    int range0, range1;                    /* first and last range of keys that a row sees */
} attn_unit;

static inline attn_plan attn_plan_of(const run *r, const op *o, const kv_store *s)
{
    return (attn_plan){r->st, attn_mask_of(r, o), o, s->heads, attn_per_kv(o, s->heads)};
}

/* The unit after *u, or the first when u->seq is -1; false at the end. Rows are fastest: the next unit reads the same
 * keys and values, often from the second-level cache. */
static inline bool attn_next(const attn_plan *p, attn_unit *u)
{
    const step_rows *rows = p->mask.rows;
    int row = u->seq >= 0 ? u->row0 + u->rows : 0;
    if (u->seq < 0 || row >= rows->seq_row[u->seq + 1]) {
        u->head0 += u->heads; /* nothing is left out: heads of a key/value head, then those of the next */
        if (u->seq < 0 || u->head0 == p->o->u.attn.heads) {
            do
                if (++u->seq >= p->st->n_seq) return false;
            while (rows->seq_row[u->seq] == rows->seq_row[u->seq + 1]);
            u->kv = u->head0 = 0;
        }
        if (u->head0 == attn_head_of(p->o, p->per_kv, u->kv + 1)) u->kv++;
        u->heads = group_lines(u->head0, attn_head_of(p->o, p->per_kv, u->kv + 1), ATTN_LINES);
        row = rows->seq_row[u->seq];
    }
    const int left = rows->seq_row[u->seq + 1] - row, most = ATTN_LINES / u->heads;
    u->row0 = row;
    u->rows = left < most ? left : most;
    u->range0 = attn_first(&p->mask, rows->pos[row]) / ATTN_RANGE;
    u->last = attn_last(&p->mask, u->seq, rows->pos[row + u->rows - 1]);
    u->range1 = u->last / ATTN_RANGE;
    return true;
}
