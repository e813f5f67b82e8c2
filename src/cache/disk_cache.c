/* disk_cache.c - see disk_cache.h. */
#include "cache/disk_cache.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cache/prefix_reach.h"
#include "cache/snapshot_worth.h"
#include "plan/plan_pages.h"

#include <string.h>

static const double CLOSE_SECONDS = 1; /* for pages that are not on disk yet when the engine ends */
enum { STAGE_BYTES = 32 << 20, SNAPSHOTS_MAX = 32 };

typedef struct loaded_page {
    int32_t page;
    uint8_t group;
} loaded_page;

struct disk_cache {
    page_store *store;
    page_shape shape;
    bool has_file;
    bool waits;    /* a text waits until no step is under way */
    uint64_t step; /* that pages were loaded for last; bytes that may still be loaded for it */
    int64_t left;
    uint64_t read, written; /* nodes, so far */
    int32_t *order;         /* [cap] ring of what is to be written, n from `first` on: pages of a node, 2 * its number;
                             * its snapshot, the odd number after that */
    bool *noted;            /* [cap] whether it is in the ring */
    int32_t first, n, cap;
    page_record *ahead;  /* [pages of a text] what is on disk of those that come next */
    page_record slot;    /* likewise the snapshot where the text can go on */
    loaded_page *loaded; /* [GROUP_MAX * pages of a text] held until their text holds them */
    int32_t n_loaded;
    int32_t last; /* of a file: the last node of the text that ended last; -1: none */
};

/* ---- opening */

int disk_cache_open(kv_cache *c, const page_shape *of, int64_t ctx, err *e)
{
    disk_cache *k = c->disk = mem_zero(1, sizeof *k);
    const size_t pages = (size_t)ctx / PAGE_TOKENS + 1;
    if (!k) return err_memory(e, "pages on disk");
    k->last = -1;
    k->shape = *of;
    k->cap = 2 * c->tree.cap;
    k->order = mem_array((size_t)k->cap, sizeof *k->order);
    k->noted = mem_zero((size_t)k->cap, sizeof *k->noted);
    k->ahead = mem_array(pages, sizeof *k->ahead);
    k->loaded = mem_array(pages * GROUP_MAX + 1, sizeof *k->loaded);
    if (!k->order || !k->noted || !k->ahead || !k->loaded) return err_memory(e, "pages on disk");
    return page_store_open(&k->store, &k->shape, e);
}

int disk_cache_folder(kv_cache *c, const char *dir, int64_t most, void (*on_free)(void *ctx), void *ctx, err *e)
{
    const uint64_t page = page_record_bytes(&c->disk->shape, PAGE_ALL) + PAGE_FILE_ONE;
    if ((uint64_t)most < page)
        return err_set(e, ERR_USAGE, "--cache-bytes %lld: the pages of %d tokens alone take %llu", (long long)most,
                       PAGE_TOKENS, (unsigned long long)page);
    return page_store_add_folder(c->disk->store, dir, most, on_free, ctx, e);
}

int disk_cache_file(kv_cache *c, const char *path, err *e)
{
    c->disk->has_file = true;
    return page_store_add_file(c->disk->store, path, e);
}

void disk_cache_close(kv_cache *c, plan *on)
{
    disk_cache *k = c->disk;
    const disk_turn now = {.on = on, .idle = true};
    if (!k) return;
    const double until = clock_now() + CLOSE_SECONDS;
    while (k->store && k->n && clock_now() < until && page_store_wait(k->store, until - clock_now()))
        disk_cache_write(c, &now);
    page_store_close(k->store);
    mem_free(k->order);
    mem_free(k->noted);
    mem_free(k->ahead);
    mem_free(k->loaded);
    mem_free(k);
    c->disk = NULL;
}

/* ---- to disk */

static void note(disk_cache *k, int32_t what)
{
    if (!k || k->has_file || k->noted[what]) return;
    k->noted[what] = true;
    k->order[(k->first + k->n++) % k->cap] = what;
}

void disk_cache_note(kv_cache *c, int32_t node) { note(c->disk, 2 * node); }

/* The name of the snapshot of the node with this digest. */
static void call_snapshot(const uint8_t digest[SHA256_BYTES], uint8_t name[SHA256_BYTES])
{
    static const char what[] = "snapshot";
    sha256 s;
    sha256_init(&s);
    sha256_add(&s, digest, SHA256_BYTES);
    sha256_add(&s, what, sizeof what);
    sha256_end(&s, name);
}

