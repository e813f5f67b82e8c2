/* catalogue.c - see catalogue.h. Numbers are little-endian; texts have their length (4 bytes) in front. */
#include "net/catalogue.h"

#include "base/mem.h"
#include "io/ckpt_build.h"

enum { GIVEN_MAX = 1 << 18, TENSOR_LEAST = 56 }; /* bytes of a tensor's contents; of a tensor in the message */
static const uint64_t bytes_max = (uint64_t)1 << 46;

static int no_memory(err *e) { return err_set(e, ERR_MEMORY, "out of memory for a list of tensors"); }

static void write_text(buf *out, span t)
{
    buf_uint(out, t.n, 4);
    buf_add(out, t.p, t.n);
}

/* want[i]: ops of p read weights of tensor i of the checkpoint that its model was built from. */
static void mark_wanted(const program *p, bool *want)
{
    for (uint32_t i = 0; i < p->n_op; i++)
        for (int k = 0; k < 4; k++) {
            const tensor *t = &p->tensors[p->ops[i].in[k]];
            if (!p->ops[i].in[k] || t->kind != TENSOR_WEIGHT) continue;
            const weight *w = &p->weights[t->weight];
            for (uint32_t n = 0; n < w->n_piece; n++) want[w->pieces[n].entry] = true;
        }
}

