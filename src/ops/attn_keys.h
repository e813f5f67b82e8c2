/* attn_keys.h - which keys the rows of an ATTN see in a step: its core/attn_mask.h. */
#pragma once
#include "core/attn_mask.h"
#include "ops/run.h"

static inline attn_mask attn_mask_of(const run *r, const op *o)
{
    const program *p = r->p;
    attn_mask s = {.rows = step_rows_of(r->st, p->tensors[o->out].axis),
                   .keys = step_rows_of(r->st, p->states[o->state].axis),
                   .window = o->u.attn.window,
                   .ahead = o->u.attn.ahead,
                   .chunk = o->u.attn.chunk,
                   .values = NULL,
                   .table = NULL,
                   .heads = o->u.attn.heads,
                   .reach = 0};
    if (o->in[ATTN_TABLE]) {
        s.table = arg_at(r, o->in[ATTN_TABLE]);
        s.reach = (int)(arg_dim(r, o->in[ATTN_TABLE]) / 2);
    }
    if (o->u.attn.bias == BIAS_BUCKETS) s.values = arg_at(r, o->in[ATTN_BIAS]);
    if (o->u.attn.bias == BIAS_PLACES) {
        s.own_places = arg_at(r, o->in[ATTN_OWN_PLACES]);
        s.key_places = arg_at(r, o->in[ATTN_KEY_PLACES]);
        s.places = attn_places_of(r->p, o);
    }
    return s;
}

/* Slopes and sinks of the heads; NULL: none. */
static inline const float *attn_slopes(const run *r, const op *o)
{
    return attn_has_slopes(o) ? arg_at(r, o->in[ATTN_BIAS]) : NULL;
}
static inline const float *attn_sinks(const run *r, const op *o)
{
    return o->u.attn.bias == BIAS_PLACES ? NULL : arg_at(r, o->in[ATTN_SINKS]);
}