static bool find_snapshot(disk_cache *k, const uint8_t digest[SHA256_BYTES], page_record *out)
{
    uint8_t name[SHA256_BYTES];
    call_snapshot(digest, name);
    return page_store_find(k->store, name, out) && out->groups == PAGE_SLOT;
}

/* The nodes whose snapshots are kept of a text that ends with this one, at most SNAPSHOTS_MAX. */
static int list_snapshots(const kv_cache *c, int32_t node, int32_t *to)
{
    const prefix_tree *t = &c->tree;
    const int32_t end = t->node[node].depth;
    page_record r;
    int n = 0;
    for (int32_t at = node; t->slots >= 0 && at >= 0 && t->node[at].depth > 0 && n < SNAPSHOTS_MAX;
         at = t->node[at].parent) {
        const prefix_node *m = &t->node[at];
        if (n > 1 && end - m->depth < 2 * (end - t->node[to[n - 1]].depth)) continue;
        if (m->page[t->slots] >= 0 ||
            (c->disk->has_file && m->depth % SNAPSHOT_PAGES == 0 && find_snapshot(c->disk, m->digest, &r)))
            to[n++] = at;
    }
    return n;
}

/* The groups of which a node has pages, and their bytes; those that have left memory, but are in the file, too. */
static int get_pages(const kv_cache *c, plan *on, int32_t node, uint8_t *to, uint32_t *groups, err *e)
{
    const disk_cache *k = c->disk;
    page_record r = {.groups = 0};
    const bool found = k->has_file && page_store_find(k->store, c->tree.node[node].digest, &r);
    const uint8_t *old = found ? page_store_read(k->store, &r, 0) : NULL;
    int rc = OK;
    *groups = 0;
    for (uint32_t i = 0; i < c->p->n_group && !rc; i++) {
        const int32_t page = c->tree.node[node].page[i];
        const bool there = old && r.groups >> i & 1;
        if (page >= 0) rc = plan_page_get(on, (int)i, page, to, e);
        else if (there) memcpy(to, old, k->shape.bytes[i]);
        if (page >= 0 || there) *groups |= 1u << i, to += k->shape.bytes[i];
        if (there) old += k->shape.bytes[i];
    }
    return rc;
}

/* Likewise its snapshot: PAGE_SLOT, or nothing. */
static int get_snapshot(const kv_cache *c, plan *on, int32_t node, uint8_t *to, uint32_t *groups, err *e)
{
    const disk_cache *k = c->disk;
    const int32_t slot = c->tree.node[node].page[c->tree.slots];
    page_record r;
    const bool found = slot < 0 && k->has_file && find_snapshot(c->disk, c->tree.node[node].digest, &r);
    const uint8_t *old = found ? page_store_read(k->store, &r, 0) : NULL;
    *groups = slot >= 0 || old ? PAGE_SLOT : 0;
    if (old) memcpy(to, old, k->shape.bytes[GROUP_MAX]);
    return slot >= 0 ? plan_page_get(on, GROUP_MAX, slot, to, e) : OK;
}

void disk_cache_write(kv_cache *c, const disk_turn *now)
{
    disk_cache *k = c->disk;
    uint8_t *to = k && k->n && now->on && now->idle ? page_store_room(k->store) : NULL, name[SHA256_BYTES];
    for (uint32_t groups = 0; to && k->n && !groups;) {
        err e = {0};
        const int32_t what = k->order[k->first], node = what / 2;
        const uint8_t *digest = c->tree.node[node].digest;
        k->first = (k->first + 1) % k->cap;
        k->n--;
        k->noted[what] = false;
        if (what % 2 ? get_snapshot(c, now->on, node, to, &groups, &e) : get_pages(c, now->on, node, to, &groups, &e))
            log_line(LOG_WARN, "a page cannot be kept: %s", e.msg);
        if (e.code || !groups) continue;
        if (what % 2) call_snapshot(digest, name);
        page_store_write(k->store, what % 2 ? name : digest, groups, c->tree.node[node].depth);
        k->written++;
    }
}

/* ---- from disk */

/* Whether a text can go on after a node, of number `at` if it is in memory: there is a snapshot of it, k->slot if it is
 * on disk, or none is needed. */
static bool has_snapshot(kv_cache *c, int32_t at, const uint8_t digest[SHA256_BYTES], int64_t pages)
{
    const int slots = c->tree.slots;
    page_record r;
    if (slots < 0) return true;
    if (pages % SNAPSHOT_PAGES) return false;
    if (at >= 0 && c->tree.node[at].page[slots] >= 0) r.groups = 0;
    else if (!find_snapshot(c->disk, digest, &r)) return false;
    c->disk->slot = r;
    return true;
}

