/* share.c - sessions whose texts begin alike share pages (page_tree.h); those on disk are as good (keep.h).
 *
 * A session goes from name to name: of its n_named first pages the last is s->name. Where the pages of the next names
 * are there it takes them and computes what comes after. Pages that it will fill itself it claims beforehand, by names
 * without pages; another session that needs them waits for them, page by page. Who has claimed something does not wait,
 * so that nobody waits in a circle; when it leaves, its claims go, and who waited goes on alone.
 *
 * Where the model has states of fixed size, a session can go on only after a name with a snapshot of them
 * (session_slots.c), which every fourth may have. It waits for, and claims, four names at a time; pages after the last
 * snapshot it computes again.
 *
 * Pages are named when the step that filled them has been collected without an error. */
#include "engine/engine_state.h"

#include <string.h>

void session_join_names(engine *g, session *s)
{
    const program *p = g->prog;
    int32_t root[PAGE_TOKENS] = {0};
    if (!s->shares || p->n_rope > PAGE_TOKENS / 2) return;
    for (uint32_t r = 0; r < p->n_rope; r++) root[r] = rope_length(&p->ropes[r], s->variant[r]);
    memcpy(root + PAGE_TOKENS / 2, s->salt, SALT_BYTES);
    s->name = tree_use(&g->names, -1, root);
}

/* Moves the session from its name to another one of the tree. */
static void move_to(page_tree *t, session *s, int32_t name, int64_t n_named)
{
    tree_hold(t, name);
    tree_drop(t, s->name);
    s->name = name;
    s->n_named = n_named;
}

void session_give_claims(engine *g, session *s)
{
    page_tree *t = &g->names;
    if (s->claim < 0) return;
    for (int32_t i = s->claim; i != s->name && i >= 0; i = t->name[i].parent)
        if (t->name[i].filler == s) t->name[i].filler = NULL;
    tree_drop(t, s->claim);
    s->claim = -1;
}

void session_leave_names(engine *g, session *s)
{
    if (s->name < 0) return;
    keep_remember(g, s->name);
    session_give_claims(g, s);
    tree_drop(&g->names, s->name);
    s->name = -1;
    s->n_named = 0;
}

/* Takes the pages of `name`, the n-th of the text, and of those before it. */
static void take_pages(engine *g, session *s, int32_t name, int64_t n)
{
    const int64_t before = s->n_past > s->n_done ? s->n_past : s->n_done;
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        int32_t at = name;
        const int64_t seen = session_first_seen(g->prog->group_window[i], n * PAGE_TOKENS);
        for (int64_t k = n; k-- > s->n_named && k >= seen; at = g->names.name[at].parent) {
            if (s->page[i][k] >= 0) session_give_page(g, i, &s->page[i][k]); /* taken for rows that had to wait */
            s->page[i][k] = g->names.name[at].page[i];
            pages_hold(&g->pages[i], s->page[i][k]);
        }
    }
    if (g->names.slots >= 0) session_move_slot(g, s, g->names.name[name].page[g->names.slots]);
    move_to(&g->names, s, name, n);
    s->n_sent = s->n_past = n * PAGE_TOKENS;
    session_leave_windows(g, s);
    const int64_t now = s->n_past < s->n_prompt ? s->n_past : s->n_prompt;
    if (now > before) s->cached += now - before;
    if (s->n_past > s->n_done) s->n_done = s->n_past;
}

page_reach session_reach(const engine *g, const session *s)
{
    page_reach r = {.may = true};
    for (uint32_t i = 0; i < g->prog->n_group; i++) r.run[i] = s->n_named - s->first[i];
    return r;
}

bool reach_add(const engine *g, page_reach *r, int64_t n, uint32_t groups)
{
    bool good = true;
    for (uint32_t i = 0; i < g->prog->n_group && r->may; i++) {
        const int32_t window = g->prog->group_window[i];
        r->run[i] = groups >> i & 1 ? r->run[i] + 1 : 0;
        const bool seen = r->run[i] >= n + 1 - session_first_seen(window, (n + 1) * PAGE_TOKENS);
        good = good && seen;
        r->may = window || seen; /* where all pages are seen, none can be missing */
    }
    return good;
}

/* Goes down from the session's name as far as pages are there, and takes those with which it can go on. */
static void take_known(engine *g, session *s, int64_t most)
{
    const page_tree *t = &g->names;
    page_reach reach = session_reach(g, s);
    int64_t best = s->n_named;
    int32_t at = s->name, best_name = at;
    for (int64_t k = s->n_named; k < most && reach.may; k++) {
        at = tree_find(t, at, s->ids + k * PAGE_TOKENS);
        if (at < 0) break;
        const bool good = reach_add(g, &reach, k, tree_groups(t, at));
        if (good && (t->slots < 0 || t->name[at].page[t->slots] >= 0)) best = k + 1, best_name = at;
    }
    if (best > s->n_named) take_pages(g, s, best_name, best);
}

