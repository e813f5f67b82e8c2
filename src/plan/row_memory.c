/* row_memory.c - see row_memory.h. Pinning takes all pages at once, so very large memory, which is for the rarest
 * steps, is left as it is. */
#include "plan/row_memory.h"

#include "base/mem.h"

enum { PIN_MOST = 16 << 20 }; /* bytes */

/* A device that pins; NULL: none here does, or not so much. */
static const segment *pinning(const plan *l, uint64_t bytes)
{
    for (int i = 0; i < l->n && bytes <= PIN_MOST; i++)
        if (l->ranks[i].seg.on && l->ranks[i].seg.be->ways) return &l->ranks[i].seg;
    return NULL;
}

void *row_memory_take(const plan *l, uint64_t bytes)
{
    void *at = mem_map(bytes);
    const segment *s = at ? pinning(l, bytes) : NULL;
    if (s) s->be->ways->pin(s->on, at, bytes);
    return at;
}

void row_memory_give(const plan *l, void *at, uint64_t bytes)
{
    const segment *s = at ? pinning(l, bytes) : NULL;
    if (s) s->be->ways->unpin(s->on, at);
    mem_unmap(at, bytes);
}
