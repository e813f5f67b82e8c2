/* plan_pages.c - see plan_pages.h. */
#include "plan/plan_pages.h"

#include "plan/plan_state.h"

bool plan_page_bytes(const plan *l, uint64_t page[GROUP_MAX])
{
    memset(page, 0, GROUP_MAX * sizeof *page);
    for (int i = 0; i < l->n; i++)
        if (l->ranks[i].seg.on) add_page_bytes(&l->ranks[i], l->cache.k_type, l->cache.v_type, page, page);
    return !l->n_remote;
}

uint64_t plan_slot_bytes(const plan *l)
{
    uint64_t sum = 0;
    for (int i = 0; i < l->n; i++)
        if (l->ranks[i].seg.on) sum += program_slot_bytes(l->ranks[i].seg.p, 0);
    return sum;
}

void plan_page_layout(const plan *l, buf *out)
{
    buf_printf(out, "cache %s %s\n", dtype_info[l->cache.k_type].name, dtype_info[l->cache.v_type].name);
    for (int i = 0; i < l->n; i++) {
        const program *p = l->ranks[i].seg.p;
        for (uint32_t k = 0; l->ranks[i].seg.on && k < p->n_state; k++) {
            const state *s = &p->states[k];
            if (program_stores(p, k))
                buf_printf(out, "rank %d group %d heads %lld keys %lld values %lld\n", i, s->group, (long long)s->heads,
                           (long long)s->k_dim, (long long)s->v_dim);
            if (s->kind == STATE_SLOT) buf_printf(out, "rank %d slot %lld\n", i, (long long)s->slot_floats);
        }
    }
}

static int move_page(plan *l, int group, int32_t page, uint8_t *to, const uint8_t *from, err *e)
{
    int rc = OK;
    uint64_t at = 0;
    for (int i = 0; i < l->n && !rc; i++) {
        const segment *s = &l->ranks[i].seg;
        uint64_t bytes[GROUP_MAX + 1] = {0};
        if (!s->on) continue;
        add_page_bytes(&l->ranks[i], l->cache.k_type, l->cache.v_type, bytes, bytes);
        bytes[GROUP_MAX] = program_slot_bytes(s->p, 0);
        if (!bytes[group]) continue;
        rc = to ? s->be->page_get(s->on, group, page, to + at, e) : s->be->page_put(s->on, group, page, from + at, e);
        at += bytes[group];
    }
    return rc;
}

int plan_page_get(plan *l, int group, int32_t page, uint8_t *to, err *e)
{
    return move_page(l, group, page, to, NULL, e);
}

int plan_page_put(plan *l, int group, int32_t page, const uint8_t *from, err *e)
{
    return move_page(l, group, page, NULL, from, e);
}
