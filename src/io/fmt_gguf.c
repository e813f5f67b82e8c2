/* fmt_gguf.c - GGUF versions 2 and 3, one file or split ("name-00001-of-00003.gguf").
 *
 * Source: docs/gguf.md of ggml. Little-endian: magic, version, counts, key-values, tensor infos, padding, data. The
 * rules below are stricter than the text; each answers a published hole in some reader (lengths that overflow, counts
 * that allocate, offsets that leave the file): every read goes through one cursor, counts are compared with the bytes
 * left before anything is allocated, arrays do not nest, and nothing recurses. What a tensor says about its place is
 * checked by ckpt_add. ckpt.c calls this format and is called back. */
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "io/ckpt_build.h"
#include "io/gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 256, NAME_MAX_BYTES = 255, KEYS_MAX = 1 << 16, STRING_MAX = 1 << 20, TOKENIZER_STRING_MAX = 1 << 26 };
enum { KEY_VALUE_MIN = 8 + 1 + 4 + 1, TENSOR_MIN = 8 + 1 + 4 + 8 + 4 + 8, CONFIG_ELEMENTS_MAX = 1 << 20 };
enum { ALIGN_MIN = 8, ALIGN_MAX = 65536 };

static const struct {
    uint8_t bytes;
    meta_kind kind;
} type_info[GGUF_TYPE_COUNT] = {
#define X(id, value, size, meta) [value] = {size, meta},
    GGUF_TYPES(X)
#undef X
};

typedef struct gguf_reader {
    cursor in;
    ckpt *c;
    uint32_t file;
    json *config;
    map keys;
    uint64_t tensors, elements; /* elements: put into config's arrays so far */
    uint64_t alignment, split_no, split_count, split_tensors;
    err *e;
} gguf_reader;

static int refuse_gguf(gguf_reader *r, const char *why)
{
    return err_set(r->e, ERR_FORMAT, "GGUF, byte %zu: %s", r->in.at, why);
}
static int ends_early(gguf_reader *r) { return refuse_gguf(r, "the file ends too early: incomplete download?"); }
static int read_string(gguf_reader *r, uint64_t max, span *out)
{
    uint64_t n = cursor_u64(&r->in);
    if (!r->in.bad && n > max) return refuse_gguf(r, "a string is too long");
    *out = cursor_take(&r->in, n);
    return r->in.bad ? ends_early(r) : OK;
}

static bool is_text(span s) { return (s.n == 0 || !memchr(s.p, 0, s.n)) && utf8_is_valid(s); }

/* ---- values */

static int64_t int_at(const uint8_t *p, uint32_t type)
{
    cursor c = cursor_of(span_of(p, type_info[type].bytes));
    uint64_t v = cursor_uint(&c, type_info[type].bytes);
    switch (type) {
    case GGUF_I8: return (int8_t)v;
    case GGUF_I16: return (int16_t)v;
    case GGUF_I32: return (int32_t)v;
    default: return (int64_t)v;
    }
}

static double float_at(const uint8_t *p, uint32_t type)
{
    float f;
    double d;
    if (type == GGUF_F32) memcpy(&f, p, 4);
    else memcpy(&d, p, 8);
    return type == GGUF_F32 ? (double)f : d;
}

/* Adds a number or bool to config: key NULL appends to an array. Numbers beyond 2^53 are rounded, as JSON has them. */
static json *add_scalar(json *to, const char *key, const uint8_t *p, uint32_t type)
{
    if (type_info[type].kind == META_BOOL) return json_add_bool(to, key, *p != 0);
    if (type == GGUF_U64) return json_add_num(to, key, (double)(uint64_t)int_at(p, type));
    if (type_info[type].kind == META_INT) return json_add_num(to, key, (double)int_at(p, type));
    double v = float_at(p, type);
    return isfinite(v) ? json_add_num(to, key, v) : json_add_null(to, key);
}

static json *add_text(json *to, const char *key, span s)
{
    char *copy = mem_strn((const char *)s.p, s.n);
    json *j = copy ? json_add_str(to, key, copy) : NULL;
    mem_free(copy);
    return j;
}

