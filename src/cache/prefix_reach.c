/* prefix_reach.c - see prefix_reach.h. */
#include "cache/prefix_reach.h"

prefix_reach reach_of(const kv_cache *c, const cache_text *t)
{
    prefix_reach r = {.may = true};
    for (uint32_t i = 0; i < c->p->n_group; i++) r.run[i] = t->n_shared - t->first[i];
    return r;
}

bool reach_add(const kv_cache *c, prefix_reach *r, int64_t n, uint32_t groups)
{
    bool good = true;
    for (uint32_t i = 0; i < c->p->n_group && r->may; i++) {
        const int32_t window = c->p->group_window[i];
        r->run[i] = groups >> i & 1 ? r->run[i] + 1 : 0;
        const bool seen = r->run[i] >= n + 1 - kv_first_seen(window, (n + 1) * PAGE_TOKENS);
        good = good && seen;
        r->may = window || seen; /* where all pages are seen, none can be missing */
    }
    return good;
}
