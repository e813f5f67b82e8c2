/* catalogue.c - see catalogue.h. Numbers are little-endian; texts have their length (4 bytes) in front. */
#include "net/catalogue.h"

#include "base/hash_tree.h"
#include "base/mem.h"
#include "io/ckpt_build.h"

#include <stdlib.h>
#include <string.h>

enum {
    TOLD_MAX = 1 << 15,
    GIVEN_MAX = 1 << 18,
    TENSOR_LEAST = 24
}; /* bytes of a tensor's contents; of a tensor in the message */
static const uint64_t bytes_max = (uint64_t)1 << 46;

static void write_text(buf *out, span t)
{
    buf_uint(out, t.n, 4);
    buf_add(out, t.p, t.n);
}

/* The tensors of a piece, of more than `least` bytes but for the first; of those whose values are told none. */
static void mark_piece(const piece *c, uint64_t least, bool *is)
{
    is[c->entry] = true;
    for (int i = 1; c->stored && i < c->stored->n_source; i++)
        if (c->stored->source[i].bytes > least && !(least && c->stored->source[i].told))
            is[c->stored->source[i].entry] = true;
}

/* want[i]: ops of p read weights of tensor i of the checkpoint that its model was built from. */
static void mark_wanted(const program *p, bool *want)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (!p->ops[i].in[k] || t->kind != TENSOR_WEIGHT) continue;
            const weight *w = &p->weights[t->weight];
            for (uint32_t n = 0; n < w->n_piece; n++) mark_piece(&w->pieces[n], 0, want);
        }
}

/* weighs[i]: weights of p are made of tensor i; NULL: memory is short. Factors, orders and shapes of quantized matrices
 * are not among them: without these nobody can tell how the rest is read. */
static bool *find_weights(const ckpt *c, const program *p)
{
    bool *weighs = mem_zero((size_t)ckpt_count(c) + 1, sizeof *weighs);
    for (uint32_t i = 0; weighs && i < p->n_weight; i++)
        for (uint32_t k = 0; k < p->weights[i].n_piece; k++) mark_piece(&p->weights[i].pieces[k], TOLD_MAX, weighs);
    return weighs;
}

static void write_shape(buf *out, const ckpt_entry *t)
{
    write_text(out, span_str(t->name));
    write_text(out, span_str(dtype_info[t->type].name));
    buf_byte(out, t->packed);
    buf_byte(out, (uint8_t)t->dims.rank);
    for (int d = 0; d < t->dims.rank; d++) buf_uint(out, (uint64_t)t->dims.dim[d], 8);
    buf_uint(out, t->bytes, 8);
}

static void write_given(buf *out, const ckpt_entry *t, bool weighs)
{
    write_text(out, !weighs && t->bytes <= GIVEN_MAX ? span_of(t->data, t->bytes) : (span){0});
}

typedef struct named {
    const char *name;
    uint32_t i;
} named;

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

bool catalogue_write(buf *out, uint32_t *order, const ckpt *c, const contents_roots *held, const program *p)
{
    const uint32_t n = ckpt_count(c);
    bool *weighs = find_weights(c, p);
    named *sorted = mem_array((size_t)n + 1, sizeof *sorted);
    const bool ok = weighs && sorted;
    for (uint32_t i = 0; ok && i < n; i++) sorted[i] = (named){ckpt_at(c, i)->name, i};
    if (ok && n) qsort(sorted, n, sizeof *sorted, by_name);
    write_text(out, span_str(ckpt_format(c)));
    buf_uint(out, n, 4);
    for (uint32_t k = 0; ok && k < n; k++) {
        const uint32_t i = order[k] = sorted[k].i;
        const ckpt_entry *t = ckpt_at(c, i);
        write_shape(out, t);
        buf_add(out, held->root[held->first[i]], contents_trees(t->bytes) * SHA256_BYTES);
        write_given(out, t, weighs[i]);
    }
    mem_free(weighs);
    mem_free(sorted);
    return ok && !out->bad;
}

bool catalogue_write_flat(buf *out, const ckpt *c, const contents *held, const program *p)
{
    bool *weighs = find_weights(c, p);
    if (!weighs) return false;
    write_text(out, span_str(ckpt_format(c)));
    buf_add(out, held->all, SHA256_BYTES);
    buf_uint(out, ckpt_count(c), 4);
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        write_shape(out, ckpt_at(c, i));
        buf_add(out, held->tensor[i], SHA256_BYTES);
        write_given(out, ckpt_at(c, i), weighs[i]);
    }
    mem_free(weighs);
    return !out->bad;
}

static char *read_text(catalogue *to, cursor *c)
{
    const span t = cursor_take(c, cursor_u32(c));
    if (t.n > CKPT_NAME_MAX || !t.n || memchr(t.p, 0, t.n)) c->bad = true;
    return c->bad ? NULL : arena_strn(&to->mem, (const char *)t.p, t.n);
}