static int read_scalar(gguf_reader *r, const char *key, uint32_t type, uint64_t *as_int)
{
    span s = cursor_take(&r->in, type_info[type].bytes);
    if (r->in.bad) return ends_early(r);
    if (type == GGUF_BOOL && *s.p > 1) return refuse_gguf(r, "a bool is neither 0 nor 1");
    if (type_info[type].kind == META_FLOAT && !isfinite(float_at(s.p, type)))
        return err_set(r->e, ERR_FORMAT, "GGUF key \"%s\" is not a finite number", key);
    if (type_info[type].kind == META_INT) *as_int = (uint64_t)int_at(s.p, type);
    return add_scalar(r->config, key, s.p, type) ? OK : err_memory(r->e, NULL);
}

/* Copies a short array into config. */
static int config_array(gguf_reader *r, const char *key, const ckpt_array *a)
{
    json *list = json_add_array(r->config, key);
    uint64_t at = 0;
    bool ok = list != NULL;
    for (uint64_t i = 0; i < a->count && ok; i++) {
        if (a->kind != META_STRING) {
            ok = add_scalar(list, NULL, a->data + i * type_info[a->type].bytes, a->type);
            continue;
        }
        span s = ckpt_array_string(a, &at);
        ok = is_text(s) ? add_text(list, NULL, s) : json_add_null(list, NULL); /* vocabularies may hold raw bytes */
    }
    r->elements += a->count;
    return ok ? OK : err_memory(r->e, NULL);
}

static int read_array(gguf_reader *r, const char *key, span key_span)
{
    uint32_t type = cursor_u32(&r->in);
    uint64_t count = cursor_u64(&r->in);
    if (r->in.bad) return ends_early(r);
    if (type >= GGUF_TYPE_COUNT || type == GGUF_ARRAY)
        return refuse_gguf(r, "an array of arrays, or of an unknown type");
    bool strings = type == GGUF_STRING;
    if (!cursor_has(&r->in, count, strings ? 8 : type_info[type].bytes))
        return refuse_gguf(r, "an array has more elements than the file has bytes for");
    ckpt_array a = {.kind = type_info[type].kind, .count = count, .data = r->in.p + r->in.at, .type = type};
    if (strings) {
        for (uint64_t i = 0; i < count; i++) {
            span s;
            int rc = read_string(r, STRING_MAX, &s);
            if (rc) return rc;
        }
    } else {
        cursor_take(&r->in, count * type_info[type].bytes);
    }
    a.bytes = (uint64_t)(r->in.p + r->in.at - a.data);
    int rc = ckpt_add_meta(r->c, key_span, &a, false, r->e);
    if (rc || count > GGUF_ARRAY_IN_CONFIG_MAX || r->elements + count > CONFIG_ELEMENTS_MAX) return rc;
    return config_array(r, key, &a);
}

static int note_special(gguf_reader *r, const char *key, uint32_t type, uint64_t v)
{
    if (strcmp(key, "general.alignment") == 0) {
        if (type != GGUF_U32 || v < ALIGN_MIN || v > ALIGN_MAX || (v & (v - 1)) != 0)
            return refuse_gguf(r, "general.alignment is not a power of two between 8 and 65536");
        r->alignment = v;
    }
    if (strcmp(key, "split.no") == 0) r->split_no = v;
    if (strcmp(key, "split.count") == 0) r->split_count = v;
    if (strcmp(key, "split.tensors.count") == 0) r->split_tensors = v;
    return OK;
}

static int read_key_value(gguf_reader *r)
{
    span name, text;
    int rc = read_string(r, KEY_MAX, &name);
    if (rc) return rc;
    if (name.n == 0 || !is_text(name)) return refuse_gguf(r, "a key is empty or not text");
    if (map_get(&r->keys, name) != MAP_NONE)
        return err_set(r->e, ERR_FORMAT, "GGUF key \"%.*s\" appears twice", (int)name.n, (const char *)name.p);
    if (!map_put(&r->keys, name, 0)) return err_memory(r->e, NULL);
    char key[KEY_MAX + 1];
    memcpy(key, name.p, name.n);
    key[name.n] = 0;
    uint32_t type = cursor_u32(&r->in);
    uint64_t value = 0;
    if (r->in.bad) return ends_early(r);
    if (type >= GGUF_TYPE_COUNT) return refuse_gguf(r, "a value of an unknown type");
    if (type == GGUF_ARRAY) return read_array(r, key, name);
    ckpt_array one = {.kind = type_info[type].kind, .count = 1, .data = r->in.p + r->in.at, .type = type};
    if (type == GGUF_STRING) {
        rc = read_string(r, strncmp(key, "tokenizer.", 10) == 0 ? TOKENIZER_STRING_MAX : STRING_MAX, &text);
        if (rc) return rc;
        if (!is_text(text)) return err_set(r->e, ERR_FORMAT, "GGUF key \"%s\" is not UTF-8 text", key);
        rc = add_text(r->config, key, text) ? OK : err_memory(r->e, NULL);
    } else {
        rc = read_scalar(r, key, type, &value);
        if (!rc) rc = note_special(r, key, type, value);
    }
    one.bytes = (uint64_t)(r->in.p + r->in.at - one.data);
    return rc ? rc : ckpt_add_meta(r->c, name, &one, true, r->e);
}

