/* keep.c - pages that outlive the engine: those on disk (page_store.h) are found as those in memory are.
 *
 * A session that goes from name to name (share.c) and does not find the next one in memory looks for it on disk. What
 * is there comes in stages of some megabytes, each before a step, so that others do not wait long. The other way, each
 * name that has got pages is noted, and its pages are handed to the store's thread when no step is under way: one after
 * each step, the others while the engine is idle or when it is closed. Devices move pages between steps only. */
#include "engine/keep.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_state.h"
#include "engine/fingerprint.h"
#include "plan/plan_pages.h"

#include <string.h>

static const double CLOSE_SECONDS = 1; /* for pages that are not on disk yet when the engine ends */
enum { STAGE_BYTES = 32 << 20 };

typedef struct loaded_page {
    int32_t page;
    uint8_t group;
} loaded_page;

struct page_keep {
    page_store *store;
    page_shape shape;
    bool has_file;
    bool waits;    /* a session waits until no step is under way */
    uint64_t fill; /* the step that pages were loaded for last; bytes that may still be loaded for it */
    int64_t left;
    uint64_t read, written; /* names, so far */
    int32_t *order;         /* [cap] ring of names that are to be written: n from `first` on */
    bool *noted;            /* [cap] whether a name is in it */
    int32_t first, n, cap;
    page_record *ahead;  /* [pages of a text] what is on disk of those that come next */
    loaded_page *loaded; /* [GROUP_MAX * pages of a text] held until their session holds them */
    int32_t n_loaded;
    int32_t last; /* of a file: the last name of the text that ended last; -1: none */
};

/* ---- opening */

static int no_memory(err *e) { return err_set(e, ERR_MEMORY, "out of memory for pages on disk"); }

/* What pages of this engine belong to. */
static int find_shape(engine *g, page_shape *out, err *e)
{
    fingerprint f;
    buf text = {0};
    if (!plan_page_bytes(g->placed, out->bytes))
        return err_set(e, ERR_USAGE, "nodes do not give pages to a disk: leave --cache-dir and --session out");
    int rc = engine_fingerprint(g, &f, e);
    if (rc) return rc;
    buf_printf(&text, "model %s arithmetic %s\n", f.model, f.arithmetic);
    plan_page_layout(g->placed, &text);
    if (text.bad) rc = no_memory(e);
    else sha256_of(text.p, text.n, out->made_for);
    buf_free(&text);
    return rc;
}

static int keep_open(engine *g, err *e)
{
    page_keep *k = g->keep = mem_zero(1, sizeof *k);
    const size_t pages = (size_t)g->info.ctx / PAGE_TOKENS + 1;
    if (!k) return no_memory(e);
    k->last = -1;
    k->cap = g->names.cap;
    k->order = mem_array((size_t)k->cap, sizeof *k->order);
    k->noted = mem_zero((size_t)k->cap, sizeof *k->noted);
    k->ahead = mem_array(pages, sizeof *k->ahead);
    k->loaded = mem_array(pages * GROUP_MAX, sizeof *k->loaded);
    if (!k->order || !k->noted || !k->ahead || !k->loaded) return no_memory(e);
    const int rc = find_shape(g, &k->shape, e);
    return rc ? rc : page_store_open(&k->store, &k->shape, e);
}

static void wake(void *g) { engine_wake(g); }

/* Whether texts of this model share pages, and go on after any of them. */
static bool can_keep(const engine *g)
{
    return g->info.generates && !g->info.n_enc_vocab && !g->slots.total && g->prog->n_rope <= PAGE_TOKENS / 2;
}

int engine_keep_folder(engine *g, const char *dir, int64_t bytes, err *e)
{
    if (!can_keep(g)) {
        log_line(LOG_WARN, "--cache-dir: this model does not go on from pages alone, so nothing is kept");
        return OK;
    }
    const int rc = keep_open(g, e);
    if (rc) return rc;
    const uint64_t page = page_record_bytes(&g->keep->shape, (1u << GROUP_MAX) - 1) + PAGE_FILE_ONE;
    if ((uint64_t)bytes < page)
        return err_set(e, ERR_USAGE, "--cache-bytes %lld: the pages of %d tokens alone take %llu", (long long)bytes,
                       PAGE_TOKENS, (unsigned long long)page);
    return page_store_add_folder(g->keep->store, dir, bytes, wake, g, e);
}

int engine_keep_file(engine *g, const char *path, err *e)
{
    if (!can_keep(g))
        return err_set(e, ERR_USAGE, "--session: this model does not go on from pages alone: leave it out");
    const int rc = keep_open(g, e);
    if (rc) return rc;
    g->keep->has_file = true;
    return page_store_add_file(g->keep->store, path, e);
}

