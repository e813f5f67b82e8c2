/* snapshot_worth.c - see snapshot_worth.h. */
#include "cache/snapshot_worth.h"

#include "base/mem.h"

static const double AT_END = 31.0 / 32; /* share of texts that go on from the end, before any has come */
enum { TEXTS_REMEMBERED = 16 };

static double share_at_first(int range) { return range ? (1 - AT_END) / (PART_RANGES - 1) : AT_END; }

int snapshot_log_open(snapshot_log **out, int32_t slots, err *e)
{
    snapshot_log *l = *out = mem_zero(1, sizeof *l);
    if (l) l->note = mem_zero((size_t)slots + 1, sizeof *l->note);
    if (!l || !l->note) return err_memory(e, "snapshots");
    for (int i = 0; i < PART_RANGES; i++) l->parts[i] = share_at_first(i);
    return OK;
}

void snapshot_log_close(snapshot_log *l)
{
    if (l) mem_free(l->note);
    mem_free(l);
}

/* Finds out up to where the last text of each node was computed, and where its prompt has ended. */
static void find_ends(prefix_tree *t)
{
    prefix_node *node = t->node;
    for (int32_t i = 0; i < t->n; i++) node[i].end = node[i].depth, node[i].end_asked = node[i].asked;
    for (int32_t i = 0; i < t->n; i++)
        for (int32_t k = i; node[i].depth >= 0 && !node[i].after && (k = node[k].parent) >= 0;) {
            if (node[k].end >= node[i].end) break;
            node[k].end = node[i].end;
            node[k].end_asked = node[i].asked;
        }
}

/* Where a text that begins as the nodes to this one parts from the one before; -1: that cannot be told. */
static int parting_of(const prefix_node *at)
{
    int range = PART_PROMPT;
    if (at->depth < SNAPSHOT_PAGES || at->after > 1) return -1; /* where texts part anyway, one more says nothing */
    if (!at->after) return at->end > at->asked ? PART_END : -1; /* pages do not tell the answer from the prompt */
    if (at->depth >= at->end_asked) return PART_ANSWER;
    while (range + 1 < PART_RANGES && (at->end_asked - at->depth) >> (range + 1 - PART_PROMPT)) range++;
    return range;
}

void snapshot_text_came(prefix_tree *t, int32_t node)
{
    snapshot_log *l = t->log;
    l->texts++;
    find_ends(t);
    const int range = parting_of(&t->node[node]);
    for (int i = 0; i < PART_RANGES && range >= 0; i++) {
        const double seen = AT_END * (i == range) + (1 - AT_END) * share_at_first(i); /* nothing is ever ruled out */
        l->parts[i] += (seen - l->parts[i]) / TEXTS_REMEMBERED;
    }
}

/* Share of texts that part at most so many tokens before the end of the prompt. */
static double share_before(const snapshot_log *l, int64_t tokens)
{
    double sum = 0;
    for (int i = PART_PROMPT; i < PART_RANGES; i++) {
        const int64_t from = (int64_t)PAGE_TOKENS << (i - PART_PROMPT), over = tokens - from;
        if (over > 0) sum += l->parts[i] * (over < from ? (double)over / (double)from : 1);
    }
    return sum;
}

void snapshot_used(prefix_tree *t, int32_t slot) { t->log->note[slot].used = t->log->texts; }

/* Fills what is known of a snapshot between the nodes before it: `node` is the first that is looked at. */
static void look_back(const prefix_tree *t, snapshot_note *s, int32_t node)
{
    s->prev = -1;
    s->before = 0;
    s->lost = false;
    for (; node >= 0 && t->node[node].parent >= 0; node = t->node[node].parent) {
        const prefix_node *n = &t->node[node];
        s->prev = n->page[t->slots];
        s->before = n->depth * PAGE_TOKENS;
        if (s->prev >= 0) return;
        s->before = 0;
        s->lost = s->lost || (tree_groups(t, node) & t->needed) != t->needed;
    }
}

static void look_at(const prefix_tree *t, snapshot_note *s, int32_t from, int64_t at, int64_t end, int32_t asked)
{
    s->at = at;
    s->end = end > at ? end : at;
    s->asked = (int64_t)asked * PAGE_TOKENS;
    s->after = 0;
    look_back(t, s, from);
}

/* A snapshot is planned: more will follow if the prompt goes on for long. */
static void look_at_plan(const prefix_tree *t, snapshot_note *own, const snapshot_plan *p)
{
    look_at(t, own, p->from, p->to, (int64_t)p->asked * PAGE_TOKENS, p->asked);
    own->used = t->log->texts;
    own->lost = false; /* the text itself holds what it needs */
    own->next = p->to + SNAPSHOT_TOKENS;
    own->after = p->parts ? 2 : own->next <= own->asked;
}

/* Looks at all snapshots, and at one that is planned; p NULL: none is. */
static void look(prefix_tree *t, const snapshot_plan *p)
{
    const page_pool *pool = t->pool[t->slots];
    const int32_t n = pool->total + (p != NULL);
    snapshot_note *note = t->log->note;
    find_ends(t);
    for (int32_t i = 0; i < pool->total; i++) {
        const int32_t at = pool->use[i].node;
        note[i].at = -1;
        if (at < 0) continue;
        const prefix_node *of = &t->node[at];
        look_at(t, &note[i], of->parent, (int64_t)of->depth * PAGE_TOKENS, (int64_t)of->end * PAGE_TOKENS,
                of->end_asked);
        note[i].lost = note[i].lost || (tree_groups(t, at) & t->needed) != t->needed;
    }
    if (p) look_at_plan(t, &note[pool->total], p);
    for (int32_t i = 0; i < n; i++) {
        const snapshot_note *s = &note[i];
        if (s->at < 0 || s->prev < 0) continue;
        snapshot_note *prev = &note[s->prev];
        prev->next = prev->after++ && prev->next < s->at ? prev->next : s->at;
        for (int32_t k = s->prev; k >= 0 && note[k].end < s->end; k = note[k].prev)
            note[k].end = s->end, note[k].asked = s->asked;
    }
}

static double chance_of(const snapshot_log *l, const snapshot_note *s)
{
    double sum = share_before(l, s->asked - s->at);
    if (s->after > 1) return 1;
    if (s->after) sum -= share_before(l, s->asked - s->next);
    else sum += l->parts[PART_END];
    if (s->at <= s->asked && (!s->after || s->next > s->asked)) sum += l->parts[PART_ANSWER];
    return sum;
}

static double worth_of(const snapshot_log *l, const snapshot_note *s)
{
    if (s->lost) return 0;
    return (double)(s->at - s->before) * chance_of(l, s) / (double)(1 + l->texts - s->used);
}

/* The kept one that is worth the least, after a look; of two alike the one that was given back first. */
static int32_t find_least(const prefix_tree *t, double *worth)
{
    const page_pool *pool = t->pool[t->slots];
    int32_t least = -1;
    for (int32_t i = pool->n_kept ? pool->oldest : -1; i >= 0; i = pool->use[i].newer) {
        const double w = worth_of(t->log, &t->log->note[i]);
        if (least >= 0 && w >= *worth) continue;
        least = i;
        *worth = w;
    }
    return least;
}

int32_t snapshot_least(prefix_tree *t)
{
    double worth;
    look(t, NULL);
    return find_least(t, &worth);
}

bool snapshot_is_better(prefix_tree *t, const snapshot_plan *p, int32_t *slot)
{
    double worth;
    look(t, p);
    *slot = find_least(t, &worth);
    return *slot >= 0 && worth_of(t->log, &t->log->note[t->pool[t->slots]->total]) > worth;
}