/* The number of pages after which the text can go on with what is in memory and on disk: as many as are some
 * megabytes, or the first place where it can; with snapshots the last one. n_shared: there is none. */
static int64_t look_ahead(kv_cache *c, const cache_text *t, int64_t most)
{
    const prefix_tree *tree = &c->tree;
    disk_cache *k = c->disk;
    prefix_reach reach = reach_of(c, t);
    int64_t best = t->n_shared;
    uint64_t bytes = 0;
    int32_t at = t->prefix;
    uint8_t digest[SHA256_BYTES];
    memcpy(digest, tree->node[at].digest, sizeof digest);
    for (int64_t n = t->n_shared;
         n < most && reach.may && (bytes < STAGE_BYTES || best == t->n_shared || tree->slots >= 0); n++) {
        page_record *r = &k->ahead[n - t->n_shared];
        const int32_t *ids = t->ids + n * PAGE_TOKENS;
        tree_digest(digest, ids, digest);
        if (at >= 0) at = tree_find(tree, at, ids);
        if (!page_store_find(k->store, digest, r)) r->groups = 0;
        const uint32_t here = at >= 0 ? tree_groups(tree, at) : 0;
        bytes += page_record_bytes(&k->shape, r->groups & ~here);
        if (reach_add(c, &reach, n, here | r->groups) && has_snapshot(c, at, digest, n + 1)) best = n + 1;
    }
    return best;
}

/* Loads the pages of a node, page n of a text that goes on after `to` of them. False: they are not there, or there is
 * no memory for them. */
static bool load_node(kv_cache *c, plan *on, int32_t node, const page_record *r, int64_t n, int64_t to)
{
    disk_cache *k = c->disk;
    const uint8_t *bytes = NULL;
    uint64_t at = 0;
    for (uint32_t i = 0; i < c->p->n_group; i++) {
        if (!(r->groups >> i & 1)) continue;
        const uint64_t from = at;
        at += k->shape.bytes[i];
        if (c->tree.node[node].page[i] >= 0) continue;
        if (n < kv_first_seen(c->p->group_window[i], to * PAGE_TOKENS)) continue;
        if (!bytes && !(bytes = page_store_read(k->store, r, n))) return false;
        const int32_t page = tree_take(&c->tree, (int)i);
        if (page < 0) return false;
        k->loaded[k->n_loaded++] = (loaded_page){page, (uint8_t)i};
        if (plan_page_put(on, (int)i, page, bytes + from, &(err){0})) return false;
        tree_put(&c->tree, node, (int)i, page);
        k->left -= (int64_t)k->shape.bytes[i];
    }
    k->read += bytes != NULL;
    return true;
}

/* Loads the snapshot that look_ahead has found for this node, unless it has one. */
static bool load_snapshot(kv_cache *c, plan *on, int32_t node)
{
    disk_cache *k = c->disk;
    const int slots = c->tree.slots;
    if (slots < 0 || c->tree.node[node].page[slots] >= 0) return true;
    const int32_t slot = k->slot.groups ? tree_take(&c->tree, slots) : -1; /* it may have left memory since */
    if (slot < 0) return false;
    k->loaded[k->n_loaded++] = (loaded_page){slot, (uint8_t)slots};
    const uint8_t *bytes = page_store_read(k->store, &k->slot, c->tree.node[node].depth);
    if (!bytes || plan_page_put(on, GROUP_MAX, slot, bytes, &(err){0})) return false;
    tree_put(&c->tree, node, slots, slot);
    snapshot_used(&c->tree, slot);
    k->left -= (int64_t)k->shape.bytes[GROUP_MAX];
    k->read++;
    return true;
}

disk_result disk_cache_fetch(kv_cache *c, const cache_text *t, int64_t most, const disk_turn *now)
{
    disk_cache *k = c->disk;
    if (!k || !now->on) return DISK_NOTHING;
    const int64_t from = t->n_shared, to = look_ahead(c, t, most);
    if (to == from) return DISK_NOTHING;
    k->waits = !now->idle;
    if (k->step != now->step) k->left = STAGE_BYTES;
    k->step = now->step;
    if (k->waits || k->left <= 0) return DISK_LATER;
    int32_t at = t->prefix;
    tree_hold(&c->tree, at);
    for (int64_t n = from; n < to; n++) {
        const int32_t next = tree_use(&c->tree, at, t->ids + n * PAGE_TOKENS);
        tree_drop(&c->tree, at);
        at = next;
        if (at < 0 || !load_node(c, now->on, at, &k->ahead[n - from], n, to)) break;
    }
    if (at >= 0 && c->tree.node[at].depth == to) load_snapshot(c, now->on, at);
    if (at >= 0) tree_drop(&c->tree, at);
    return k->n_loaded ? DISK_SOME : DISK_NOTHING;
}

