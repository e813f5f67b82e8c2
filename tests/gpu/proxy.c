/* proxy.c - see proxy.h. */
#include "tests/gpu/proxy.h"

#include <stdlib.h>

enum { WORD = 4 };

typedef struct stored {
    uint32_t thread; /* + 1; 0: none, or a copy */
    uint32_t fences; /* that it had passed */
} stored;

struct proxy {
    uint32_t *fences; /* [threads] */
    stored *word;     /* [shared_bytes / WORD] */
};

static void proxy_open(block *b)
{
    proxy *x = b->proxy = calloc(1, sizeof *x);
    if (!x) abort();
    x->fences = calloc((size_t)b->n_warp * LANES, sizeof *x->fences);
    x->word = calloc(b->shared_bytes / WORD + 1, sizeof *x->word);
    if (!x->fences || !x->word) abort();
}

void proxy_free(proxy *x)
{
    if (!x) return;
    free(x->fences);
    free(x->word);
    free(x);
}

void proxy_store(warp *w, int l, uint64_t at, unsigned bytes)
{
    proxy *x = w->block->proxy;
    const uint32_t thread = (uint32_t)(w->index * LANES + l);
    if (!x) return;
    for (uint64_t i = at / WORD; i <= (at + bytes - 1) / WORD; i++)
        x->word[i] = (stored){thread + 1, x->fences[thread]};
}

void proxy_copy(block *b, uint64_t at, unsigned bytes)
{
    for (uint64_t i = at / WORD; b->proxy && i <= (at + bytes - 1) / WORD; i++) b->proxy->word[i] = (stored){0};
}

void proxy_fence(warp *w, uint32_t mask)
{
    for (int l = 0; l < LANES && w->block->proxy; l++) w->block->proxy->fences[w->index * LANES + l] += mask >> l & 1;
}

void proxy_read(warp *w, uint64_t at, unsigned bytes)
{
    block *b = w->block;
    if (!b->proxy) proxy_open(b);
    for (uint64_t i = at / WORD; i <= (at + bytes - 1) / WORD; i++) {
        const stored *s = &b->proxy->word[i];
        if (s->thread && s->fences == b->proxy->fences[s->thread - 1])
            machine_fault(w, 0, FAULT_LAUNCH,
                          "a product reads shared memory at %#llx, where thread %u has stored and done no "
                          "fence.proxy.async since",
                          (unsigned long long)at, s->thread - 1);
    }
}
