/* grammar.c - see grammar.h. A mask is a walk over the vocabulary's trie beside the automaton: a byte that leads
 * nowhere takes its whole subtree away. Where a state lets characters pass without distinction, as within a string,
 * the tokens of such characters alone are allowed at once (plain_masks.h), and further on subtrees of them; counted
 * strings, whose every position is another state, are cheap by that. Masks of long walks are kept. */
#include "sample/grammar.h"

#include "base/mem.h"
#include "sample/grammar_run.h"
#include "sample/plain_masks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    MASK_BYTES = 2 << 20, /* of masks that are kept */
    MASK_WORTH = 64,      /* nodes of a walk whose mask is kept */
    MARK_WORTH = 1024     /* tokens of a subtree that are marked */
};

struct grammar {
    _Atomic int references;
    const token_trie *t;
    int kind; /* of its source */
    buf source;
    grammar_nodes nodes;
    pthread_mutex_t lock; /* of what follows */
    grammar_run run;
    uint32_t n_mask, next_mask;
    uint64_t *mask;    /* [n_mask * n_word] */
    uint32_t *mask_of; /* [n_mask] the state; STATE_UNKNOWN: none */
    plain_masks plain;
    uint8_t *mark; /* [64 * n_word] of tokens, for a walk: zero before and after */
    uint32_t mask_epoch;
};

int grammar_open(grammar **out, grammar_builder *b, uint32_t root, const token_trie *t)
{
    grammar *g = *out = b->e->code ? NULL : mem_zero(1, sizeof *g);
    if (!g) err_memory(b->e, "a grammar");
    int rc = b->e->code;
    if (g) {
        g->references = 1;
        g->t = t;
        pthread_mutex_init(&g->lock, NULL);
        rc = grammar_nodes_make(&g->nodes, b, root);
        if (!rc) rc = grammar_run_open(&g->run, &g->nodes, b->e);
    }
    if (!rc) {
        g->n_mask = (uint32_t)(MASK_BYTES / (t->n_word * sizeof *g->mask));
        if (g->n_mask < 4) g->n_mask = 4;
        if (g->n_mask > 256) g->n_mask = 256;
        g->mask = mem_array(g->n_mask, t->n_word * sizeof *g->mask);
        g->mask_of = mem_zero(g->n_mask, sizeof *g->mask_of);
        g->mark = mem_zero(t->n_word, 64);
        if (!g->mask || !g->mask_of || !g->mark) rc = err_memory(b->e, "the masks of a grammar");
    }
    if (!rc) rc = plain_masks_open(&g->plain, t, b->e);
    if (rc && g) {
        grammar_drop(g);
        *out = NULL;
    }
    grammar_builder_close(b);
    return rc;
}

grammar *grammar_keep(grammar *g)
{
    if (g) atomic_fetch_add(&g->references, 1);
    return g;
}

void grammar_drop(grammar *g)
{
    if (!g || atomic_fetch_sub(&g->references, 1) != 1) return;
    grammar_run_close(&g->run);
    grammar_nodes_free(&g->nodes);
    buf_free(&g->source);
    pthread_mutex_destroy(&g->lock);
    mem_free(g->mask);
    mem_free(g->mask_of);
    mem_free(g->mark);
    plain_masks_close(&g->plain);
    mem_free(g);
}

size_t grammar_mask_words(const grammar *g) { return g->t->n_word; }

int grammar_set_source(grammar *g, int kind, span source, err *e)
{
    g->kind = kind;
    buf_add(&g->source, source.p, source.n);
    return g->source.bad ? err_memory(e, "a grammar") : OK;
}

int grammar_source(const grammar *g, span *source)
{
    *source = buf_span(&g->source);
    return g->kind;
}

static int too_ambiguous(err *e)
{
    return err_set(e, ERR_LIMIT, "the grammar is too ambiguous: too many of its rules may have made the text so far");
}