static bool read_digest(cursor *c, uint8_t *to)
{
    const span s = cursor_take(c, SHA256_BYTES);
    if (!c->bad) memcpy(to, s.p, SHA256_BYTES);
    return !c->bad;
}

static int malformed(err *e) { return err_set(e, ERR_FORMAT, "its list of tensors is malformed"); }

static int read_shape(catalogue *to, listed *x, cursor *c, err *e)
{
    ckpt_entry *t = &x->t;
    uint64_t need;
    t->name = read_text(to, c);
    const char *type = read_text(to, c);
    if (!c->bad && (!t->name || !type)) return err_memory(e, "a list of tensors");
    t->type = c->bad ? DTYPE_NONE : dtype_by_name(type);
    t->packed = cursor_u8(c) != 0;
    t->dims.rank = cursor_u8(c);
    if (t->dims.rank > SHAPE_MAX) c->bad = true;
    for (int d = 0; d < t->dims.rank && !c->bad; d++) t->dims.dim[d] = (int64_t)cursor_u64(c);
    t->bytes = cursor_u64(c);
    if (c->bad || !ckpt_tensor_bytes(t->type, t->packed, &t->dims, &need) || t->bytes != need || need > bytes_max)
        return malformed(e);
    return OK;
}

/* Contents that came with the list are what it says. */
static bool given_is_right(const listed *x)
{
    uint8_t digest[SHA256_BYTES];
    if (!x->given.n) return true;
    if (x->given.n != x->t.bytes) return false;
    if (!x->root) {
        sha256_of(x->given.p, x->given.n, digest);
        return memcmp(digest, x->digest, sizeof digest) == 0;
    }
    for (uint64_t at = 0; at < x->given.n; at += TREE_BYTES) {
        tree_root(x->given.p + at, x->given.n - at < TREE_BYTES ? x->given.n - at : TREE_BYTES, digest);
        if (memcmp(digest, x->root + at / TREE_BYTES * SHA256_BYTES, sizeof digest) != 0) return false;
    }
    return true;
}

/* The next tensor gets its name and place. */
static int add_tensor(catalogue *to, err *e)
{
    listed *x = &to->tensor[to->n];
    if (!given_is_right(x))
        return err_set(e, ERR_FORMAT, "its tensor '%.100s' has other contents than it says", x->t.name);
    if (map_get_str(&to->names, x->t.name) != MAP_NONE)
        return err_set(e, ERR_FORMAT, "its list of tensors has '%.100s' twice", x->t.name);
    x->at = to->bytes;
    to->bytes += (x->t.bytes + CATALOGUE_ALIGN - 1) / CATALOGUE_ALIGN * CATALOGUE_ALIGN;
    if (to->bytes > bytes_max) return err_set(e, ERR_LIMIT, "its tensors have more than 64 TiB");
    return map_put(&to->names, span_str(x->t.name), to->n++) ? OK : err_memory(e, "a list of tensors");
}

static int read_tensor(catalogue *to, cursor *c, sha256 *identity, err *e)
{
    listed *x = &to->tensor[to->n];
    const size_t from = c->at;
    int rc = read_shape(to, x, c, e);
    if (rc) return rc;
    x->root = cursor_take(c, contents_trees(x->t.bytes) * SHA256_BYTES).p;
    if (!c->bad) sha256_add(identity, c->p + from, c->at - from);
    x->given = cursor_take(c, cursor_u32(c));
    if (c->bad || (to->n && strcmp(x[-1].t.name, x->t.name) >= 0)) return malformed(e);
    return add_tensor(to, e);
}

static int read_tensor_flat(catalogue *to, cursor *c, err *e)
{
    listed *x = &to->tensor[to->n];
    int rc = read_shape(to, x, c, e);
    if (rc) return rc;
    read_digest(c, x->digest);
    x->given = cursor_take(c, cursor_u32(c));
    return c->bad ? malformed(e) : add_tensor(to, e);
}

/* The number of tensors, and room for them. */
static int read_count(catalogue *to, cursor *c, uint32_t *n, err *e)
{
    *n = cursor_u32(c);
    if (!cursor_has(c, *n, TENSOR_LEAST) || *n > CKPT_TENSORS_MAX) return malformed(e);
    to->tensor = mem_zero((size_t)*n + 1, sizeof *to->tensor);
    return to->tensor ? OK : err_memory(e, "a list of tensors");
}

