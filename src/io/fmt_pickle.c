/* fmt_pickle.c - what torch.save writes: a ZIP file with data.pkl and one entry per storage, or (before 1.6) a run of
 * pickles with the storages after them.
 *
 * Nothing of Python runs: pickle.h builds values, pickle_torch.h says which globals exist. Tensors stay in the file
 * where they are contiguous; transposed and expanded ones are written out (small budget, see ckpt_add_rewritten).
 * Nested dicts give dotted names. Checkpoints of training programs wrap the weights ({"model": {...}, "model_args":
 * {...}}): the wrapper is taken off, and what is not a tensor becomes the config as JSON. Prefixes that a compiler or a
 * parallel wrapper put before every name ("_orig_mod.", "module.") are taken off too. ckpt.c calls this format and is
 * called back. */
#include "base/mem.h"
#include "base/utf8.h"
#include "io/ckpt_build.h"
#include "io/pickle_torch.h"
#include "io/zip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 16, VISITS_MAX = 1 << 20, JSON_LIST_MAX = 1024, PROTOCOL_VERSION = 1001 };
static const uint8_t magic[10] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

typedef struct found_tensor {
    char *name;
    const torch_tensor *tensor;
} found_tensor;

typedef struct pickle_reader {
    ckpt *c;
    uint32_t file;
    pickle p;
    torch_world world;
    pv root;
    found_tensor *found;
    size_t n, cap;
    map names;
    uint8_t *known; /* of each value: UNKNOWN … */
    uint32_t visits;
    err *e;
} pickle_reader;

static int refuse_archive(pickle_reader *r, const char *why) { return err_set(r->e, ERR_FORMAT, "pickle: %s", why); }
/* ---- containers */

static bool is_root_pickle(span name, span *folder)
{
    static const char file[] = "data.pkl";
    size_t n = sizeof file - 1;
    if (name.n < n || memcmp(name.p + name.n - n, file, n) != 0) return false;
    *folder = span_of(name.p, name.n - n);
    if (folder->n == 0) return true;
    const uint8_t *slash = memchr(folder->p, '/', folder->n);
    return slash == folder->p + folder->n - 1;
}

static const zip_entry *find_in(const zip *z, span folder, const char *middle, span last)
{
    char name[512];
    int n = snprintf(name, sizeof name, "%.*s%s%.*s", (int)folder.n, (const char *)folder.p, middle, (int)last.n,
                     (const char *)last.p);
    return folder.n + last.n < 400 && n > 0 ? zip_find(z, span_of(name, (size_t)n)) : NULL;
}

static int load_zip(pickle_reader *r, span all, const zip *z)
{
    span folder = {0};
    const zip_entry *root = NULL;
    for (uint32_t i = 0; i < z->n; i++) {
        span here;
        if (!is_root_pickle(z->entry[i].name, &here)) continue;
        if (root) return refuse_archive(r, "two files data.pkl");
        root = &z->entry[i];
        folder = here;
    }
    if (!root) return err_set(r->e, ERR_FORMAT, "a ZIP file, but not one that torch.save wrote (no data.pkl)");
    const zip_entry *order = find_in(z, folder, "byteorder", span_of("", 0));
    if (order && !span_is(span_of(all.p + order->offset, (size_t)order->bytes), "little"))
        return refuse_archive(r, "not in little-endian order");
    cursor in = cursor_of(span_of(all.p + root->offset, (size_t)root->bytes));
    int rc = pickle_load(&r->p, &in, &r->root, r->e);
    for (size_t i = 0; i < r->world.n && !rc; i++) {
        torch_blob *b = &r->world.blob[i];
        const zip_entry *data = find_in(z, folder, "data/", b->key);
        if (!data) continue;
        b->placed = true;
        b->offset = data->offset;
        b->bytes = data->bytes;
    }
    return rc;
}