void keep_close(engine *g)
{
    page_keep *k = g->keep;
    if (!k) return;
    const double until = clock_now() + CLOSE_SECONDS;
    while (k->store && k->n && clock_now() < until && page_store_wait(k->store, until - clock_now())) keep_write(g);
    page_store_close(k->store);
    mem_free(k->order);
    mem_free(k->noted);
    mem_free(k->ahead);
    mem_free(k->loaded);
    mem_free(k);
    g->keep = NULL;
}

/* ---- to disk */

void keep_note(engine *g, int32_t name)
{
    page_keep *k = g->keep;
    if (!k || k->has_file || k->noted[name]) return;
    k->noted[name] = true;
    k->order[(k->first + k->n++) % k->cap] = name;
}

static int64_t depth_of(const page_tree *t, int32_t name)
{
    int64_t n = 0;
    while ((name = t->name[name].parent) >= 0) n++;
    return n;
}

/* The groups of which a name has pages, and their bytes; those that have left memory, but are in the file, too. */
static int get_pages(engine *g, int32_t name, uint8_t *to, uint32_t *groups, err *e)
{
    const page_keep *k = g->keep;
    page_record r = {.groups = 0};
    const bool found = k->has_file && page_store_find(k->store, g->names.name[name].digest, &r);
    const uint8_t *old = found ? page_store_read(k->store, &r, 0) : NULL;
    int rc = OK;
    *groups = 0;
    for (uint32_t i = 0; i < g->prog->n_group && !rc; i++) {
        const int32_t page = g->names.name[name].page[i];
        const bool there = old && r.groups >> i & 1;
        if (page >= 0) rc = plan_page_get(g->placed, (int)i, page, to, e);
        else if (there) memcpy(to, old, k->shape.bytes[i]);
        if (page >= 0 || there) *groups |= 1u << i, to += k->shape.bytes[i];
        if (there) old += k->shape.bytes[i];
    }
    return rc;
}

void keep_write(engine *g)
{
    page_keep *k = g->keep;
    uint8_t *to = k && k->n && g->placed && !steps_under_way(&g->steps) ? page_store_room(k->store) : NULL;
    for (uint32_t groups = 0; to && k->n && !groups;) {
        err e = {0};
        const int32_t name = k->order[k->first];
        k->first = (k->first + 1) % k->cap;
        k->n--;
        k->noted[name] = false;
        if (get_pages(g, name, to, &groups, &e)) log_line(LOG_WARN, "a page cannot be kept: %s", e.msg);
        if (e.code || !groups) continue;
        page_store_write(k->store, g->names.name[name].digest, groups, depth_of(&g->names, name));
        k->written++;
    }
}

/* ---- from disk */

/* The number of pages after which the session can go on with what is in memory and on disk: as many as are some
 * megabytes, or the first place where it can. n_named: there is none. */
static int64_t look_ahead(engine *g, const session *s, int64_t most)
{
    const page_tree *t = &g->names;
    page_keep *k = g->keep;
    page_reach reach = session_reach(g, s);
    int64_t best = s->n_named;
    uint64_t bytes = 0;
    int32_t at = s->name;
    uint8_t digest[SHA256_BYTES];
    memcpy(digest, t->name[at].digest, sizeof digest);
    for (int64_t n = s->n_named; n < most && reach.may && (bytes < STAGE_BYTES || best == s->n_named); n++) {
        page_record *r = &k->ahead[n - s->n_named];
        const int32_t *ids = s->ids + n * PAGE_TOKENS;
        tree_digest(digest, ids, digest);
        if (at >= 0) at = tree_find(t, at, ids);
        if (!page_store_find(k->store, digest, r)) r->groups = 0;
        const uint32_t here = at >= 0 ? tree_groups(t, at) : 0;
        bytes += page_record_bytes(&k->shape, r->groups & ~here);
        if (reach_add(g, &reach, n, here | r->groups)) best = n + 1;
    }
    return best;
}

/* Loads the pages of a name, page n of a text that goes on after `to` of them. False: they are not there, or there is
 * no memory for them. */
static bool load_name(engine *g, int32_t name, const page_record *r, int64_t n, int64_t to)
{
    page_keep *k = g->keep;
    const uint8_t *bytes = NULL;
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->prog->n_group; i++) {
        if (!(r->groups >> i & 1)) continue;
        const uint64_t from = at;
        at += k->shape.bytes[i];
        if (g->names.name[name].page[i] >= 0) continue;
        if (n < session_first_seen(g->prog->group_window[i], to * PAGE_TOKENS)) continue;
        if (!bytes && !(bytes = page_store_read(k->store, r, n))) return false;
        const int32_t page = tree_take(&g->names, (int)i);
        if (page < 0) return false;
        k->loaded[k->n_loaded++] = (loaded_page){page, (uint8_t)i};
        if (plan_page_put(g->placed, (int)i, page, bytes + from, &(err){0})) return false;
        tree_put(&g->names, name, (int)i, page);
        k->left -= (int64_t)k->shape.bytes[i];
    }
    k->read += bytes != NULL;
    return true;
}