int catalogue_read(catalogue *out, span text, err *e)
{
    cursor c = cursor_of(text);
    sha256 identity;
    uint32_t n = 0;
    *out = (catalogue){.has_trees = true};
    out->format = read_text(out, &c);
    if (!c.bad && !out->format) return err_memory(e, "a list of tensors");
    int rc = read_count(out, &c, &n, e);
    sha256_init(&identity);
    sha256_add(&identity, text.p, c.at);
    for (uint32_t i = 0; i < n && !rc; i++) rc = read_tensor(out, &c, &identity, e);
    sha256_end(&identity, out->identity);
    if (!rc && cursor_left(&c)) rc = malformed(e);
    if (rc) catalogue_free(out);
    return rc;
}

/* The digest of the whole is that of the list. */
static int check_all(const catalogue *c, const uint8_t *all, err *e)
{
    contents_item *items = mem_array((size_t)c->n + 1, sizeof *items);
    uint8_t got[SHA256_BYTES];
    if (!items) return err_memory(e, "a list of tensors");
    for (uint32_t i = 0; i < c->n; i++) items[i] = (contents_item){&c->tensor[i].t, c->tensor[i].digest};
    contents_join(items, c->n, got);
    mem_free(items);
    return memcmp(got, all, sizeof got) == 0
               ? OK
               : err_set(e, ERR_FORMAT, "its list of tensors has another digest than it says");
}

int catalogue_read_flat(catalogue *out, span text, err *e)
{
    cursor c = cursor_of(text);
    uint8_t all[SHA256_BYTES];
    uint32_t n = 0;
    *out = (catalogue){.n = 0};
    out->format = read_text(out, &c);
    if (!c.bad && !out->format) return err_memory(e, "a list of tensors");
    read_digest(&c, all);
    int rc = read_count(out, &c, &n, e);
    for (uint32_t i = 0; i < n && !rc; i++) rc = read_tensor_flat(out, &c, e);
    if (!rc && cursor_left(&c)) rc = malformed(e);
    if (!rc) rc = check_all(out, all, e);
    if (rc) catalogue_free(out);
    return rc;
}

void catalogue_free(catalogue *c)
{
    map_free(&c->names);
    mem_free(c->tensor);
    arena_free(&c->mem);
    *c = (catalogue){.n = 0};
}

static int differs(const ckpt *own, const char *name, err *e)
{
    return err_set(e, ERR_NOT_FOUND, "%s has other contents of tensor '%.100s' (give --cache, or the same file)",
                   ckpt_path(own), name);
}

static const listed *find_listed(const catalogue *c, const ckpt_entry *t)
{
    const uint32_t k = map_get_str(&c->names, t->name);
    return k == MAP_NONE || c->tensor[k].t.bytes != t->bytes ? NULL : &c->tensor[k];
}

static int compare_flat(const catalogue *c, const ckpt *own, const bool *want, const char *cache, int64_t since,
                        int threads, int64_t *hashed_at, err *e)
{
    contents held;
    int rc = contents_hash_some(&held, own, want, cache, since, threads, e);
    if (rc) return rc;
    *hashed_at = held.hashed_at;
    for (uint32_t i = 0; i < ckpt_count(own) && !rc; i++) {
        const listed *x = want[i] ? find_listed(c, ckpt_at(own, i)) : NULL;
        if (want[i] && (!x || memcmp(held.tensor[i], x->digest, SHA256_BYTES) != 0))
            rc = differs(own, ckpt_at(own, i)->name, e);
    }
    contents_free(&held);
    return rc;
}

static int compare_trees(const catalogue *c, const ckpt *own, const bool *want, const char *cache, int64_t since,
                         int threads, int64_t *hashed_at, err *e)
{
    contents_roots held;
    int rc = contents_roots_some(&held, own, want, cache, since, threads, e);
    if (rc) return rc;
    *hashed_at = held.hashed_at;
    for (uint32_t i = 0; i < ckpt_count(own) && !rc; i++) {
        const ckpt_entry *t = ckpt_at(own, i);
        const listed *x = want[i] ? find_listed(c, t) : NULL;
        if (want[i] && (!x || memcmp(held.root[held.first[i]], x->root, contents_trees(t->bytes) * SHA256_BYTES) != 0))
            rc = differs(own, t->name, e);
    }
    contents_roots_free(&held);
    return rc;
}

int catalogue_compare(const catalogue *c, const ckpt *own, const program *p, const char *cache, int64_t since,
                      int threads, int64_t *hashed_at, err *e)
{
    bool *want = mem_zero((size_t)ckpt_count(own) + 1, sizeof *want);
    if (!want) return err_memory(e, "a list of tensors");
    mark_wanted(p, want);
    int rc = c->has_trees ? compare_trees(c, own, want, cache, since, threads, hashed_at, e)
                          : compare_flat(c, own, want, cache, since, threads, hashed_at, e);
    mem_free(want);
    return rc;
}