/* After the pickles: a pickled list of keys, then for each the number of elements and the elements. */
static int place_legacy(pickle_reader *r, cursor *in)
{
    pv keys;
    int rc = pickle_load(&r->p, in, &keys, r->e);
    if (rc) return rc;
    pickle_value list = *pickle_at(&r->p, keys);
    if (list.kind != PV_LIST) return refuse_archive(r, "no list of storages");
    for (uint32_t i = 0; i < list.n; i++) {
        uint32_t k = map_get(&r->world.keys, pickle_text(&r->p, list.item[i]));
        uint64_t count = cursor_u64(in), bytes;
        torch_blob *b = k == MAP_NONE ? NULL : &r->world.blob[k];
        if (!b || b->placed)
            return refuse_archive(r, "the list of storages names one that no tensor uses, or one twice");
        if (!in->bad && count != b->count)
            return refuse_archive(r, "a storage whose size is not the one that was said");
        if (!mem_mul(count, b->element, &bytes)) return refuse_archive(r, "a storage of impossible size");
        b->offset = in->at;
        b->bytes = bytes;
        b->placed = true;
        cursor_take(in, bytes);
        if (in->bad) return refuse_archive(r, "the file ends inside a storage: incomplete download?");
    }
    return OK;
}

static int load_legacy(pickle_reader *r, span all)
{
    cursor in = cursor_of(all);
    pv v;
    int rc = pickle_load(&r->p, &in, &v, r->e);
    if (rc) return rc;
    const pickle_value *x = pickle_at(&r->p, v);
    if (x->kind != PV_BIG || x->n != sizeof magic || memcmp(x->bytes, magic, sizeof magic) != 0)
        return err_set(r->e, ERR_FORMAT, "a pickle, but not one that torch.save wrote");
    if ((rc = pickle_load(&r->p, &in, &v, r->e))) return rc;
    x = pickle_at(&r->p, v);
    if (x->kind != PV_INT || x->i != PROTOCOL_VERSION)
        return refuse_archive(r, "a version of torch.save that is not known");
    if ((rc = pickle_load(&r->p, &in, &v, r->e))) return rc;
    x = pickle_at(&r->p, v);
    for (uint32_t i = 0; x->kind == PV_DICT && i + 1 < x->n; i += 2)
        if (pickle_is_text(&r->p, x->item[i], "little_endian") && !pickle_at(&r->p, x->item[i + 1])->i)
            return refuse_archive(r, "not in little-endian order");
    if ((rc = pickle_load(&r->p, &in, &r->root, r->e))) return rc;
    return place_legacy(r, &in);
}

/* ---- finding the weights */

static bool is_list(const pickle_value *x) { return x->kind == PV_LIST || x->kind == PV_TUPLE; }

/* Facts about a container, found once, so that walking is linear however often containers share containers. */
enum { UNKNOWN, ASKING, HOLDS_NONE, HOLDS_TENSORS, TAKEN };

static int holds_tensor(pickle_reader *r, pv v, int depth, bool *yes)
{
    const pickle_value *x = pickle_at(&r->p, v);
    *yes = torch_tensor_of(&r->p, v) != NULL || r->known[v] >= HOLDS_TENSORS;
    if (depth > DEPTH_MAX) return refuse_archive(r, "nested too deeply");
    if (*yes || r->known[v] != UNKNOWN || (x->kind != PV_DICT && !is_list(x))) return OK;
    int rc = OK;
    r->known[v] = ASKING; /* a container inside itself finds this */
    for (uint32_t i = x->kind == PV_DICT; i < x->n && !rc && !*yes; i += x->kind == PV_DICT ? 2 : 1)
        rc = holds_tensor(r, x->item[i], depth + 1, yes);
    r->known[v] = *yes ? HOLDS_TENSORS : HOLDS_NONE;
    return rc;
}

static bool find_key(const pickle_reader *r, pv dict, const char *key, pv *out)
{
    const pickle_value *x = pickle_at(&r->p, dict);
    for (uint32_t i = 0; i + 1 < x->n; i += 2)
        if (pickle_is_text(&r->p, x->item[i], key)) {
            *out = x->item[i + 1];
            return true;
        }
    return false;
}