/* Under the lock, as what follows. */
static int follow_ids(grammar *g, grammar_place *at, const int32_t *ids, int64_t n, err *e)
{
    const token_trie *t = g->t;
    if (at->epoch != g->run.epoch || !at->state || at->n > n)
        *at = (grammar_place){.epoch = g->run.epoch, .state = STATE_START};
    for (; at->n < n; at->n++) {
        const int32_t id = ids[at->n];
        const bool known = id >= 0 && id < t->n_vocab && t->start[id + 1] > t->start[id];
        uint32_t to = known ? at->state : STATE_DEAD;
        for (uint32_t i = known ? t->start[id] : 0; known && i < t->start[id + 1] && to > STATE_DEAD; i++) {
            const uint32_t from = to;
            to = grammar_run_go(&g->run, from, t->bytes[i]);
            if (to) continue;
            to = grammar_run_flush(&g->run, from);
            if (to) to = grammar_run_go(&g->run, to, t->bytes[i]);
        }
        if (to == STATE_DEAD) return err_set(e, ERR_FORMAT, "the text has left its grammar");
        if (to == STATE_UNKNOWN) return too_ambiguous(e);
        at->state = to;
        at->epoch = g->run.epoch;
    }
    return OK;
}

/* ---- masks */

/* Whether all tokens through a node may follow the state before it: 1, 0, or negative where the tables are full. */
static int passes(grammar_run *r, uint32_t state, const trie_node *x)
{
    if (x->buckets >> BUCKET_INVALID & 1) return 0;
    for (int left = x->height; left > 0; left--) {
        const grammar_pass *p = grammar_run_pass(r, state);
        if (!p) return -1;
        if (x->buckets & ~p->buckets) return 0;
        if (p->to == state) return 1;
        state = p->to;
    }
    return 1;
}

static void allow(const token_trie *t, uint32_t from, uint32_t to, uint64_t *allowed)
{
    for (uint32_t k = from; k < to; k++) allowed[t->id[k] >> 6] |= UINT64_C(1) << (t->id[k] & 63);
}

/* Adds the marks of many tokens, which are bytes 0 and 1 because these are set faster, and takes them away. */
static void allow_marked(const token_trie *t, uint8_t *mark, uint64_t *allowed)
{
    for (size_t i = 0; i < 8 * t->n_word; i++) {
        uint64_t eight;
        memcpy(&eight, mark + 8 * i, 8);
        allowed[i / 8] |= (eight * UINT64_C(0x0102040810204080) >> 56) << 8 * (i % 8);
    }
    memset(mark, 0, 64 * t->n_word);
}

/* The characters that a state lets pass without distinction, and how many of them. */
typedef struct plain_part {
    uint64_t buckets;
    int chars; /* 0: none pass; no more than the longest token has */
    bool ends; /* no other character of these buckets may follow them */
} plain_part;

/* Whether no character of the buckets may follow: 1, 0, or negative where the tables are full. */
static int ends_here(grammar_run *r, uint32_t state, uint64_t buckets)
{
    for (unsigned b = 0; b <= 0xf4; b++) {
        if (!(buckets >> (b < 0x80 ? trie_bucket((uint8_t)b) : BUCKET_BEYOND_ASCII) & 1)) continue;
        const uint32_t to = grammar_run_go(r, state, (uint8_t)b);
        if (to != STATE_DEAD) return to ? 0 : -1;
    }
    return 1;
}

/* False: the tables are full. */
static bool find_plain(grammar *g, uint32_t state, plain_part *out)
{
    grammar_run *r = &g->run;
    const int most = g->t->most_chars;
    const grammar_pass *p = grammar_run_pass(r, state);
    *out = (plain_part){.buckets = p ? p->buckets : 0};
    while (p && out->buckets && out->chars < most && !(out->buckets & ~p->buckets)) {
        out->chars = p->to == state ? most : out->chars + 1;
        state = p->to;
        p = grammar_run_pass(r, state);
    }
    const int ends = p && out->chars && out->chars < most ? ends_here(r, state, out->buckets) : 1;
    out->ends = ends > 0;
    return p && ends >= 0;
}

