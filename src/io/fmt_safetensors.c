/* fmt_safetensors.c - safetensors: 8 bytes of header length, a JSON header, the tensors' bytes.
 *
 * Source: the format text of huggingface/safetensors. Its rules are kept: header at most 100 MB and starting with '{',
 * no key twice, data_offsets relative to the end of the header, ascending, inside the file, no overlap and no hole
 * (then a second file cannot hide in it). ckpt.c calls this format and is called back. */
#include "io/ckpt_build.h"
#include "io/safetensors.h"
#include "io/self_contained.h"

#include <string.h>

enum { HEADER_MAX = 100000000 };

static dtype type_of(const char *name)
{
#define X(text, id)                                                                                                    \
    if (strcmp(name, text) == 0) return DTYPE_##id;
    SAFETENSORS_TYPES(X)
#undef X
    return DTYPE_NONE;
}

static int safetensors_probe(span file)
{
    cursor c = cursor_of(file);
    uint64_t n = cursor_u64(&c);
    if (c.bad || n < 2 || file.n < 9 || file.p[8] != '{') return 0;
    return n <= file.n - 8 ? 90 : 50; /* 50: a truncated file still gets the message of its own format */
}

static bool read_size(const json *j, uint64_t *out)
{
    int64_t v = json_int(j, -1);
    *out = (uint64_t)v;
    return v >= 0;
}

static int list_tensor(ckpt *c, uint32_t file, const json *m, const self_contained *own, uint64_t data_at,
                       uint64_t *sum, err *e)
{
    const char *name = json_key(m), *type_name = json_str(json_get(m, "dtype"), NULL);
    const json *dims_json = json_get(m, "shape"), *offsets = json_get(m, "data_offsets");
    shape dims = {0};
    uint64_t begin, end;
    bool packed = false;
    if (!type_name || json_type(dims_json) != JSON_ARRAY || json_count(offsets) != 2 ||
        json_type(offsets) != JSON_ARRAY)
        return err_set(e, ERR_FORMAT, "tensor \"%.80s\": dtype, shape or data_offsets is missing", name);
    dtype type = type_of(type_name);
    if (type == DTYPE_NONE)
        return err_set(e, ERR_FORMAT, "tensor \"%.80s\": dtype \"%.40s\" is not supported", name, type_name);
    for (const json *d = json_first(dims_json); d; d = json_next(d)) {
        uint64_t v;
        if (dims.rank == SHAPE_MAX)
            return err_set(e, ERR_FORMAT, "tensor \"%.80s\": more than %d dimensions", name, SHAPE_MAX);
        if (!read_size(d, &v))
            return err_set(e, ERR_FORMAT, "tensor \"%.80s\": a dimension is not a whole number", name);
        dims.dim[dims.rank++] = (int64_t)v;
    }
    if (!read_size(json_at(offsets, 0), &begin) || !read_size(json_at(offsets, 1), &end) || begin > end ||
        end > ckpt_file_bytes(c, file).n)
        return err_set(e, ERR_FORMAT, "tensor \"%.80s\": data_offsets lie outside the file: incomplete download?",
                       name);
    *sum += end - begin; /* below 2^20 tensors * file size: ckpt_add bounds both */
    int rc = type == DTYPE_U8 ? self_tensor(own, name, &type, &packed, &dims, e) : OK;
    if (rc) return rc;
    return (packed ? ckpt_add_packed : ckpt_add)(c, file, span_str(name), type, &dims, data_at + begin, end - begin, e);
}

static int safetensors_list(ckpt *c, uint32_t file, err *e)
{
    span all = ckpt_file_bytes(c, file);
    cursor in = cursor_of(all);
    uint64_t n = cursor_u64(&in), sum = 0;
    if (n > HEADER_MAX)
        return err_set(e, ERR_FORMAT, "safetensors header of %llu bytes; at most 100 MB", (unsigned long long)n);
    span text = cursor_take(&in, n);
    if (in.bad) return err_set(e, ERR_FORMAT, "the file ends inside the safetensors header: incomplete download?");
    json *header;
    int rc = json_parse(&header, text, "safetensors header", e);
    if (!rc && json_type(header) != JSON_OBJECT) rc = err_set(e, ERR_FORMAT, "safetensors header is not an object");
    const json *metadata = rc ? NULL : json_get(header, "__metadata__");
    for (const json *v = json_first(metadata); v && !rc; v = json_next(v))
        if (json_type(v) != JSON_STRING) rc = err_set(e, ERR_FORMAT, "__metadata__ may hold only strings");
    json *copy = rc || !metadata ? NULL : json_copy(metadata);
    if (!rc && metadata && !copy) rc = err_memory(e, NULL);
    ckpt_set_metadata(c, copy);
    self_contained own = {0};
    if (!rc) rc = self_open(&own, metadata, e);
    for (const json *m = rc ? NULL : json_first(header); m && !rc; m = json_next(m))
        if (m != metadata) rc = list_tensor(c, file, m, &own, 8 + n, &sum, e);
    self_close(&own);
    if (!rc && sum != all.n - 8 - n)
        rc = err_set(e, ERR_FORMAT, "tensors take %llu bytes, the file has %llu for them", (unsigned long long)sum,
                     (unsigned long long)(all.n - 8 - n));
    json_free(header);
    return rc;
}

const ckpt_reader format_safetensors = {"safetensors", safetensors_probe, safetensors_list};
