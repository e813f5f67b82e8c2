/* recur_rows.h - what RECUR works on: its operands of a sequence, and where the numbers of its slot lie.
 *
 * Rows that are guesses (slot_seq.h) go on from a copy of the state; the slot keeps their values, keys and steps. Those
 * that hold are rows -taken … -1 of the next step.
 *
 * A slot holds a state of `rows` numbers for each column. Sixteen columns lie together, row after row, the last ones
 * closer if they are fewer: so a worker reads what it needs from one end to the other, and no two rows of it compete
 * for a line of the cache. */
#pragma once
#include "ops/slot_seq.h"

#include <string.h>

/* A step's sequence, and the shapes of the op. */
typedef struct recur_seq {
    const float *v;    /* [n, heads, width] */
    const float *keys; /* [n, key_heads, 2, rows]: a query, then a key */
    const float
        *step; /* [n, heads, per_head]: steps, then the strength if it is a number of its own; NULL: steps of 1 */
    const float *rate; /* [heads, rates] */
    float *y;          /* [n, heads, width] */
    slot_seq slot;
    int64_t apart_floats;                         /* of a row that is kept apart: values, keys, steps */
    int64_t dim, rows, width, key_heads, per_key; /* value heads of a key head */
    int64_t all_keys, all_steps;                  /* floats of a row in keys and in step */
    int64_t per_head, steps, rates;               /* steps: 0, 1 or rows; rates: 1 or rows */
    int64_t head0;                                /* value heads before the first one here */
    int strength;
    bool delta, tiled;
} recur_seq;

/* Shapes alone. */
static inline recur_seq recur_shape_of(const program *p, const op *o)
{
    const tensor *t = p->tensors;
    const int64_t dim = tensor_count(&t[o->out]), keys = tensor_count(&t[o->in[1]]), heads = o->u.recur.heads;
    const int64_t steps = o->in[2] ? tensor_count(&t[o->in[2]]) : 0;
    recur_seq s = {.dim = dim,
                   .rows = keys / 2 / o->u.recur.key_heads,
                   .width = dim / heads,
                   .key_heads = o->u.recur.key_heads,
                   .per_key = heads / o->u.recur.key_heads,
                   .all_keys = keys,
                   .all_steps = steps,
                   .per_head = steps / heads,
                   .rates = tensor_count(&t[o->in[3]]) / heads,
                   .head0 = o->u.recur.head0,
                   .strength = o->u.recur.strength,
                   .delta = o->u.recur.delta != 0,
                   .tiled = o->u.recur.tiled != 0};
    s.steps = s.per_head - (s.strength == RECUR_OWN);
    s.apart_floats = dim + keys + steps;
    return s;
}

/* From the operands of the step's row 0, which s has, those of a sequence. */
static inline void recur_seq_at(recur_seq *s, const step *st, const slot_store *slots, int32_t seq)
{
    s->slot = slot_seq_of(st, slots, seq, s->apart_floats);
    const int64_t row = s->slot.row;
    s->v += row * s->dim;
    s->keys += row * s->all_keys;
    if (s->step) s->step += row * s->all_steps;
    s->y += row * s->dim;
}

static inline recur_seq recur_seq_of(const run *r, const op *o, int32_t seq)
{
    recur_seq s = recur_shape_of(r->p, o);
    s.v = arg_at(r, o->in[0]);
    s.keys = arg_at(r, o->in[1]);
    s.step = arg_at(r, o->in[2]);
    s.rate = arg_at(r, o->in[3]);
    s.y = arg_at(r, o->out);
    recur_seq_at(&s, r->st, &r->slots[o->state], seq);
    return s;
}

/* Columns that lie together with column c; where row r of column c lies in a slot, the next row being as many floats
 * behind it. */
static inline int64_t recur_together(int64_t dim, int64_t c)
{
    return dim - c / LANES * LANES < LANES ? dim % LANES : LANES;
}
static inline int64_t recur_place(int64_t dim, int64_t rows, int64_t r, int64_t c)
{
    return c / LANES * LANES * rows + r * recur_together(dim, c) + c % LANES;
}

/* The values of row i of the sequence, -taken … n - 1. */
static inline const float *recur_values(const recur_seq *s, int64_t i)
{
    return i < 0 ? s->slot.was_apart + (s->slot.taken + i) * s->apart_floats : s->v + i * s->dim;
}

/* The key head of a value head; the query of a key head in row i, which its key follows; the query of a value head. */
static inline int64_t recur_key_head(const recur_seq *s, int64_t head)
{
    return s->tiled ? (s->head0 + head) % s->key_heads : head / s->per_key;
}
static inline const float *recur_query_at(const recur_seq *s, int64_t i, int64_t key_head)
{
    const float *keys = i < 0 ? recur_values(s, i) + s->dim : s->keys + i * s->all_keys;
    return keys + key_head * 2 * s->rows;
}
static inline const float *recur_query(const recur_seq *s, int64_t i, int64_t head)
{
    return recur_query_at(s, i, recur_key_head(s, head));
}

/* The steps of a value head in row i; NULL: it has none. */
static inline const float *recur_step(const recur_seq *s, int64_t i, int64_t head)
{
    if (!s->per_head) return NULL;
    const float *steps = i < 0 ? recur_values(s, i) + s->dim + s->all_keys : s->step + i * s->all_steps;
    return steps + head * s->per_head;
}

/* Whether the state after row i is the slot's, not that of a guess. */
static inline bool recur_is_sure(const recur_seq *s, int64_t i) { return i < s->slot.n - s->slot.apart; }

/* Keeps numbers from … to - 1 of the operands of rows that are kept apart. */
static inline void recur_keep_apart(const recur_seq *s, int64_t from, int64_t to)
{
    const int64_t keys = s->dim + s->all_keys;
    for (int64_t k = 0; k < s->slot.apart; k++) {
        const int64_t i = s->slot.n - s->slot.apart + k;
        const float *v = recur_values(s, i), *q = i < 0 ? v + s->dim : s->keys + i * (keys - s->dim);
        const float *by = i < 0 ? v + keys : s->step + i * (s->apart_floats - keys);
        float *kept = s->slot.kept_apart + k * s->apart_floats;
        for (int64_t j = from; j < to; j++) kept[j] = j < s->dim ? v[j] : j < keys ? q[j - s->dim] : by[j - keys];
    }
}

static inline float recur_strength(const recur_seq *s, const float *by)
{
    return s->strength == RECUR_OWN ? by[s->steps] : s->strength == RECUR_STEP ? by[0] : 1.0f;
}

/* Whether all rows of a state decay alike; what the decay of row r is the exponential of. */
static inline bool recur_has_one(const recur_seq *s) { return s->steps <= 1 && s->rates == 1; }
static inline float recur_exponent(const recur_seq *s, const float *rate, const float *by, int64_t r)
{
    return rate[s->rates > 1 ? r : 0] * (s->steps ? by[s->steps > 1 ? r : 0] : 1.0f);
}

/* A step without sure rows of the sequence passes on its columns from … to - 1; `from` is a multiple of LANES. */
static inline void recur_pass_on(const recur_seq *s, int64_t from, int64_t to)
{
    float *kept = s->slot.kept + from * s->rows;
    const size_t bytes = (size_t)((to - from) * s->rows) * sizeof *kept;
    if (recur_is_sure(s, -s->slot.taken) || to <= from) return;
    if (s->slot.was) memcpy(kept, s->slot.was + from * s->rows, bytes);
    else memset(kept, 0, bytes);
}
