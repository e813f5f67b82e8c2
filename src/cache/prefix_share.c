/* prefix_share.c - see prefix_share.h. */
#include "cache/prefix_share.h"
#include "cache/prefix_reach.h"
#include "cache/snapshot_worth.h"
#include "cache/text_slots.h"

#include <string.h>

void prefix_join(kv_cache *c, cache_text *t)
{
    const program *p = c->p;
    int32_t root[PAGE_TOKENS] = {0};
    if (!t->shares || p->n_rope > PAGE_TOKENS / 2) return;
    for (uint32_t r = 0; r < p->n_rope; r++) root[r] = rope_length(&p->ropes[r], t->variant[r]);
    memcpy(root + PAGE_TOKENS / 2, t->salt, TEXT_SALT);
    t->prefix = tree_use(&c->tree, -1, root);
}

/* Moves the text from its node to another one of the tree. */
static void move_to(prefix_tree *tree, cache_text *t, int32_t node, int64_t n_shared)
{
    tree_hold(tree, node);
    tree_drop(tree, t->prefix);
    t->prefix = node;
    t->n_shared = n_shared;
}

void prefix_release(kv_cache *c, cache_text *t)
{
    prefix_tree *tree = &c->tree;
    if (t->reserved < 0) return;
    for (int32_t i = t->reserved; i != t->prefix && i >= 0; i = tree->node[i].parent)
        if (tree->node[i].owner == t) tree->node[i].owner = NULL;
    tree_drop(tree, t->reserved);
    t->reserved = -1;
}

void prefix_leave(kv_cache *c, cache_text *t)
{
    if (t->prefix < 0) return;
    disk_cache_remember(c, t->prefix);
    prefix_release(c, t);
    tree_drop(&c->tree, t->prefix);
    t->prefix = -1;
    t->n_shared = 0;
}

/* Takes the pages of `node`, the n-th of the text, and of those before it. */
static void take_pages(kv_cache *c, cache_text *t, int32_t node, int64_t n)
{
    const prefix_node *of = c->tree.node;
    for (uint32_t i = 0; i < c->p->n_group; i++) {
        int32_t at = node;
        const int64_t seen = kv_first_seen(c->p->group_window[i], n * PAGE_TOKENS);
        for (int64_t k = n; k-- > t->n_shared && k >= seen; at = of[at].parent) {
            if (t->page[i][k] >= 0) kv_give_page(c, i, &t->page[i][k]); /* taken for rows that had to wait */
            t->page[i][k] = of[at].page[i];
            pages_hold(&c->pages[i], t->page[i][k]);
        }
    }
    if (c->tree.slots >= 0) {
        text_move_slot(c, t, of[node].page[c->tree.slots]);
        snapshot_used(&c->tree, t->slot_now);
    }
    move_to(&c->tree, t, node, n);
    t->n_sent = t->n_past = n * PAGE_TOKENS;
    text_leave_windows(c, t);
    if (t->n_past > t->n_done) t->n_done = t->n_past;
}

/* Goes down from the text's node as far as pages are there, and takes those with which it can go on. */
static void take_known(kv_cache *c, cache_text *t, int64_t most)
{
    const prefix_tree *tree = &c->tree;
    prefix_reach reach = reach_of(c, t);
    int64_t best = t->n_shared;
    int32_t at = t->prefix, best_node = at;
    for (int64_t k = t->n_shared; k < most && reach.may; k++) {
        at = tree_find(tree, at, t->ids + k * PAGE_TOKENS);
        if (at < 0) break;
        const bool good = reach_add(c, &reach, k, tree_groups(tree, at));
        if (good && (tree->slots < 0 || tree->node[at].page[tree->slots] >= 0)) best = k + 1, best_node = at;
    }
    if (best > t->n_shared) take_pages(c, t, best_node, best);
}

/* Takes pages that are on disk; true: more may come in the next step. */
static bool waits_for_disk(kv_cache *c, cache_text *t, int64_t most, const disk_turn *now)
{
    const int64_t before = t->n_shared;
    const disk_result got = disk_cache_fetch(c, t, most, now);
    if (got != DISK_SOME) return got == DISK_LATER;
    take_known(c, t, most);
    disk_cache_fetched(c);
    return t->n_shared > before && t->n_shared < most;
}

/* A snapshot at this node is waited for, or was missed. */
static void note_parting(prefix_tree *tree, int32_t node)
{
    if (node >= 0 && tree->node[node].page[tree->slots] < 0) tree->node[node].parts = true;
}

/* Whether another text is about to fill a node after which this one can go on: the next one or, where there have to be
 * snapshots, any that could have one. It then waits for the last of these. */
static bool waits_for_text(prefix_tree *tree, cache_text *t, int64_t most)
{
    int32_t at = t->prefix, last = at, stop = -1, filled = -1;
    for (int64_t k = t->n_shared; k < most && (at = tree_find(tree, at, t->ids + k * PAGE_TOKENS)) >= 0;) {
        if (tree->slots < 0) return tree->node[at].owner;
        last = at;
        if (++k % SNAPSHOT_PAGES) continue;
        stop = at;
        if (tree->node[at].owner) filled = at;
    }
    if (tree->slots < 0) return false;
    if (t->asked < 0) snapshot_text_came(tree, last);
    note_parting(tree, stop);
    note_parting(tree, filled);
    return filled >= 0;
}

