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

void snapshot_comes(prefix_tree *t, int32_t slot, const cache_text *text, int64_t to)
{
    t->log->note[slot].writer = text;
    t->log->note[slot].to = to;
}

bool snapshot_came(prefix_tree *t, int32_t slot, const cache_text *text, int64_t to)
{
    snapshot_note *s = &t->log->note[slot];
    if (s->writer != text || s->to != to) return false;
    s->writer = NULL;
    return true;
}

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

/* Whether another text goes on after so many tokens of this one. */
static bool parts_there(const prefix_tree *t, const cache_text *text, int64_t to)
{
    int32_t at = text->prefix;
    for (int64_t k = text->n_shared; k * PAGE_TOKENS < to && at >= 0; k++)
        at = tree_find(t, at, text->ids + k * PAGE_TOKENS);
    return at >= 0 && t->node[at].parts;
}

/* A snapshot that is planned, or that a step under way writes: those of a text lie one after the other. */
static void look_at_coming(const prefix_tree *t, snapshot_note *s, const cache_text *text, int64_t to)
{
    const snapshot_note *note = t->log->note;
    look_at(t, s, text->prefix, to, (int64_t)text->asked * PAGE_TOKENS, text->asked);
    for (int32_t i = 0; i < t->pool[t->slots]->total; i++)
        if (note[i].writer == text && note[i].to < to && note[i].to > s->before) s->prev = i, s->before = note[i].to;
    s->used = t->log->texts;
    s->lost = false; /* the text holds the pages between the two */
    if (parts_there(t, text, to)) s->after = 2;
}

static void look_at_kept(const prefix_tree *t, snapshot_note *s, int32_t at)
{
    const prefix_node *of = &t->node[at];
    look_at(t, s, of->parent, (int64_t)of->depth * PAGE_TOKENS, (int64_t)of->end * PAGE_TOKENS, of->end_asked);
    s->lost = s->lost || (tree_groups(t, at) & t->needed) != t->needed;
}

/* Each tells those before it. */
static void look_ahead(snapshot_note *note, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const snapshot_note *s = &note[i];
        if (s->at < 0 || s->prev < 0) continue;
        snapshot_note *prev = &note[s->prev];
        prev->next = prev->after++ && prev->next < s->at ? prev->next : s->at;
        for (int32_t k = s->prev; k >= 0 && note[k].end < s->end; k = note[k].prev)
            note[k].end = s->end, note[k].asked = s->asked;
    }
}

/* Looks at all snapshots, and at one of a text that is planned; text NULL: none is. */
static void look(prefix_tree *t, const cache_text *text, int64_t to)
{
    const page_pool *pool = t->pool[t->slots];
    snapshot_note *note = t->log->note, *own = &note[pool->total];
    find_ends(t);
    for (int32_t i = 0; i < pool->total; i++) {
        const cache_text *writer = note[i].writer;
        note[i].at = -1;
        if (pool->use[i].node >= 0) look_at_kept(t, &note[i], pool->use[i].node);
        else if (writer && writer->prefix >= 0) look_at_coming(t, &note[i], writer, note[i].to);
    }
    if (text) {
        look_at_coming(t, own, text, to);
        own->next = to + SNAPSHOT_TOKENS; /* more will follow if the prompt goes on for long */
        if (!own->after) own->after = own->next <= own->asked;
    }
    look_ahead(note, pool->total + (text != NULL));
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

/* That, or one that the text's own steps under way write, have read, and nobody else holds. */
static int32_t find_least_of(const prefix_tree *t, const cache_text *text, double *worth)
{
    const page_pool *pool = t->pool[t->slots];
    int32_t least = find_least(t, worth);
    for (int32_t i = 0; i < pool->total; i++) {
        const snapshot_note *s = &t->log->note[i];
        if (s->writer != text || s->to >= text->n_sent || pool->use[i].holders > 1) continue;
        const double w = worth_of(t->log, s);
        if (least >= 0 && w >= *worth) continue;
        least = i;
        *worth = w;
    }
    return least;
}

int32_t snapshot_least(prefix_tree *t)
{
    double worth;
    look(t, NULL, 0);
    return find_least(t, &worth);
}

bool snapshot_is_better(prefix_tree *t, const cache_text *text, int64_t to, int32_t *slot)
{
    double worth = 0;
    look(t, text, to);
    *slot = find_least_of(t, text, &worth);
    return *slot >= 0 && worth_of(t->log, &t->log->note[t->pool[t->slots]->total]) > worth;
}