bool catalogue_write(buf *out, const ckpt *c, const contents *held, const program *p)
{
    bool *weighs = mem_zero((size_t)ckpt_count(c) + 1, sizeof *weighs);
    if (!weighs) return false;
    for (uint32_t i = 0; i < p->n_weight; i++)
        for (uint32_t k = 0; k < p->weights[i].n_piece; k++) weighs[p->weights[i].pieces[k].entry] = true;
    write_text(out, span_str(ckpt_format(c)));
    buf_add(out, held->all, SHA256_BYTES);
    buf_uint(out, ckpt_count(c), 4);
    for (uint32_t i = 0; i < ckpt_count(c); i++) {
        const ckpt_entry *t = ckpt_at(c, i);
        const bool given = !weighs[i] && t->bytes <= GIVEN_MAX;
        write_text(out, span_str(t->name));
        write_text(out, span_str(dtype_info[t->type].name));
        buf_byte(out, t->packed);
        buf_byte(out, (uint8_t)t->dims.rank);
        for (int d = 0; d < t->dims.rank; d++) buf_uint(out, (uint64_t)t->dims.dim[d], 8);
        buf_uint(out, t->bytes, 8);
        buf_add(out, held->tensor[i], SHA256_BYTES);
        write_text(out, given ? span_of(t->data, t->bytes) : (span){0});
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

static int read_tensor(catalogue *to, cursor *c, err *e)
{
    listed *x = &to->tensor[to->n];
    ckpt_entry *t = &x->t;
    t->name = read_text(to, c);
    const char *type = read_text(to, c);
    if (!c->bad && (!t->name || !type)) return no_memory(e);
    t->type = c->bad ? DTYPE_NONE : dtype_by_name(type);
    t->packed = cursor_u8(c) != 0;
    t->dims.rank = cursor_u8(c);
    if (t->dims.rank > SHAPE_MAX) c->bad = true;
    for (int d = 0; d < t->dims.rank && !c->bad; d++) t->dims.dim[d] = (int64_t)cursor_u64(c);
    t->bytes = cursor_u64(c);
    read_digest(c, x->digest);
    x->given = cursor_take(c, cursor_u32(c));
    uint64_t need;
    if (c->bad || !ckpt_tensor_bytes(t->type, t->packed, &t->dims, &need) || t->bytes != need || need > bytes_max ||
        (x->given.n && x->given.n != need))
        return err_set(e, ERR_FORMAT, "its list of tensors is malformed");
    if (map_get_str(&to->names, t->name) != MAP_NONE)
        return err_set(e, ERR_FORMAT, "its list of tensors has '%.100s' twice", t->name);
    return map_put(&to->names, span_str(t->name), to->n++) ? OK : no_memory(e);
}

/* Contents that came with the list are what it says. */
static bool given_is_right(const listed *x)
{
    uint8_t digest[SHA256_BYTES];
    if (!x->given.n) return true;
    sha256_of(x->given.p, x->given.n, digest);
    return memcmp(digest, x->digest, sizeof digest) == 0;
}

/* Places in the order of names; the digest of the whole. */
static int place_all(catalogue *to, err *e)
{
    contents_item *items = mem_array((size_t)to->n + 1, sizeof *items);
    uint8_t all[SHA256_BYTES];
    to->ranked = mem_array((size_t)to->n + 1, sizeof *to->ranked);
    int rc = items && to->ranked ? OK : no_memory(e);
    for (uint32_t i = 0; i < to->n && !rc; i++) {
        items[i] = (contents_item){&to->tensor[i].t, to->tensor[i].digest};
        if (!given_is_right(&to->tensor[i]))
            rc = err_set(e, ERR_FORMAT, "its tensor '%.100s' has other contents than it says", to->tensor[i].t.name);
    }
    if (!rc) {
        contents_join(items, to->n, all);
        if (memcmp(all, to->all, sizeof all) != 0)
            rc = err_set(e, ERR_FORMAT, "its list of tensors has another digest than it says");
    }
    for (uint32_t i = 0; i < to->n && !rc; i++) {
        listed *x = &to->tensor[map_get_str(&to->names, items[i].t->name)];
        x->rank = i;
        x->at = to->bytes;
        to->ranked[i] = (uint32_t)(x - to->tensor);
        to->bytes += (x->t.bytes + CATALOGUE_ALIGN - 1) / CATALOGUE_ALIGN * CATALOGUE_ALIGN;
        if (to->bytes > bytes_max) rc = err_set(e, ERR_LIMIT, "its tensors have more than 64 TiB");
    }
    mem_free(items);
    return rc;
}

int catalogue_read(catalogue *out, span text, err *e)
{
    cursor c = cursor_of(text);
    *out = (catalogue){.n = 0};
    out->format = read_text(out, &c);
    if (!c.bad && !out->format) return no_memory(e);
    read_digest(&c, out->all);
    const uint32_t n = cursor_u32(&c);
    int rc = OK;
    if (!cursor_has(&c, n, TENSOR_LEAST) || n > CKPT_TENSORS_MAX)
        rc = err_set(e, ERR_FORMAT, "its list of tensors is malformed");
    if (!rc && !(out->tensor = mem_zero((size_t)n + 1, sizeof *out->tensor))) rc = no_memory(e);
    for (uint32_t i = 0; i < n && !rc; i++) rc = read_tensor(out, &c, e);
    if (!rc && cursor_left(&c)) rc = err_set(e, ERR_FORMAT, "its list of tensors is malformed");
    if (!rc) rc = place_all(out, e);
    if (rc) catalogue_free(out);
    return rc;
}

void catalogue_free(catalogue *c)
{
    map_free(&c->names);
    mem_free(c->tensor);
    mem_free(c->ranked);
    arena_free(&c->mem);
    *c = (catalogue){.n = 0};
}

int catalogue_compare(const catalogue *c, const ckpt *own, const program *p, const char *cache, int64_t since,
                      int threads, err *e)
{
    bool *want = mem_zero((size_t)ckpt_count(own) + 1, sizeof *want);
    contents held = {0};
    if (!want) return no_memory(e);
    mark_wanted(p, want);
    int rc = contents_hash_some(&held, own, want, cache, since, threads, e);
    for (uint32_t i = 0; i < ckpt_count(own) && !rc; i++) {
        const char *name = ckpt_at(own, i)->name;
        const uint32_t k = want[i] ? map_get_str(&c->names, name) : MAP_NONE;
        if (want[i] && (k == MAP_NONE || memcmp(held.tensor[i], c->tensor[k].digest, SHA256_BYTES) != 0))
            rc = err_set(e, ERR_NOT_FOUND, "%s has other contents of tensor '%.100s' (give --cache, or the same file)",
                         ckpt_path(own), name);
    }
    contents_free(&held);
    mem_free(want);
    return rc;
}