/* Takes wrappers off: state dicts are flat, so a dict under one of these names is one. */
static int unwrap(pickle_reader *r, pv *weights)
{
    static const char *const usual[] = {"state_dict", "model_state_dict", "model", "module"};
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        const pickle_value *x = pickle_at(&r->p, *weights);
        pv inner = *weights;
        if (x->kind != PV_DICT) return refuse_archive(r, "the top is not a dict of tensors");
        for (size_t i = 0; i < sizeof usual / sizeof *usual && inner == *weights; i++) {
            pv candidate;
            bool yes = false;
            if (!find_key(r, *weights, usual[i], &candidate) || pickle_at(&r->p, candidate)->kind != PV_DICT) continue;
            int rc = holds_tensor(r, candidate, 0, &yes);
            if (rc) return rc;
            if (yes) inner = candidate;
        }
        if (inner == *weights) return OK;
        *weights = inner;
    }
    return refuse_archive(r, "wrapped too often");
}

static int add_found(pickle_reader *r, const char *name, size_t n, const torch_tensor *t)
{
    uint32_t known = map_get(&r->names, span_of(name, n));
    if (known != MAP_NONE) { /* a key that was set twice: the later value counts */
        r->found[known].tensor = t;
        return OK;
    }
    if (r->n >= CKPT_TENSORS_MAX) return refuse_archive(r, "too many tensors");
    char *copy = arena_strn(&r->p.mem, name, n);
    if (!copy || !mem_grow((void **)&r->found, &r->cap, r->n + 1, sizeof *r->found) ||
        !map_put(&r->names, span_of(copy, n), (uint32_t)r->n))
        return err_memory(r->e, NULL);
    r->found[r->n++] = (found_tensor){copy, t};
    return OK;
}

/* Appends ".key" to a name; keys are texts or whole numbers. */
static int extend_name(pickle_reader *r, char *name, size_t *n, pv key)
{
    const pickle_value *x = pickle_at(&r->p, key);
    char number[24];
    span s = pickle_text(&r->p, key);
    if (x->kind == PV_INT) s = span_of(number, (size_t)snprintf(number, sizeof number, "%lld", (long long)x->i));
    else if (x->kind != PV_STR && x->kind != PV_BYTES)
        return refuse_archive(r, "a key of a dict of tensors is neither text nor a number");
    if (s.n && memchr(s.p, 0, s.n)) return refuse_archive(r, "a key with a zero byte");
    if (s.n > CKPT_NAME_MAX || *n + s.n + 1 > CKPT_NAME_MAX) return refuse_archive(r, "a name is too long");
    if (*n) name[(*n)++] = '.';
    if (s.n) memcpy(name + *n, s.p, s.n);
    *n += s.n;
    return OK;
}

static int collect_tensors(pickle_reader *r, pv v, char *name, size_t n, int depth)
{
    const pickle_value x = *pickle_at(&r->p, v);
    const torch_tensor *t = torch_tensor_of(&r->p, v);
    bool yes;
    if (t) return add_found(r, name, n, t);
    int rc = holds_tensor(r, v, depth, &yes);
    if (rc || !yes) return rc;
    if (r->known[v] == TAKEN) return refuse_archive(r, "a dict of tensors lies in itself, or in two places");
    r->known[v] = TAKEN;
    for (uint32_t i = 0; x.kind == PV_DICT && i + 1 < x.n && !rc; i += 2) {
        size_t longer = n;
        if ((rc = holds_tensor(r, x.item[i + 1], depth + 1, &yes)) || !yes) continue;
        rc = extend_name(r, name, &longer, x.item[i]);
        if (!rc) rc = collect_tensors(r, x.item[i + 1], name, longer, depth + 1);
    }
    for (uint32_t i = 0; is_list(&x) && i < x.n && !rc; i++) {
        char number[16];
        int digits = snprintf(number, sizeof number, "%s%u", n ? "." : "", i);
        if (n + (size_t)digits > CKPT_NAME_MAX) return refuse_archive(r, "a name is too long");
        memcpy(name + n, number, (size_t)digits);
        rc = collect_tensors(r, x.item[i], name, n + (size_t)digits, depth + 1);
    }
    return rc;
}

