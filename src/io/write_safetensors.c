/* write_safetensors.c - see write_safetensors.h. The header is padded with blanks: data begins at a multiple of 64. */
#include "io/write_safetensors.h"

#include "base/log.h"
#include "base/mem.h"
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { DATA_ALIGN = 64 };

static const char *type_name(dtype t)
{
    switch (t) {
#define X(text, id)                                                                                                    \
    case DTYPE_##id: return text;
        SAFETENSORS_TYPES(X)
#undef X
    default: return NULL;
    }
}

static int by_type_and_name(const void *pa, const void *pb)
{
    const write_tensor *a = *(const write_tensor *const *)pa, *b = *(const write_tensor *const *)pb;
    if (a->aligned != b->aligned) return a->aligned ? -1 : 1;
    if (a->aligned) return a < b ? -1 : a > b; /* of one array */
    int wide_a = dtype_info[a->type].bytes, wide_b = dtype_info[b->type].bytes;
    return wide_a != wide_b ? wide_b - wide_a : strcmp(a->name, b->name);
}

static void add_metadata(buf *b, const json *metadata)
{
    const char *comma = "";
    buf_str(b, "\"__metadata__\":{");
    for (const json *m = json_first(metadata); m; m = json_next(m), comma = ",") {
        buf_str(b, comma);
        json_quote(b, span_str(json_key(m)));
        buf_byte(b, ':');
        json_quote(b, span_str(json_str(m, "")));
    }
    buf_byte(b, '}');
}

static int add_tensor(buf *b, const write_tensor *t, uint64_t *offset, err *e)
{
    uint64_t bytes;
    if (!type_name(t->type))
        return err_set(e, ERR_USAGE, "safetensors has no type %s; write a .gguf file instead",
                       dtype_info[t->type].name);
    if (!write_tensor_bytes(t, &bytes)) return err_set(e, ERR_SPEC, "tensor \"%s\" has an impossible shape", t->name);
    json_quote(b, span_str(t->name));
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", type_name(t->type));
    for (int i = 0; i < t->dims.rank; i++) buf_printf(b, "%s%lld", i ? "," : "", (long long)t->dims.dim[i]);
    buf_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*offset,
               (unsigned long long)(*offset + bytes));
    *offset += bytes;
    return OK;
}

/* Length and header text, padded. */
static int make_header(buf *out, const write_tensor *const *sorted, size_t n, const json *metadata, uint64_t *bytes,
                       err *e)
{
    buf text = {0};
    uint64_t offset = 0;
    int rc = OK;
    buf_byte(&text, '{');
    if (json_first(metadata)) add_metadata(&text, metadata);
    for (size_t i = 0; i < n && !rc; i++) {
        if (text.n > 1) buf_byte(&text, ',');
        rc = add_tensor(&text, sorted[i], &offset, e);
    }
    buf_byte(&text, '}');
    while (!text.bad && (text.n + 8) % DATA_ALIGN != 0) buf_byte(&text, ' ');
    *bytes = offset;
    buf_uint(out, text.n, 8);
    buf_add(out, text.p, text.n);
    if (!rc && (text.bad || out->bad)) rc = err_memory(e, NULL);
    buf_free(&text);
    return rc;
}

int write_safetensors(const char *path, const write_tensor *t, size_t n, const json *metadata, err *e)
{
    buf header = {0};
    file_out *f = NULL;
    const write_tensor **sorted = mem_array(n, sizeof *sorted);
    if (!sorted) return err_memory(e, NULL);
    for (size_t i = 0; i < n; i++) sorted[i] = &t[i];
    if (n) qsort(sorted, n, sizeof *sorted, by_type_and_name);
    uint64_t bytes;
    int rc = make_header(&header, sorted, n, metadata, &bytes, e);
    if (!rc) rc = file_create(&f, path, e);
    if (!rc) rc = file_reserve(f, header.n + bytes, e);
    if (!rc) rc = file_write(f, header.p, header.n, e);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = write_rows(f, sorted[i], 1, e);
        if (!sorted[i]->stream) log_progress("writing", "tensors", i + 1, n);
    }
    if (rc) file_abandon(f);
    else rc = file_commit(f, e);
    buf_free(&header);
    mem_free(sorted);
    return rc;
}