/* ---- tensors */

static const char *why_unknown(uint32_t type)
{
    if (type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38))
        return "no longer part of ggml";
    return type >= 97 ? "a type of a fork" : "not known";
}

/* Reads a tensor info and lists the tensor; its offset counts from `data_at`, which is known only when all infos are
 * read: so this runs twice, first with list false to find where the infos end. */
static int read_tensor(gguf_reader *r, uint64_t data_at, bool list)
{
    span name;
    int rc = read_string(r, NAME_MAX_BYTES, &name);
    if (rc) return rc;
    uint32_t rank = cursor_u32(&r->in);
    if (r->in.bad) return ends_early(r);
    if (rank < 1 || rank > GGUF_DIMS_MAX) return refuse_gguf(r, "a tensor does not have 1 to 4 dimensions");
    shape dims = {.rank = (int)rank};
    for (uint32_t i = 0; i < rank; i++) { /* the file has the contiguous dimension first */
        uint64_t d = cursor_u64(&r->in);
        if (!r->in.bad && (d < 1 || d > INT64_MAX)) return refuse_gguf(r, "a dimension is zero or too large");
        dims.dim[rank - 1 - i] = (int64_t)d;
    }
    uint32_t type = cursor_u32(&r->in);
    uint64_t offset = cursor_u64(&r->in), count, bytes;
    if (r->in.bad) return ends_early(r);
    if (!list) return OK;
    int shown = (int)name.n;
    const char *p = (const char *)name.p;
    dtype t = dtype_by_ggml(type);
    if (t == DTYPE_NONE)
        return err_set(r->e, ERR_FORMAT, "tensor \"%.*s\": ggml type %u is %s", shown, p, type, why_unknown(type));
    if (!shape_count(&dims, &count) || !dtype_bytes(t, count, &bytes))
        return err_set(r->e, ERR_FORMAT, "tensor \"%.*s\": impossible size for type %s", shown, p, dtype_info[t].name);
    if (offset % r->alignment != 0 || !mem_add(offset, data_at, &offset))
        return err_set(r->e, ERR_FORMAT, "tensor \"%.*s\": its offset is not a multiple of %llu", shown, p,
                       (unsigned long long)r->alignment);
    return ckpt_add(r->c, r->file, name, t, &dims, offset, bytes, r->e);
}

static int read_tensors(gguf_reader *r)
{
    size_t infos_at = r->in.at;
    uint64_t data_at = 0;
    for (int pass = 0; pass < 2; pass++) {
        r->in.at = infos_at;
        for (uint64_t i = 0; i < r->tensors; i++) {
            int rc = read_tensor(r, data_at, pass == 1);
            if (rc) return rc;
        }
        data_at = (r->in.at + r->alignment - 1) / r->alignment * r->alignment;
    }
    return OK;
}

/* ---- the file */

static int read_header(gguf_reader *r)
{
    span magic = cursor_take(&r->in, 4);
    uint32_t version = cursor_u32(&r->in);
    r->tensors = cursor_u64(&r->in);
    uint64_t keys = cursor_u64(&r->in);
    if (r->in.bad || !span_is(magic, "GGUF")) return refuse_gguf(r, "not a GGUF header");
    if ((version & 0xffff) == 0) return refuse_gguf(r, "a big-endian file: convert it first");
    if (version != 2 && version != 3)
        return err_set(r->e, ERR_FORMAT, "GGUF version %u is not known (2 and 3 are)", version);
    if (keys > KEYS_MAX || !cursor_has(&r->in, keys, KEY_VALUE_MIN))
        return refuse_gguf(r, "more keys than the file can hold");
    if (r->tensors > CKPT_TENSORS_MAX || !cursor_has(&r->in, r->tensors, TENSOR_MIN))
        return refuse_gguf(r, "more tensors than the file can hold");
    for (uint64_t i = 0; i < keys; i++) {
        int rc = read_key_value(r);
        if (rc) return rc;
    }
    return OK;
}

