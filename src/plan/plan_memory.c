/* plan_memory.c - see plan_memory.h. */
#include "plan/plan_memory.h"

#include "base/mem.h"
#include "plan/plan_state.h"

#include <string.h>

/* The number of the memory that a rank has; false: it has one of its own. */
static bool memory_of(const plan_rank *r, int *number)
{
    const backend *be = r->seg.be;
    if (!be || !be->memory) return false;
    *number = be->memory(r->number);
    return true;
}

/* Whether two ranks here have one memory. */
static bool share_memory(const plan_rank *a, const plan_rank *b)
{
    int x, y;
    if (a == b) return true;
    if (!a->weights || !b->weights || !memory_of(a, &x) || !memory_of(b, &y)) return false;
    return x == y && (x == MEMORY_OF_PROCESS || a->seg.be == b->seg.be);
}

/* The first rank of memory number i; NULL: there are no more. */
static const plan_rank *first_in_memory(const plan *l, int i)
{
    for (int k = 0; k < l->n; k++) {
        const plan_rank *r = &l->ranks[k];
        bool known = false;
        for (int j = 0; j < k; j++) known = known || share_memory(&l->ranks[j], r);
        if (known || k == l->results_to || (!r->weights && !l->remote) || i-- > 0) continue;
        return r;
    }
    return NULL;
}

uint64_t rank_step_bytes(const plan_rank *r, const weight_set *w)
{
    const segment *s = &r->seg;
    return (uint64_t)r->n_lane * s->act_bytes + (s->be->overhead ? s->be->overhead(w, s->p, r->n_lane) : 0);
}

/* Memory of the process: the last, where no device has it but some have pages there. */
static bool find_process(const plan *l, int i, dtype k_type, dtype v_type, plan_room *out)
{
    bool any = false;
    if (!i || !first_in_memory(l, i - 1)) return false;
    for (const plan_rank *r = l->ranks; r < l->ranks + l->n; r++) {
        uint64_t own[GROUP_MAX] = {0};
        int number;
        if (r->weights && memory_of(r, &number) && number == MEMORY_OF_PROCESS) return false;
        if (r->weights) add_page_bytes(r, k_type, v_type, own, out->page);
    }
    for (int g = 0; g < GROUP_MAX; g++) any = any || out->page[g];
    out->of_process = true;
    out->left = mem_available();
    return any;
}

bool plan_memory(const plan *l, int i, dtype k_type, dtype v_type, plan_room *out)
{
    int number;
    const plan_rank *first = first_in_memory(l, i);
    *out = (plan_room){.left = 0};
    if (!first) return find_process(l, i, k_type, v_type, out);
    if (!first->weights) l->remote->memory(l->remote->self, (int)(first - l->ranks), k_type, v_type, out);
    out->of_process = memory_of(first, &number) ? number == MEMORY_OF_PROCESS : !first->seg.be;
    if (!first->weights) return true;
    for (const plan_rank *r = l->ranks; r < l->ranks + l->n; r++) {
        uint64_t elsewhere[GROUP_MAX] = {0};
        const bool shares = share_memory(first, r);
        if (!r->weights) continue;
        add_page_bytes(r, k_type, v_type, shares ? out->page : elsewhere, out->of_process ? out->page : elsewhere);
        if (!shares) continue;
        out->slot += program_slot_bytes(r->seg.p, 0);
        out->slot_row += program_slot_bytes(r->seg.p, 1) - program_slot_bytes(r->seg.p, 0);
        out->taken += rank_step_bytes(r, r->weights->set);
    }
    const uint64_t free = first->seg.be->budget(first->weights->set);
    out->left = free > out->taken ? free - out->taken : 0;
    return true;
}

bool plan_memory_has(const plan *l, int i, int device)
{
    const plan_rank *first = first_in_memory(l, i);
    return first && share_memory(first, &l->ranks[device]);
}

const char *plan_memory_node(const plan *l, int i)
{
    const plan_rank *first = first_in_memory(l, i);
    return first ? plan_node(l, (int)(first - l->ranks)) : NULL;
}