void disk_cache_fetched(kv_cache *c)
{
    disk_cache *k = c->disk;
    while (k->n_loaded) {
        const loaded_page *p = &k->loaded[--k->n_loaded];
        pages_give(c->tree.pool[p->group], p->page);
    }
}

bool disk_cache_waits(kv_cache *c, const disk_turn *now)
{
    disk_cache *k = c->disk;
    if (!k || !k->waits) return false;
    k->waits = !now->idle;
    return k->waits;
}

void disk_cache_count(const kv_cache *c, uint64_t *read, uint64_t *written)
{
    *read = c->disk ? c->disk->read : 0;
    *written = c->disk ? c->disk->written : 0;
}

/* ---- a file for one text */

void disk_cache_remember(kv_cache *c, int32_t node)
{
    disk_cache *k = c->disk;
    int32_t list[SNAPSHOTS_MAX];
    const int n = k && !k->has_file ? list_snapshots(c, node, list) : 0;
    for (int i = 0; i < n; i++) note(k, 2 * list[i] + 1);
    if (!k || !k->has_file) return;
    tree_hold(&c->tree, node);
    if (k->last >= 0) tree_drop(&c->tree, k->last);
    k->last = node;
}

/* A text on its way to a file. */
typedef struct saved_text {
    uint32_t n, n_pages; /* records; the first are of pages, the others of snapshots */
    int32_t *node;       /* [n] from the first page of the text on */
    page_record *r;      /* [n] */
    uint8_t *bytes;      /* of the pages of a node, or of a slot */
} saved_text;

/* Fills t->bytes for record i. */
static int get_record(const kv_cache *c, plan *on, const saved_text *t, uint32_t i, uint32_t *groups, err *e)
{
    return i < t->n_pages ? get_pages(c, on, t->node[i], t->bytes, groups, e)
                          : get_snapshot(c, on, t->node[i], t->bytes, groups, e);
}

static int write_pages(const kv_cache *c, plan *on, const saved_text *t, file_out *f, err *e)
{
    const page_shape *of = &c->disk->shape;
    buf head = {0};
    int rc = OK;
    for (uint32_t i = 0; i < t->n && !rc; i++) {
        page_record *r = &t->r[i];
        const uint8_t *digest = c->tree.node[t->node[i]].digest;
        rc = get_record(c, on, t, i, &r->groups, e);
        if (i < t->n_pages) memcpy(r->name, digest, SHA256_BYTES);
        else call_snapshot(digest, r->name);
        sha256_of(t->bytes, page_record_bytes(of, r->groups), r->sum);
    }
    page_file_add_head(&head, of, t->r, t->n);
    if (!rc && head.bad) rc = err_memory(e, "a session file");
    if (!rc) rc = file_write(f, head.p, head.n, e);
    for (uint32_t i = 0; i < t->n && !rc; i++) {
        uint32_t groups;
        rc = get_record(c, on, t, i, &groups, e);
        if (!rc) rc = file_write(f, t->bytes, page_record_bytes(of, groups), e);
    }
    buf_free(&head);
    return rc;
}

int disk_cache_save(kv_cache *c, plan *on, const char *path, err *e)
{
    const disk_cache *k = c->disk;
    int32_t list[SNAPSHOTS_MAX];
    if (k->last < 0) return OK;
    const size_t n = (size_t)c->tree.node[k->last].depth, slots = (size_t)list_snapshots(c, k->last, list);
    saved_text t = {.n = (uint32_t)(n + slots),
                    .n_pages = (uint32_t)n,
                    .node = mem_array(n + slots + 1, sizeof *t.node),
                    .r = mem_array(n + slots + 1, sizeof *t.r),
                    .bytes = mem_alloc(page_record_bytes(&k->shape, PAGE_ALL))};
    file_out *f = NULL;
    int rc = t.node && t.r && t.bytes ? file_create_private(&f, path, e) : err_memory(e, "a session file");
    int32_t at = k->last;
    for (size_t i = n; !rc && i-- > 0; at = c->tree.node[at].parent) t.node[i] = at;
    if (!rc) memcpy(t.node + n, list, slots * sizeof *list);
    if (!rc) rc = write_pages(c, on, &t, f, e);
    if (rc) file_abandon(f);
    else rc = file_commit(f, e);
    mem_free(t.node);
    mem_free(t.r);
    mem_free(t.bytes);
    return rc;
}
