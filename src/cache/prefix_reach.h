/* prefix_reach.h - how far a text can go on after its prefix, found by looking at its pages one after another: of a
 * group with a window only the pages that are seen have to be there. */
#pragma once
#include "cache/cache_text.h"

typedef struct prefix_reach {
    int64_t run[GROUP_MAX]; /* pages that are there without a gap, to the last one that was looked at */
    bool may;               /* later pages may still be reached */
} prefix_reach;

prefix_reach reach_of(const kv_cache *c, const cache_text *t); /* before its page n_shared */
/* The next page of the text, number n, is there in these groups, a bit each. True: the text can go on after it. */
bool reach_add(const kv_cache *c, prefix_reach *r, int64_t n, uint32_t groups);