/* ---- listing */

static void copy_strided(const torch_tensor *t, const uint8_t *from, size_t element, uint64_t count, uint8_t *to)
{
    int64_t index[SHAPE_MAX] = {0};
    for (uint64_t k = 0; k < count; k++) {
        uint64_t at = 0;
        for (int d = 0; d < t->dims.rank; d++) at += (uint64_t)index[d] * (uint64_t)t->stride[d];
        memcpy(to + k * element, from + at * element, element);
        for (int d = t->dims.rank; d-- > 0;) {
            if (++index[d] < t->dims.dim[d]) break;
            index[d] = 0;
        }
    }
}

static int list_tensor(pickle_reader *r, const char *name, const torch_tensor *t)
{
    const torch_blob *b = &r->world.blob[t->storage.blob];
    uint64_t end, unit = dtype_info[t->storage.type].bytes, element = dtype_info[t->type].bytes, count;
    if (!b->placed) return err_set(r->e, ERR_FORMAT, "tensor \"%.80s\": the file does not hold its storage", name);
    if (!mem_add(t->storage.first, t->storage.count, &end) || !mem_mul(end, unit, &end) || end > b->bytes)
        return err_set(r->e, ERR_FORMAT, "tensor \"%.80s\": its storage is said to be larger than it is in the file",
                       name);
    uint64_t at = b->offset + t->storage.first * unit + t->offset * element;
    shape_count(&t->dims, &count); /* was checked when the tensor was made */
    span label = span_str(name);
    if (torch_is_contiguous(t)) return ckpt_add(r->c, r->file, label, t->type, &t->dims, at, count * element, r->e);
    uint8_t *to;
    int rc = ckpt_add_rewritten(r->c, r->file, label, t->type, &t->dims, &to, r->e);
    if (!rc) copy_strided(t, ckpt_file_bytes(r->c, r->file).p + at, element, count, to);
    return rc;
}

/* Length of a prefix that all names share. */
static size_t shared_prefix(const pickle_reader *r, size_t from, const char *prefix)
{
    size_t n = strlen(prefix);
    for (size_t i = 0; i < r->n; i++)
        if (strncmp(r->found[i].name + from, prefix, n) != 0) return 0;
    return n;
}

static int list_found(pickle_reader *r)
{
    static const char *const known[] = {"_orig_mod.", "module.", "_orig_mod."};
    size_t skip = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) skip += shared_prefix(r, skip, known[i]);
    int rc = OK;
    for (size_t i = 0; i < r->n && !rc; i++) rc = list_tensor(r, r->found[i].name + skip, r->found[i].tensor);
    return rc;
}

/* ---- what is not a tensor, as JSON */

/* Counts a visit of a plain value: shared lists could make a small file endless to print. */
static int visit_value(pickle_reader *r, int depth)
{
    if (depth > DEPTH_MAX) return refuse_archive(r, "nested too deeply");
    if (++r->visits > VISITS_MAX) return err_set(r->e, ERR_LIMIT, "pickle: too many values to walk");
    return OK;
}

static json *add_text(json *to, const char *key, span s)
{
    if (!utf8_is_valid(s) || (s.n && memchr(s.p, 0, s.n))) return json_add_null(to, key);
    char *copy = mem_strn((const char *)s.p, s.n);
    json *j = copy ? json_add_str(to, key, copy) : NULL;
    mem_free(copy);
    return j;
}

static int add_json(pickle_reader *r, json *to, const char *key, pv v, pv skip, int depth);