/* Takes pages that are on disk; true: more may come in the next step. */
static bool waits_for_disk(engine *g, session *s, int64_t most)
{
    const int64_t before = s->n_named;
    const keep_result got = keep_fetch(g, s, most);
    if (got != KEEP_SOME) return got == KEEP_LATER;
    take_known(g, s, most);
    keep_fetched(g);
    return s->n_named > before && s->n_named < most;
}

/* The next name of its text after which it could go on, of `most` at most; -1: there is none. */
static int32_t next_stop(const page_tree *t, const session *s, int64_t most)
{
    const int64_t to = t->slots < 0 ? s->n_named + 1 : (s->n_named / SNAPSHOT_PAGES + 1) * SNAPSHOT_PAGES;
    int32_t at = to <= most ? s->name : -1;
    for (int64_t k = s->n_named; k < to && at >= 0; k++) at = tree_find(t, at, s->ids + k * PAGE_TOKENS);
    return at;
}

/* Claims the names that it will fill, to the last after which others could go on. */
static void claim_names(page_tree *t, session *s)
{
    const int64_t pages = s->n_ids / PAGE_TOKENS, full = t->slots < 0 ? pages : pages - pages % SNAPSHOT_PAGES;
    int32_t at = s->name;
    for (int64_t k = s->n_named; k < full; k++) {
        const int32_t next = tree_use(t, at, s->ids + k * PAGE_TOKENS);
        if (next < 0) break;
        if (t->slots < 0 && (t->name[next].filler || t->name[next].page[0] >= 0)) {
            tree_drop(t, next);
            break;
        }
        if (!t->name[next].filler) t->name[next].filler = s;
        if (s->claim >= 0) tree_drop(t, s->claim);
        s->claim = at = next;
    }
}

bool session_follow(engine *g, session *s)
{
    page_tree *t = &g->names;
    const int64_t most = (s->n_ids - 1) / PAGE_TOKENS;
    if (s->name < 0 || s->claim >= 0 || s->n_sent != s->n_named * PAGE_TOKENS || s->n_sent != s->n_past) return true;
    const bool scores = s->q.prompt_logprobs && s->scored + 1 < s->n_prompt; /* it computes what it scores */
    if (s->n_named < most && !scores) {
        take_known(g, s, most);
        const int32_t next = next_stop(t, s, most);
        if (next >= 0 && t->name[next].filler) return false;
        if (s->n_named < most && waits_for_disk(g, s, most)) return false;
    }
    claim_names(t, s);
    return true;
}

void session_name_pages(engine *g, session *s)
{
    page_tree *t = &g->names;
    for (; s->name >= 0 && (s->n_named + 1) * PAGE_TOKENS <= s->n_past;) {
        const int64_t k = s->n_named;
        const int32_t name = tree_use(t, s->name, s->ids + k * PAGE_TOKENS);
        if (name < 0) {
            session_leave_names(g, s);
            return;
        }
        for (uint32_t i = 0; i < g->prog->n_group; i++)
            if (s->page[i][k] >= 0) tree_put(t, name, (int)i, s->page[i][k]);
        if (t->name[name].filler == s) t->name[name].filler = NULL;
        keep_note(g, name);
        move_to(t, s, name, k + 1);
        tree_drop(t, name);
        if (s->claim == name) session_give_claims(g, s);
    }
}

void session_copy_text(engine *g, session *to, const session *from)
{
    const program *p = g->prog;
    bool whole = true; /* there is a page for every copy */
    session_leave_names(g, to);
    if (from->name >= 0) {
        tree_hold(&g->names, from->name);
        to->name = from->name;
        to->n_named = from->n_named;
    }
    for (uint32_t i = 0; i < p->n_group; i++) {
        const bool enc = p->group_axis[i] == AXIS_ENC;
        const int64_t n = enc ? from->n_page[i] : (from->n_past + PAGE_TOKENS - 1) / PAGE_TOKENS;
        for (int64_t k = 0; k < n; k++) {
            int32_t *page = &to->page[i][k], of = from->page[i][k];
            const bool full = enc || (k + 1) * PAGE_TOKENS <= from->n_past;
            if (*page == of) continue;
            if (*page >= 0 && (full || of < 0)) session_give_page(g, i, page);
            if (of < 0) continue;
            if (full) pages_hold(&g->pages[i], *page = of);
            else if (*page >= 0 || (*page = tree_take(&g->names, (int)i)) >= 0) session_copy_page(g, i, of, *page);
            else whole = false;
        }
        to->first[i] = from->first[i];
    }
    memcpy(to->ids, from->ids, (size_t)from->n_ids * sizeof *to->ids);
    to->n_ids = from->n_ids;
    to->n_sent = to->n_past = from->n_past;
    session_move_slot(g, to, from->slot_now); /* read in the next step, which writes another */
    to->encoded = true;
    if (to->n_done < to->n_past) to->n_done = to->n_past;
    if (!whole) session_start_again(g, to);
}
