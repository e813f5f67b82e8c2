/* attn_mask.h - which keys a row of ATTN sees, and the bias of a score by distance: the definition, for reference and
 * vector kernels.
 *
 * Rows of the state's own axis see keys around their own position; rows of another axis (cross attention) see every
 * key. Both ends rise with the row's position, so the rows that see a tile are a run. */
#pragma once
#include "core/kv_type.h"
#include "cpu/cpu.h"

typedef struct attn_mask {
    const step_rows *rows, *keys; /* of the queries; of the state */
    int window, ahead, chunk;     /* op.u.attn */
    const float *values, *table;  /* BIAS_BUCKETS: [bucket][heads]; [2 * reach + 1] */
    int heads, reach;
} attn_mask;

static inline attn_mask attn_mask_of(const run *r, const op *o)
{
    const program *p = r->seg->p;
    attn_mask s = {.rows = step_rows_of(r->st, p->tensors[o->out].axis),
                   .keys = step_rows_of(r->st, p->states[o->state].axis),
                   .window = o->u.attn.window,
                   .ahead = o->u.attn.ahead,
                   .chunk = o->u.attn.chunk,
                   .heads = o->u.attn.heads};
    if (o->u.attn.bias == BIAS_BUCKETS) {
        s.values = arg_at(r, o->in[ATTN_BIAS]);
        s.table = arg_at(r, o->in[ATTN_TABLE]);
        s.reach = (int)(arg_dim(r, o->in[ATTN_TABLE]) / 2);
    }
    return s;
}

/* The scale of products of queries and keys; where keys are codes, the scale goes to the query instead, once. */
static inline float attn_product_scale(const op *o, const kv_store *s)
{
    return kv_is_codes(s->k_type) && o->u.attn.bias != BIAS_ALIBI_BF16 ? 1 : o->u.attn.scale;
}
static inline float attn_query_scale(const op *o, const kv_store *s)
{
    return kv_is_codes(s->k_type) && o->u.attn.bias != BIAS_ALIBI_BF16 ? o->u.attn.scale : 1;
}

/* Is a score a product times a scale? */
static inline bool attn_is_plain(const op *o) { return o->u.attn.bias == BIAS_NONE && o->u.attn.softcap == 0; }

/* First key that a row at `own` sees. */
static inline int attn_first(const attn_mask *s, int own)
{
    int first = s->window && own >= s->window ? own - s->window + 1 : 0;
    int chunk = s->chunk ? own / s->chunk * s->chunk : 0;
    return first > chunk ? first : chunk;
}

/* Last key that a row at `own` of sequence `seq` sees; -1: none. */
static inline int attn_last(const attn_mask *s, int seq, int own)
{
    if (s->ahead == 0) return own;
    int last = s->keys->seq_len[seq] - 1;
    return s->ahead >= last || own > last - s->ahead ? last : own + s->ahead;
}

/* BIAS_BUCKETS: the bias of the score of a key. */
static inline float attn_bucket(const attn_mask *s, int head, int key, int own)
{
    int d = key - own;
    if (d < -s->reach) d = -s->reach;
    if (d > s->reach) d = s->reach;
    return s->values[(int)s->table[d + s->reach] * s->heads + head];
}