static int add_members(pickle_reader *r, json *to, pv v, pv skip, int depth)
{
    const pickle_value x = *pickle_at(&r->p, v);
    int rc = OK;
    for (uint32_t i = 0; x.kind == PV_DICT && i + 1 < x.n && !rc; i += 2) {
        char key[256];
        span s = pickle_text(&r->p, x.item[i]);
        if (s.n == 0 || s.n >= sizeof key || memchr(s.p, 0, s.n) || !utf8_is_valid(s)) continue;
        memcpy(key, s.p, s.n);
        key[s.n] = 0;
        rc = add_json(r, to, key, x.item[i + 1], skip, depth);
    }
    for (uint32_t i = 0; x.kind != PV_DICT && i < x.n && !rc; i++) rc = add_json(r, to, NULL, x.item[i], skip, depth);
    return rc;
}

static int add_json(pickle_reader *r, json *to, const char *key, pv v, pv skip, int depth)
{
    const pickle_value *x = pickle_at(&r->p, v);
    int rc = visit_value(r, depth);
    json *made;
    if (rc || v == skip) return rc;
    switch (x->kind) {
    case PV_NONE: made = json_add_null(to, key); break;
    case PV_BOOL: made = json_add_bool(to, key, x->i != 0); break;
    case PV_INT: made = json_add_num(to, key, (double)x->i); break;
    case PV_FLOAT: made = isfinite(x->f) ? json_add_num(to, key, x->f) : json_add_null(to, key); break;
    case PV_STR:
    case PV_BYTES: made = add_text(to, key, pickle_text(&r->p, v)); break;
    case PV_DICT:
        made = json_add_object(to, key);
        rc = made ? add_members(r, made, v, skip, depth + 1) : OK;
        break;
    case PV_TUPLE:
    case PV_LIST:
    case PV_SET:
        if (x->n > JSON_LIST_MAX) return OK;
        made = json_add_array(to, key);
        rc = made ? add_members(r, made, v, skip, depth + 1) : OK;
        break;
    default:
        if (!torch_dtype_name(&r->p, v)) return OK;
        made = json_add_str(to, key, torch_dtype_name(&r->p, v));
    }
    return made ? rc : err_memory(r->e, NULL);
}

/* All plain values, the weights left out; nothing when there are none. */
static int set_config(pickle_reader *r, pv weights)
{
    json *all = json_new_object();
    int rc = all ? OK : err_memory(r->e, NULL);
    if (!rc) rc = weights == r->root ? OK : add_members(r, all, r->root, weights, 0);
    if (!rc && json_first(all)) {
        json *copy = json_copy(all);
        if (!copy) rc = err_memory(r->e, NULL);
        else ckpt_set_metadata(r->c, copy);
        ckpt_set_config(r->c, all);
        return rc;
    }
    json_free(all);
    return rc;
}

static int list_all(pickle_reader *r)
{
    char name[CKPT_NAME_MAX + 1];
    pv weights = r->root;
    r->known = mem_zero(r->p.n, 1);
    if (!r->known) return err_memory(r->e, NULL);
    int rc = unwrap(r, &weights);
    if (!rc) rc = collect_tensors(r, weights, name, 0, 0);
    if (!rc && r->n == 0) rc = refuse_archive(r, "holds no tensors");
    if (!rc) rc = list_found(r);
    return rc ? rc : set_config(r, weights);
}

static int pickle_list(ckpt *c, uint32_t file, err *e)
{
    pickle_reader r = {.c = c, .file = file, .e = e};
    span all = ckpt_file_bytes(c, file);
    torch_host(&r.world, &r.p.host);
    int rc;
    if (span_starts(all, "PK")) {
        zip z;
        rc = zip_list(&z, all, e);
        if (!rc) rc = load_zip(&r, all, &z);
        zip_free(&z);
    } else {
        rc = load_legacy(&r, all);
    }
    if (!rc) rc = list_all(&r);
    mem_free(r.found);
    mem_free(r.known);
    map_free(&r.names);
    torch_world_free(&r.world);
    pickle_free(&r.p);
    return rc;
}

static int pickle_probe(span file)
{
    if (span_starts(file, "PK\x03\x04")) return 90;
    return file.n >= 4 && file.p[0] == 0x80 && file.p[1] >= 2 && file.p[1] <= 5 ? 70 : 0;
}

const ckpt_reader format_pickle = {"pickle", pickle_probe, pickle_list, .may_share = true};
