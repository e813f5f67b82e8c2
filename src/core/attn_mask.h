/* attn_mask.h - which keys a row of ATTN sees, and the bias of a score by distance; which key/value head a query head
 * reads: the definition, for every device.
 *
 * Rows of the state's own axis see keys around their own position; rows of another axis (cross attention) see every
 * key. Both ends rise with the row's position, so the rows that see a tile are a run. */
#pragma once
#include "core/kv_type.h"
#include "core/step.h"

typedef struct attn_mask {
    const step_rows *rows, *keys; /* of the queries; of the state */
    int window, ahead, chunk;     /* op.u.attn */
    const float *values, *table;  /* BIAS_BUCKETS: [bucket][heads]; [2 * reach + 1] */
    int heads, reach;
    const float *own_places, *key_places; /* BIAS_PLACES: [row][heads][places]; NULL: none */
    int places;
    int row0; /* the row at hand less its position: row row0 + p is the key at position p */
} attn_mask;

/* Whether ATTN has slopes of heads as its biases; the places of a distance that rows or keys have vectors for. */
static inline bool attn_has_slopes(const op *o)
{
    return o->u.attn.bias == BIAS_ALIBI || o->u.attn.bias == BIAS_ALIBI_BF16;
}
static inline int attn_places_of(const program *p, const op *o)
{
    const ref any = o->in[ATTN_OWN_PLACES] ? o->in[ATTN_OWN_PLACES] : o->in[ATTN_KEY_PLACES];
    return (int)(tensor_count(&p->tensors[any]) / o->u.attn.heads);
}

/* Query heads of one key/value head, of `kv_heads` in the state. */
static inline int attn_per_kv(const op *o, int kv_heads)
{
    return o->u.attn.per_kv ? o->u.attn.per_kv : o->u.attn.heads / kv_heads;
}

/* The first query head here that reads key/value head `kv`, or a later one. */
static inline int attn_head_of(const op *o, int per_kv, int kv)
{
    const int64_t head = (int64_t)kv * per_kv - o->u.attn.head0;
    return head < 0 ? 0 : head < o->u.attn.heads ? (int)head : o->u.attn.heads;
}

/* The scale of products of queries and keys; where keys are codes, the scale goes to the query instead, once. */
static inline float attn_product_scale(const op *o, dtype k_type)
{
    return kv_is_codes(k_type) && o->u.attn.bias != BIAS_ALIBI_BF16 ? 1 : o->u.attn.scale;
}
static inline float attn_query_scale(const op *o, dtype k_type)
{
    return kv_is_codes(k_type) && o->u.attn.bias != BIAS_ALIBI_BF16 ? o->u.attn.scale : 1;
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

/* What the table has for the distance of a key. */
static inline int attn_by_distance(const attn_mask *s, int key, int own)
{
    int d = key - own;
    if (d < -s->reach) d = -s->reach;
    if (d > s->reach) d = s->reach;
    return (int)s->table[d + s->reach];
}

/* BIAS_BUCKETS: the bias of the score of a key. */
static inline float attn_bucket(const attn_mask *s, int head, int key, int own)
{
    return s->values[attn_by_distance(s, key, own) * s->heads + head];
}

/* BIAS_PLACES: the same, before it is scaled. */
static inline float attn_places(const attn_mask *s, int head, int key, int own)
{
    const int64_t width = (int64_t)s->heads * s->places, at = (int64_t)head * s->places + attn_by_distance(s, key, own);
    const float *of_row = s->own_places ? s->own_places + (s->row0 + own) * width : 0,
                *of_key = s->key_places ? s->key_places + (s->row0 + key) * width : 0;
    if (!of_key) return of_row[at];
    return of_row ? of_row[at] + of_key[at] : of_key[at];
}