/* Sets the tokens that may follow the state; the nodes looked at, or negative where the tables are full. */
static int64_t walk_vocabulary(grammar *g, uint32_t state, uint64_t *allowed)
{
    const token_trie *t = g->t;
    grammar_run *r = &g->run;
    struct {
        uint32_t next, end, state; /* children to look at, of a node where the grammar is in this state */
        bool plain;                /* the bytes up to them are plain characters */
    } at[TRIE_TOKEN_BYTES + 1];
    int64_t looked = 0, marked = 0;
    int depth = 0;
    plain_part plain;
    if (!find_plain(g, state, &plain)) return -1;
    const int level = plain_level(&g->plain, plain.chars);   /* all plain tokens of so many characters are set */
    const bool decided = plain.ends && level == plain.chars; /* … and no other plain token may follow */
    if (level) memcpy(allowed, plain_mask(&g->plain, plain.buckets, level), t->n_word * sizeof *allowed);
    else memset(allowed, 0, t->n_word * sizeof *allowed);
    at[0].plain = level > 0;
    at[0].next = t->node[0].child;
    at[0].end = at[0].next + t->node[0].n_child;
    at[0].state = state;
    while (depth >= 0) {
        if (at[depth].next == at[depth].end) {
            depth--;
            continue;
        }
        const trie_node *x = &t->node[at[depth].next++];
        const bool here = at[depth].plain;
        if (here && !(x->buckets & ~plain.buckets) && (decided || depth + x->height <= level)) continue;
        const int all = passes(r, at[depth].state, x);
        uint32_t to = STATE_DEAD;
        if (all < 0 || (!all && !(to = grammar_run_go(r, at[depth].state, x->byte)))) break;
        looked++;
        if (all && x->last - x->first < MARK_WORTH) allow(t, x->first, x->last, allowed);
        else
            for (uint32_t k = x->first; all && k < x->last; k++, marked++) g->mark[t->id[k]] = 1;
        if (to == STATE_DEAD) continue;
        allow(t, x->first, trie_own_end(t, x), allowed);
        depth++;
        at[depth].next = x->child;
        at[depth].end = x->child + x->n_child;
        at[depth].state = to;
        at[depth].plain = here && x->byte < 0x80 && plain.buckets >> trie_bucket(x->byte) & 1;
    }
    if (marked) allow_marked(t, g->mark, allowed);
    return depth < 0 ? looked : -1;
}

/* The mask of a state, perhaps a kept one. False: the grammar is too ambiguous. */
static bool fill_allowed(grammar *g, uint32_t state, uint64_t *allowed)
{
    const size_t n = g->t->n_word;
    if (g->mask_epoch != g->run.epoch) memset(g->mask_of, 0, g->n_mask * sizeof *g->mask_of);
    g->mask_epoch = g->run.epoch;
    for (uint32_t k = 0; k < g->n_mask; k++)
        if (g->mask_of[k] == state) {
            memcpy(allowed, g->mask + k * n, n * sizeof *allowed);
            return true;
        }
    int64_t looked = walk_vocabulary(g, state, allowed);
    if (looked < 0) {
        state = grammar_run_flush(&g->run, state);
        return state && walk_vocabulary(g, state, allowed) >= 0;
    }
    if (looked < MASK_WORTH) return true;
    g->mask_of[g->next_mask] = state;
    memcpy(g->mask + g->next_mask * n, allowed, n * sizeof *allowed);
    g->next_mask = (g->next_mask + 1) % g->n_mask;
    return true;
}

static int make_mask(grammar *g, uint32_t state, bool may_end, uint64_t *allowed, grammar_next *next, err *e)
{
    const token_trie *t = g->t;
    uint64_t any = 0;
    if (!fill_allowed(g, state, allowed)) return too_ambiguous(e);
    for (size_t i = 0; i < t->n_word; i++) any |= allowed[i];
    next->over = next->complete && !any;
    if (!next->complete && !any)
        return err_set(e, ERR_FORMAT, "no token of the model's vocabulary goes on with the grammar here");
    for (int i = 0; i < t->n_end && next->complete && may_end; i++)
        allowed[t->ends[i] >> 6] |= UINT64_C(1) << (t->ends[i] & 63);
    return OK;
}

int grammar_follow(grammar *g, grammar_place *at, const int32_t *ids, int64_t n, bool may_end, uint64_t *allowed,
                   grammar_next *next, err *e)
{
    pthread_mutex_lock(&g->lock);
    int rc = follow_ids(g, at, ids, n, e);
    if (rc) *at = (grammar_place){0};
    else *next = (grammar_next){grammar_run_complete(&g->run, at->state), grammar_run_over(&g->run, at->state)};
    if (!rc && allowed && !next->over) rc = make_mask(g, at->state, may_end, allowed, next, e);
    pthread_mutex_unlock(&g->lock);
    return rc;
}
