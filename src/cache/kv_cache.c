/* kv_cache.c - see kv_cache.h. */
#include "cache/kv_cache.h"

#include "base/mem.h"
#include "cache/snapshot_worth.h"

int32_t kv_pages(const kv_cache *c)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < c->p->n_group; i++) sum += c->pages[i].total;
    return sum;
}

int kv_open(kv_cache *c, const program *p, const cache_options *of, err *e)
{
    c->p = p;
    c->slot_rows = of->slot_rows;
    int rc = of->n_slot ? pages_open(&c->slots, of->n_slot, e) : OK;
    for (uint32_t i = 0; i < p->n_group && !rc; i++) rc = pages_open(&c->pages[i], of->n_page[i], e);
    if (!rc) rc = tree_open(&c->tree, c->pages, (int)p->n_group, &c->slots, e);
    if (!rc && of->n_slot) rc = snapshot_log_open(&c->tree.log, of->n_slot, e);
    c->tree.least_slot = snapshot_least;
    for (uint32_t i = 0; i < p->n_group; i++)
        c->tree.needed |= (uint32_t)(p->group_axis[i] == AXIS_TOK && !p->group_window[i]) << i;
    c->copies = mem_array((size_t)kv_pages(c) + 1, sizeof *c->copies);
    if (!rc && !c->copies) rc = err_memory(e, "copies of KV pages");
    return rc;
}

void kv_close(kv_cache *c)
{
    snapshot_log_close(c->tree.log);
    tree_close(&c->tree);
    for (int i = 0; i < GROUP_MAX; i++) pages_close(&c->pages[i]);
    pages_close(&c->slots);
    mem_free(c->copies);
}

/* Takes the copy to this page out. Returns the page that would have been copied; -1: none. */
static int32_t forget_copy(kv_cache *c, uint32_t group, int32_t page)
{
    for (int32_t i = 0; i < c->n_copy; i++) {
        const page_copy x = c->copies[i];
        if ((uint32_t)x.group != group || x.to != page) continue;
        c->copies[i] = c->copies[--c->n_copy];
        return x.from;
    }
    return -1;
}

void kv_give_page(kv_cache *c, uint32_t group, int32_t *page)
{
    const int32_t from = forget_copy(c, group, *page);
    if (from >= 0) pages_give(&c->pages[group], from);
    pages_give(&c->pages[group], *page);
    *page = -1;
}

void kv_copy_page(kv_cache *c, uint32_t group, int32_t from, int32_t to)
{
    const int32_t other = forget_copy(c, group, to);
    if (other >= 0) pages_give(&c->pages[group], other);
    pages_hold(&c->pages[group], from); /* it becomes no other's target before it is copied */
    c->copies[c->n_copy++] = (page_copy){(int32_t)group, from, to};
}

void kv_copied(kv_cache *c, const page_copy *copies, int32_t n)
{
    for (int32_t i = 0; i < n; i++) pages_give(&c->pages[copies[i].group], copies[i].from);
}