/* Reserves the nodes that it will fill, to the last after which others could go on. */
static void reserve_pages(prefix_tree *tree, cache_text *t, int64_t n)
{
    const int64_t pages = n / PAGE_TOKENS, full = tree->slots < 0 ? pages : pages - pages % SNAPSHOT_PAGES;
    int32_t at = t->prefix;
    for (int64_t k = t->n_shared; k < full; k++) {
        const int32_t next = tree_use(tree, at, t->ids + k * PAGE_TOKENS);
        if (next < 0) break;
        if (tree->slots < 0 && (tree->node[next].owner || tree->node[next].page[0] >= 0)) {
            tree_drop(tree, next);
            break;
        }
        if (!tree->node[next].owner) tree->node[next].owner = t, tree->node[next].asked = t->asked;
        if (t->reserved >= 0) tree_drop(tree, t->reserved);
        t->reserved = at = next;
    }
}

bool prefix_follow(kv_cache *c, cache_text *t, int64_t n, bool alone, const disk_turn *now)
{
    const int64_t most = (n - 1) / PAGE_TOKENS;
    if (t->prefix < 0 || t->reserved >= 0 || t->n_sent != t->n_shared * PAGE_TOKENS || t->n_sent != t->n_past)
        return true;
    if (t->n_shared < most && !alone) {
        take_known(c, t, most);
        const bool waits = waits_for_text(&c->tree, t, most);
        if (t->asked < 0) t->asked = (int32_t)(n / PAGE_TOKENS);
        if (waits) return false;
        if (t->n_shared < most && waits_for_disk(c, t, most, now)) return false;
    }
    reserve_pages(&c->tree, t, n);
    return true;
}

/* Pages that have become full get nodes. */
static void add_pages(kv_cache *c, cache_text *t)
{
    prefix_tree *tree = &c->tree;
    while (t->prefix >= 0 && (t->n_shared + 1) * PAGE_TOKENS <= t->n_past) {
        const int64_t k = t->n_shared;
        const int32_t node = tree_use(tree, t->prefix, t->ids + k * PAGE_TOKENS);
        if (node < 0) {
            prefix_leave(c, t);
            return;
        }
        for (uint32_t i = 0; i < c->p->n_group; i++)
            if (t->page[i][k] >= 0) tree_put(tree, node, (int)i, t->page[i][k]);
        if (tree->node[node].owner == t) tree->node[node].owner = NULL;
        tree->node[node].asked = t->asked;
        disk_cache_note(c, node);
        move_to(tree, t, node, k + 1);
        tree_drop(tree, node);
        if (t->reserved == node) prefix_release(c, t);
    }
}

void text_advance(kv_cache *c, cache_text *t, int64_t n)
{
    t->n_past += n;
    if (t->n_done < t->n_past) t->n_done = t->n_past;
    add_pages(c, t);
    text_leave_windows(c, t);
}

/* Nothing of the text is in the cache. */
static void start_again(kv_cache *c, cache_text *t)
{
    prefix_leave(c, t);
    text_give_pages(c, t, AXIS_TOK);
    prefix_join(c, t);
    t->n_past = t->n_sent = 0;
    text_move_slot(c, t, t->slot[0]);
}

void text_copy(kv_cache *c, cache_text *to, const cache_text *from)
{
    const program *p = c->p;
    bool whole = true; /* there is a page for every copy */
    prefix_leave(c, to);
    if (from->prefix >= 0) {
        tree_hold(&c->tree, from->prefix);
        to->prefix = from->prefix;
        to->asked = from->asked;
        to->n_shared = from->n_shared;
    }
    for (uint32_t i = 0; i < p->n_group; i++) {
        const bool enc = p->group_axis[i] == AXIS_ENC;
        const int64_t n = enc ? from->n_page[i] : (from->n_past + PAGE_TOKENS - 1) / PAGE_TOKENS;
        for (int64_t k = 0; k < n; k++) {
            int32_t *page = &to->page[i][k], of = from->page[i][k];
            const bool full = enc || (k + 1) * PAGE_TOKENS <= from->n_past;
            if (*page == of) continue;
            if (*page >= 0 && (full || of < 0)) kv_give_page(c, i, page);
            if (of < 0) continue;
            if (full) pages_hold(&c->pages[i], *page = of);
            else if (*page >= 0 || (*page = tree_take(&c->tree, (int)i)) >= 0) kv_copy_page(c, i, of, *page);
            else whole = false;
        }
        to->first[i] = from->first[i];
    }
    to->n_sent = to->n_past = from->n_past;
    text_move_slot(c, to, from->slot_now); /* read in the next step, which writes another */
    to->taken = from->taken;
    if (to->n_done < to->n_past) to->n_done = to->n_past;
    if (!whole) start_again(c, to);
}
