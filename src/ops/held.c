/* held.c - see held.h: where states lie in pages and slots, and what scratch space definitions need. */
#include "ops/run.h"

#include "core/kv_codes.h"
#include "core/route_pick.h"

void kv_layout(kv_store *s, const state *of, dtype k_type, dtype v_type)
{
    *s = (kv_store){.k_type = k_type, .v_type = v_type, .heads = of->heads, .k_dim = of->k_dim, .v_dim = of->v_dim};
    s->k_page = (uint64_t)of->heads * kv_tile_bytes(k_type, of->k_dim, false);
    s->v_page = (uint64_t)of->heads * kv_tile_bytes(v_type, of->v_dim, true);
}

uint64_t kv_place(kv_store *kv, const program *p, int group, dtype k_type, dtype v_type, uint8_t *base)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_state; i++) {
        if (p->states[i].kind != STATE_PAGES || p->states[i].group != group || !program_stores(p, i)) continue;
        kv_layout(&kv[i], &p->states[i], k_type, v_type);
        if (base) {
            kv[i].k = base + bytes;
            kv[i].v = kv[i].k + kv[i].k_page;
        }
        bytes += kv[i].k_page + kv[i].v_page;
    }
    for (uint32_t i = 0; i < p->n_state; i++)
        if (kv[i].k_page && p->states[i].group == group) kv[i].stride = bytes;
    return bytes;
}

static uint64_t in_lanes(int64_t floats) { return (uint64_t)(floats + LANES - 1) / LANES * LANES; }

uint64_t slots_place(slot_store *slots, const program *p, int rows, float *base)
{
    uint64_t floats = 0;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        if (!op_is(o, OPF_SLOT)) continue;
        slot_store *s = &slots[o->state];
        if (base) s->at = base + floats;
        s->rows = in_lanes(p->states[o->state].slot_floats);
        floats += s->rows + in_lanes(rows * program_slot_row(p, o));
    }
    for (uint32_t i = 0; i < p->n_op; i++)
        if (op_is(&p->ops[i], OPF_SLOT)) slots[p->ops[i].state].stride = floats;
    return floats;
}

/* MATMUL and its relatives decode a row of weights, EMBED none; ATTN has two sums of values and the codes of a query;
 * ROUTE and DISPATCH what they know of experts; RECUR has the state of a column that guesses have reached. */
uint64_t run_scratch_floats(const program *p)
{
    uint64_t most = (sizeof(route_row) + sizeof(float) - 1) / sizeof(float);
    for (uint32_t i = 0; i < p->n_weight; i++)
        if (!p->weights[i].vector && (uint64_t)p->weights[i].cols > most) most = (uint64_t)p->weights[i].cols;
    for (uint32_t i = 0; i < p->n_op; i++) {
        const op *o = &p->ops[i];
        const int64_t keys = o->kind == OP_RECUR ? tensor_count(&p->tensors[o->in[RECUR_KEYS]]) : 0;
        if (keys && (uint64_t)(keys / 2 / o->u.recur.key_heads) > most)
            most = (uint64_t)(keys / 2 / o->u.recur.key_heads);
    }
    for (uint32_t i = 0; i < p->n_state; i++) {
        const state *s = &p->states[i];
        const uint64_t codes = (uint64_t)kv_padded(DTYPE_I16, s->k_dim, false) + (uint64_t)s->k_dim;
        if (2 * (uint64_t)s->v_dim + codes + LANES > most) most = 2 * (uint64_t)s->v_dim + codes + LANES;
    }
    return (most + LANES - 1) / LANES * LANES;
}
