/* parcels.c - see parcels.h. */
#include "plan/parcels.h"

#include "base/mem.h"

/* Whether a parcel may go from one rank to the other. */
static bool may_go(const plan *l, const plan_rank *from, const plan_rank *to)
{
    const backend *be = from->seg.be;
    return l->wire == WIRE_F32 && be && to->seg.be == be && from->seg.on && to->seg.on && be->ways &&
           be->ways->parcel_open;
}

static parcel **place_of(const plan *l, const flight *f, uint32_t k, const plan_rank *from)
{
    return &f->parcels[(size_t)k * (size_t)l->n + (size_t)(from - l->ranks)];
}

static uint64_t parcel_bytes(const plan *l, uint32_t k, const plan_rank *from)
{
    const cut_range c = from->sends[k].columns;
    return passed_bytes(l, c.to - c.from, l->max_rows[l->p->tensors[l->cross[k].t].axis]);
}

int parcels_open(const plan *l, flight *f, err *e)
{
    int rc = OK;
    f->parcels = mem_zero((size_t)l->n_cross * (size_t)l->n + 1, sizeof *f->parcels);
    if (!f->parcels) return err_memory(e, "rows between devices");
    for (uint32_t k = 0; k < l->n_cross; k++)
        for (const plan_rank *from = l->ranks; from < l->ranks + l->n; from++) {
            bool any = false;
            for (const plan_rank *to = l->ranks; to < l->ranks + l->n; to++)
                any = any || (to->receives[k] && may_go(l, from, to));
            if (rc || !from->sends[k].t || !any) continue;
            rc = from->seg.be->ways->parcel_open(place_of(l, f, k, from), from->seg.on, parcel_bytes(l, k, from), e);
        }
    return rc;
}

void parcels_close(const plan *l, flight *f)
{
    for (uint32_t k = 0; f->parcels && k < l->n_cross; k++)
        for (const plan_rank *from = l->ranks; from < l->ranks + l->n; from++)
            if (*place_of(l, f, k, from)) from->seg.be->ways->parcel_close(*place_of(l, f, k, from));
    mem_free(f->parcels);
}

parcel *parcel_from(const plan *l, const flight *f, uint32_t k, const plan_rank *from)
{
    return f->st->n_tap ? NULL : *place_of(l, f, k, from);
}

parcel *parcel_for(const plan *l, const flight *f, uint32_t k, const plan_rank *from, const plan_rank *to)
{
    return may_go(l, from, to) ? parcel_from(l, f, k, from) : NULL;
}

bool parcels_leave(const plan *l, const flight *f, uint32_t k, const plan_rank *from)
{
    bool any = false;
    for (const plan_rank *to = l->ranks; to < l->ranks + l->n; to++)
        any = any || (to->receives[k] && to - l->ranks != l->results_to && !parcel_for(l, f, k, from, to));
    return any;
}
