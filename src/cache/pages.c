/* pages.c - see pages.h. */
#include "cache/pages.h"

#include "base/mem.h"

int pages_open(page_pool *p, int32_t total, err *e)
{
    *p = (page_pool){.free_pages = mem_array((size_t)total, sizeof *p->free_pages),
                     .use = mem_array((size_t)total, sizeof *p->use),
                     .n_free = total,
                     .total = total,
                     .oldest = -1,
                     .newest = -1};
    if (!p->free_pages || !p->use) {
        pages_close(p);
        return err_set(e, ERR_MEMORY, "out of memory for %d KV pages", total);
    }
    for (int32_t i = 0; i < total; i++) {
        p->free_pages[i] = total - 1 - i;
        p->use[i] = (page_use){0, -1, -1, -1};
    }
    return OK;
}

void pages_close(page_pool *p)
{
    mem_free(p->free_pages);
    mem_free(p->use);
    *p = (page_pool){0};
}

int32_t pages_take(page_pool *p)
{
    const int32_t page = p->free_pages[--p->n_free];
    p->use[page].holders = 1;
    return page;
}

static void unlink_kept(page_pool *p, int32_t page)
{
    const page_use *u = &p->use[page];
    *(u->older < 0 ? &p->oldest : &p->use[u->older].newer) = u->newer;
    *(u->newer < 0 ? &p->newest : &p->use[u->newer].older) = u->older;
    p->n_kept--;
}

void pages_hold(page_pool *p, int32_t page)
{
    if (p->use[page].holders++ == 0) unlink_kept(p, page);
}

void pages_give(page_pool *p, int32_t page)
{
    page_use *u = &p->use[page];
    if (--u->holders) return;
    if (u->node < 0) {
        p->free_pages[p->n_free++] = page;
        return;
    }
    u->older = p->newest;
    u->newer = -1;
    *(p->newest < 0 ? &p->oldest : &p->use[p->newest].newer) = page;
    p->newest = page;
    p->n_kept++;
}

void pages_drop(page_pool *p, int32_t page)
{
    unlink_kept(p, page);
    p->free_pages[p->n_free++] = page;
}

int32_t pages_needed(int64_t length, int32_t window, int64_t chunk)
{
    int64_t all = (length + PAGE_TOKENS - 1) / PAGE_TOKENS;
    if (window <= 0) return (int32_t)all;
    int64_t alive = (int64_t)window - 1 + chunk,
            some = (alive + PAGE_TOKENS - 2) / PAGE_TOKENS + 1; /* at any alignment */
    return (int32_t)(some < all ? some : all);
}

void pages_plan(const program *p, const uint64_t bytes[GROUP_MAX], int n, int64_t ctx, int64_t chunk, uint64_t budget,
                int32_t total[GROUP_MAX])
{
    for (;; n--) {
        uint64_t sum = 0, b;
        bool fits = true;
        for (uint32_t g = 0; g < p->n_group; g++) {
            int64_t pages = (int64_t)pages_needed(ctx, p->group_window[g], chunk) * n;
            fits = fits && pages <= INT32_MAX && __builtin_mul_overflow((uint64_t)pages, bytes[g], &b) == 0 &&
                   __builtin_add_overflow(sum, b, &sum) == 0;
            total[g] = (int32_t)(pages <= INT32_MAX ? pages : INT32_MAX);
        }
        if (n == 1 || (fits && sum <= budget)) return;
    }
}
