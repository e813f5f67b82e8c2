/* cache_text.c - see cache_text.h. */
#include "cache/cache_text.h"

#include "base/mem.h"

#include <string.h>

bool text_open(cache_text *t, const program *p, int64_t length, int64_t n_enc)
{
    t->prefix = t->reserved = t->asked = t->snapshot = -1;
    t->variant = mem_zero(p->n_rope + 1, sizeof *t->variant);
    bool ok = t->variant;
    for (uint32_t g = 0; g < p->n_group && ok; g++) {
        const int64_t n = p->group_axis[g] == AXIS_ENC ? n_enc : length;
        t->n_page[g] = (n + PAGE_TOKENS - 1) / PAGE_TOKENS;
        t->page[g] = mem_array((size_t)t->n_page[g] + 1, sizeof *t->page[g]);
        ok = t->page[g] != NULL;
        if (ok) memset(t->page[g], 0xff, (size_t)t->n_page[g] * sizeof *t->page[g]);
    }
    return ok;
}

void text_close(cache_text *t)
{
    mem_free(t->variant);
    for (int g = 0; g < GROUP_MAX; g++) mem_free(t->page[g]);
}

int64_t text_take_pages(kv_cache *c, cache_text *t, int64_t to)
{
    for (uint32_t i = 0; i < c->p->n_group; i++) {
        if (c->p->group_axis[i] == AXIS_ENC) continue;
        for (int64_t k = t->n_sent / PAGE_TOKENS; k * PAGE_TOKENS < to; k++) {
            if (t->page[i][k] < 0) t->page[i][k] = tree_take(&c->tree, (int)i);
            if (t->page[i][k] < 0) to = k * PAGE_TOKENS;
        }
    }
    return to > t->n_sent ? to : t->n_sent;
}

bool text_take_encoder(kv_cache *c, cache_text *t)
{
    for (int take = 0; take < 2; take++)
        for (uint32_t i = 0; i < c->p->n_group; i++) {
            if (c->p->group_axis[i] != AXIS_ENC) continue;
            if (c->pages[i].n_free + c->pages[i].n_kept < t->n_page[i]) return false;
            for (int64_t k = 0; take && k < t->n_page[i]; k++) t->page[i][k] = tree_take(&c->tree, (int)i);
        }
    return true;
}

void text_hold_encoder(kv_cache *c, cache_text *to, const cache_text *from)
{
    for (uint32_t i = 0; i < c->p->n_group; i++)
        for (int64_t k = 0; c->p->group_axis[i] == AXIS_ENC && k < from->n_page[i]; k++)
            if (to->page[i][k] < 0) pages_hold(&c->pages[i], to->page[i][k] = from->page[i][k]);
}

void text_give_pages(kv_cache *c, cache_text *t, int axis)
{
    for (uint32_t i = 0; i < c->p->n_group; i++) {
        if (c->p->group_axis[i] != axis) continue;
        for (int64_t k = t->n_page[i]; k-- > 0;) /* of those that are kept the last goes first */
            if (t->page[i][k] >= 0) kv_give_page(c, i, &t->page[i][k]);
        t->first[i] = 0;
    }
}

void text_leave_windows(kv_cache *c, cache_text *t)
{
    for (uint32_t i = 0; i < c->p->n_group; i++) {
        if (c->p->group_axis[i] == AXIS_ENC) continue;
        const int32_t window = c->p->group_window[i];
        const int64_t seen = t->n_past - window + 1; /* first key that the next token sees */
        for (; window && (t->first[i] + 1) * PAGE_TOKENS <= seen; t->first[i]++)
            if (t->page[i][t->first[i]] >= 0) kv_give_page(c, i, &t->page[i][t->first[i]]);
    }
}

int text_take_ropes(kv_cache *c, cache_text *t, int64_t length, err *e)
{
    const program *p = c->p;
    for (uint32_t r = 0; r < p->n_rope; r++) t->variant[r] = -1;
    for (uint32_t r = 0; r < p->n_rope; r++) {
        t->variant[r] = rope_admit(&p->ropes[r], (int)length, e);
        if (t->variant[r] < 0) return t->variant[r];
    }
    return OK;
}

void text_give_ropes(kv_cache *c, cache_text *t)
{
    for (uint32_t r = 0; r < c->p->n_rope; r++) rope_release(&c->p->ropes[r], t->variant[r]);
}