/* One file: its keys become the config if there is none yet. */
static int list_one(ckpt *c, uint32_t file, gguf_reader *r, err *e)
{
    *r = (gguf_reader){
        .in = cursor_of(ckpt_file_bytes(c, file)), .c = c, .file = file, .alignment = GGUF_ALIGNMENT, .e = e};
    r->config = json_new_object();
    int rc = r->config ? read_header(r) : err_memory(r->e, NULL);
    if (!rc) rc = read_tensors(r);
    map_free(&r->keys);
    ckpt_set_config(c, r->config);
    return rc;
}

/* The other parts of a split model: "-%05d-of-%05d.gguf" ends the name of each. */
static int list_parts(ckpt *c, const gguf_reader *first, err *e)
{
    char tail[32], name[512];
    const char *path = ckpt_file(c, first->file), *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    unsigned count = (unsigned)first->split_count;
    if (first->split_count > 1000) return err_set(e, ERR_FORMAT, "split into more than 1000 files");
    if (first->split_no != 0)
        return err_set(e, ERR_FORMAT, "is part %llu of %u: open the first part",
                       (unsigned long long)first->split_no + 1, count);
    snprintf(tail, sizeof tail, "-00001-of-%05u.gguf", count);
    size_t n = strlen(base), m = strlen(tail);
    if (n <= m || n >= sizeof name || strcmp(base + n - m, tail) != 0)
        return err_set(e, ERR_FORMAT, "is split into %u files, but its name does not end in %s", count, tail);
    uint64_t tensors = first->tensors;
    for (unsigned i = 1; i < count; i++) {
        gguf_reader part;
        uint32_t file;
        snprintf(name, sizeof name, "%.*s-%05u-of-%05u.gguf", (int)(n - m), base, i + 1, count);
        int rc = ckpt_add_file(c, name, &file, e);
        if (rc) return rc;
        if ((rc = list_one(c, file, &part, e))) {
            err_wrap(e, "%s", name);
            return rc;
        }
        if (part.split_no != i || part.split_count != count)
            return err_set(e, ERR_FORMAT, "%s: does not say that it is part %u of %u", name, i + 1, count);
        tensors += part.tensors;
    }
    if (first->split_tensors && first->split_tensors != tensors)
        return err_set(e, ERR_FORMAT, "the parts hold %llu tensors, not %llu", (unsigned long long)tensors,
                       (unsigned long long)first->split_tensors);
    return OK;
}

static int gguf_list(ckpt *c, uint32_t file, err *e)
{
    gguf_reader r;
    int rc = list_one(c, file, &r, e);
    return !rc && r.split_count > 1 ? list_parts(c, &r, e) : rc;
}

static int gguf_probe(span file) { return file.n >= 4 && memcmp(file.p, "GGUF", 4) == 0 ? 100 : 0; }

const ckpt_reader format_gguf = {"gguf",
                                 gguf_probe,
                                 gguf_list,
                                 .source = "gguf",
                                 .arch_key = "general.architecture",
                                 .has_factors = true,
                                 .may_be_empty = true};

/* ---- arrays */

span ckpt_array_string(const ckpt_array *a, uint64_t *at)
{
    cursor in = cursor_of(span_of(a->data, (size_t)a->bytes));
    cursor_take(&in, *at);
    span s = cursor_take(&in, cursor_u64(&in));
    *at = in.bad ? a->bytes : in.at;
    return s;
}

int64_t ckpt_array_int(const ckpt_array *a, uint64_t i)
{
    if (i >= a->count || (a->kind != META_INT && a->kind != META_BOOL)) return 0;
    return int_at(a->data + i * type_info[a->type].bytes, a->type);
}

double ckpt_array_float(const ckpt_array *a, uint64_t i)
{
    return i < a->count && a->kind == META_FLOAT ? float_at(a->data + i * type_info[a->type].bytes, a->type) : 0;
}