keep_result keep_fetch(engine *g, session *s, int64_t most)
{
    page_keep *k = g->keep;
    if (!k || !g->placed) return KEEP_NOTHING;
    const int64_t from = s->n_named, to = look_ahead(g, s, most);
    if (to == from) return KEEP_NOTHING;
    k->waits = steps_under_way(&g->steps) > 0;
    if (k->fill != g->fill) k->left = STAGE_BYTES;
    k->fill = g->fill;
    if (k->waits || k->left <= 0) return KEEP_LATER;
    int32_t at = s->name;
    tree_hold(&g->names, at);
    for (int64_t n = from; n < to; n++) {
        const int32_t next = tree_use(&g->names, at, s->ids + n * PAGE_TOKENS);
        tree_drop(&g->names, at);
        at = next;
        if (at < 0 || !load_name(g, at, &k->ahead[n - from], n, to)) break;
    }
    if (at >= 0) tree_drop(&g->names, at);
    return k->n_loaded ? KEEP_SOME : KEEP_NOTHING;
}

void keep_fetched(engine *g)
{
    page_keep *k = g->keep;
    while (k->n_loaded) {
        const loaded_page *p = &k->loaded[--k->n_loaded];
        pages_give(&g->pages[p->group], p->page);
    }
}

bool keep_waits(engine *g)
{
    page_keep *k = g->keep;
    if (!k || !k->waits) return false;
    k->waits = steps_under_way(&g->steps) > 0;
    return k->waits;
}

void keep_count(const engine *g, uint64_t *read, uint64_t *written)
{
    *read = g->keep ? g->keep->read : 0;
    *written = g->keep ? g->keep->written : 0;
}

/* ---- a file for one text */

void keep_remember(engine *g, int32_t name)
{
    page_keep *k = g->keep;
    if (!k || !k->has_file) return;
    tree_hold(&g->names, name);
    if (k->last >= 0) tree_drop(&g->names, k->last);
    k->last = name;
}

/* The names of the text, from its first page on: out[n - 1] is k->last. */
static int64_t list_names(const engine *g, int32_t *out, int64_t n)
{
    int32_t at = g->keep->last;
    for (int64_t i = n; i-- > 0; at = g->names.name[at].parent) out[i] = at;
    return n;
}

static int write_pages(engine *g, file_out *f, const int32_t *name, page_record *r, uint32_t n, uint8_t *bytes, err *e)
{
    buf head = {0};
    int rc = OK;
    for (uint32_t i = 0; i < n && !rc; i++) {
        rc = get_pages(g, name[i], bytes, &r[i].groups, e);
        memcpy(r[i].name, g->names.name[name[i]].digest, SHA256_BYTES);
        sha256_of(bytes, page_record_bytes(&g->keep->shape, r[i].groups), r[i].sum);
    }
    page_file_add_head(&head, &g->keep->shape, r, n);
    if (!rc && head.bad) rc = err_set(e, ERR_MEMORY, "out of memory for a session file");
    if (!rc) rc = file_write(f, head.p, head.n, e);
    for (uint32_t i = 0; i < n && !rc; i++) {
        uint32_t groups;
        rc = get_pages(g, name[i], bytes, &groups, e);
        if (!rc) rc = file_write(f, bytes, page_record_bytes(&g->keep->shape, groups), e);
    }
    buf_free(&head);
    return rc;
}

int engine_session_save(engine *g, const char *path, err *e)
{
    page_keep *k = g->keep;
    engine_end_steps(g);
    if (k->last < 0) return OK;
    const int64_t n = depth_of(&g->names, k->last);
    int32_t *name = mem_array((size_t)n + 1, sizeof *name);
    page_record *r = mem_array((size_t)n + 1, sizeof *r);
    uint8_t *bytes = mem_alloc(page_record_bytes(&k->shape, (1u << GROUP_MAX) - 1));
    file_out *f = NULL;
    int rc = name && r && bytes ? file_create_private(&f, path, e)
                                : err_set(e, ERR_MEMORY, "out of memory for a session file");
    if (!rc) rc = write_pages(g, f, name, r, (uint32_t)list_names(g, name, n), bytes, e);
    if (rc) file_abandon(f);
    else rc = file_commit(f, e);
    mem_free(name);
    mem_free(r);
    mem_free(bytes);
    return rc;
}
